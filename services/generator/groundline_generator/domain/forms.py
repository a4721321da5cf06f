"""Forms of a word: inflections, participles, compounds that hold it, and compounds in parts."""

import math
import tomllib
from collections.abc import Collection
from functools import lru_cache
from importlib.resources import files
from typing import Final

from groundline_language.terms import content_terms

_VERBS: Final[dict[str, str]] = tomllib.loads(
    (files("groundline_generator.domain") / "forms.toml").read_text(encoding="utf-8")
)
_SEPARABLE: Final = ("", *_VERBS["separable"].split())
_INSEPARABLE: Final = ("", *_VERBS["inseparable"].split())
_STRONG: Final = dict(each.split("|") for each in _VERBS["strong"].split())
_IRREGULAR: Final = {
    form: frozenset(forms) - {form}
    for forms in (content_terms(each.replace("|", " "), "english") for each in _VERBS["irregular"].split())
    for form in forms
}

MIN_VARIANT_LENGTH: Final = 5
"""Minimum letters of words of which one may be a form of the other."""

_VARIANT_PREFIX_SHARE: Final = 0.7
_LEAST_PART: Final = 3
"""Minimum length of a part of a compound; fewer letters are a prefix, which makes another word."""

_PREFIXES: Final = frozenset(("ab", "an", "be", "er", "ge", "um", "zu"))
"""German ones that leave what the word is about: *Antrag*, *beantragen*."""

_LINKS: Final = frozenset(("", "e", "en", "er", "es", "n", "s"))
"""Letters that may stand between the parts of a compound, as in *Stundenlohn*."""

_LONGEST_VERB: Final = 40
"""Maximum letters of a verb; what is longer is none, and not worth a place in the cache."""

_LONGER: Final = 5
"""Maximum letters by which a participle differs in length from the stem of its verb."""


def verb_forms(term: str, words: Collection[str], language: str | None) -> frozenset[str]:
    """Return the words that are a participle of a verb, or of which the term is one; in English its past
    tense as well. Those that have its regular stem are not among them."""
    if language == "english":
        return _IRREGULAR.get(term, frozenset()).intersection(words)
    if language != "german" or len(term) > _LONGEST_VERB:
        return frozenset()
    found = participles(term).intersection(words)
    if "ge" not in term:
        return found
    near = (each for each in words if abs(len(each) - len(term)) <= _LONGER)
    return found.union(each for each in near if term in participles(each))


@lru_cache(maxsize=8192)
def participles(verb: str) -> frozenset[str]:
    """Return the terms that the participle of a German verb may have, such as *mitgebracht* of *mitbring* and
    *gebohrt* of *bohr*; some match a verb alone."""
    found: set[str] = set()
    for prefix in _SEPARABLE:
        rest = verb.removeprefix(prefix)
        if not verb.startswith(prefix) or len(rest) < _LEAST_PART:
            continue
        found |= {f"{prefix}ge{rest}t", f"{prefix}ge{rest}et"}
        for bound in _INSEPARABLE:
            if rest.startswith(bound) and (strong := _STRONG.get(rest.removeprefix(bound))):
                found.add(f"{prefix}{bound or 'ge'}{strong}")
    return frozenset(found) - {verb}


def is_variant(term: str, other: str) -> bool:
    """Tell whether words begin alike, or one of them holds the other."""
    return (
        _holds(other, term)
        or _holds(term, other)
        or (term[:MIN_VARIANT_LENGTH] in other and begins_like(term, other))
    )


def begins_like(term: str, other: str) -> bool:
    """Tell whether two words of one language share so much of their beginning that they are forms of one."""
    return begin_alike(term, other, MIN_VARIANT_LENGTH, _VARIANT_PREFIX_SHARE)


def _holds(word: str, part: str) -> bool:
    """Tell whether a word has another as its beginning, or as a part that a part of its own stands before:
    *phone* in *smartphone*, but not *dress* in *address*."""
    before, found, _ = word.partition(part)
    return bool(found) and (not before or len(before) >= _LEAST_PART or before in _PREFIXES)


def begin_alike(term: str, other: str, least: int, share: float) -> bool:
    """Tell whether two terms share so much of their beginning, `least` letters and a share of the longer,
    that they are forms of one word."""
    if term[:least] != other[:least]:
        return False
    shared = max(least, math.ceil(share * max(len(term), len(other))))
    return term[:shared] == other[:shared]


def parts_among(compound: str, words: Collection[str]) -> frozenset[str]:
    """Return the words that a compound begins and ends with, such as *stund* and *lohn* of *stundenlohn*;
    empty unless both are there."""
    firsts = [each for each in words if compound.startswith(each) and len(each) >= _LEAST_PART]
    if not firsts:
        return frozenset()
    lasts = [each for each in words if compound.endswith(each) and len(each) >= _LEAST_PART]
    return frozenset(
        part
        for first in firsts
        for last in lasts
        if len(first) + len(last) <= len(compound) and compound[len(first) : -len(last)] in _LINKS
        for part in (first, last)
    )
