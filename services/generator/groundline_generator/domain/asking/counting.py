"""Questions for a count, and sentences that count the same things, in English and German."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import product, takewhile
from typing import Final, NamedTuple

from groundline_language.concepts import is_part, synonyms
from groundline_language.terms import content_terms

from groundline_generator.domain.asking.asked import NUMBER
from groundline_generator.domain.forms import begins_like
from groundline_generator.domain.signs import UNITS, quantities

_REST: Final = (
    r"(?:of|in|on|at|for|with|per|to|from|by|and|or|that|which|who|there|are|is|was|were|do|does|did|can|could|may"
    r"|must|should|will|would|has|have|had|am)"
)
_WORDS: Final = rf"(?:(?!{_REST}\b)[^\W\d_][\w'’-]*\s*)"
_COUNTED: Final = {
    "english": re.compile(
        rf"\bhow (?:many|(?P<much>much))\s+(?P<things>{_WORDS}{{1,4}})(?:of\s+(?P<of>{_WORDS}{{1,3}}))?",
        re.IGNORECASE,
    ),
    "german": re.compile(
        r"\b[Ww]ie ?(?:viele\s+(?:[a-zäöüß-]+\s+){0,2}?|(?P<much>viel)\s+)"
        r"(?P<things>[A-ZÄÖÜ][\w-]+)(?:\s+(?P<of>[A-ZÄÖÜ][\w-]+))?"
    ),
}
"""Things that a question counts: in English the words up to one that begins the rest, in German the first
noun; and what they are of, as in "days of leave", "Tage Urlaub"."""

_ALWAYS: Final = re.compile(
    r"\b(?:people|persons?|times|money|time|geld|zeit|menschen|leute|personen|male)\b", re.IGNORECASE
)
"""Things that are counted under other names (people as visitors or workers) or none, as in "twice"."""

_AFTER: Final = 4
_BEFORE: Final = 3
"""Number of words after a number, and before it, among which is what it counts."""

_ALIKE: Final = 5
_ENDING: Final = 3
"""Letters by which words that begin alike may differ in length and are still forms of one."""

_SHORTEST_PART: Final = 3
_TOKEN: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W_]+(?:['’-][^\W_]+)*|[.;:!?)]")
_NONE: Final = re.compile(r"none|no|keine?[nrs]?", re.IGNORECASE)
_YEAR: Final = re.compile(r"1\d{3}|20\d\d")


class Counted(NamedTuple):
    """Terms of the things whose number a question asks for; empty if it asks for none, or if an answer need
    not name them. Of a unit, its name, and the terms of what it measures."""

    things: frozenset[str] = frozenset()
    unit: str | None = None
    of: frozenset[str] = frozenset()
    is_amount: bool = False
    """Whether it asks how much of something there is, which an answer need not name beside the number."""


def counted(query: str, language: str | None) -> Counted:
    """Return what a question counts."""
    pattern = _COUNTED.get(language or "")
    if pattern and language == "german" and query[1:].islower():  # as many people type
        pattern = re.compile(pattern.pattern, re.IGNORECASE)
    found = pattern.search(query) if pattern else None
    if found is None or _ALWAYS.search(found["things"]):
        return Counted()
    things = frozenset(content_terms(found["things"], language))
    unit = UNITS.get(found["things"].split()[-1].casefold())
    of = frozenset(content_terms(found["of"] or "", language) if unit else ())
    return Counted(things, unit, of, found["much"] is not None)


def counts(text: str, counted: Counted, language: str, around: Collection[str]) -> bool:
    """Tell whether a number stands beside a word for what is counted.

    Of a German compound the end is enough beside it if the terms `around` have the beginning: "29 Arbeitstage
    Urlaub" counts Urlaubstage, "29 Arbeitstage" alone does not.
    """
    for terms in _beside_numbers(text, language):
        for thing, term in product(counted.things, terms):
            if _is_form(thing, term) or _is_split(thing, term, around) or term in synonyms(thing, language):
                return True
    return counted.unit is not None and any(each.unit == counted.unit for each in quantities(text))


def counts_by_name(text: str, counted: Counted, language: str) -> bool:
    """Tell whether all that is counted stands beside a number, in other words or apart: "30 Arbeitstage
    Erholungsurlaub" counts Urlaubstage."""
    return any(
        all(_is_named(thing, terms, language) for thing in counted.things | counted.of)
        for terms in _beside_numbers(text, language)
    )


def _is_named(thing: str, terms: Sequence[str], language: str) -> bool:
    meanings = synonyms(thing, language)
    return any(
        is_part(thing, term.replace("-", ""))
        or begins_like(thing, term)
        or _is_split(thing, term, terms)
        or term in meanings
        for term in terms
    )


def _beside_numbers(text: str, language: str) -> Iterator[Sequence[str]]:
    """Yield the terms that stand beside each number of a text, or beside a "no"."""
    tokens = _TOKEN.findall(text)
    for place, token in enumerate(tokens):
        if not NUMBER.match(token) and not _NONE.fullmatch(token):
            continue
        before, after = _BEFORE, _AFTER
        # "1900 households" counts them, "since 1900 the households" does not.
        if _YEAR.fullmatch(token):
            before, after = 0, 1
        # "A player has no cards" counts cards.
        elif token.casefold() == "no" or token.casefold().startswith("kein"):
            before = 0
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if following[:1].isupper() if language == "german" else content_terms(following, language):
            before = 0
        beside = (*tokens[max(0, place - before) : place], *tokens[place + 1 : place + 1 + after])
        yield content_terms(" ".join(beside), language)


def _is_form(thing: str, term: str) -> bool:
    term = term.replace("-", "")
    return is_part(thing, term) or (
        thing[:_ALIKE] == term[:_ALIKE]
        and min(len(thing), len(term)) >= _ALIKE
        and abs(len(thing) - len(term)) <= _ENDING
    )


def _is_split(thing: str, term: str, around: Collection[str]) -> bool:
    """Tell whether a term ends as a compound does, of which the beginning stands elsewhere."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(reversed(thing), reversed(term), strict=False))
    length = sum(1 for _ in alike)
    first = thing[: len(thing) - length]
    if min(length, len(first)) < _SHORTEST_PART:
        return False
    return any(
        len(each) >= _SHORTEST_PART and (first.startswith(each) or each.endswith(first)) for each in around
    )
