"""Questions for what is not so or must not be, and sentences that say it, in English and German."""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from importlib.resources import files
from typing import Final

_LANGUAGES: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (files("groundline_generator.domain") / "negations.toml").read_text(encoding="utf-8")
)


def _any(*kinds: str) -> str:
    """Return the pattern of the words of some kinds in any language."""
    return "|".join(words[kind] for words in _LANGUAGES.values() for kind in kinds)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE | re.VERBOSE)


_NOT: Final = _any("not")
_FORBIDDEN: Final = _any("forbidden")
_DENIED_VERB: Final = rf"\w+(?:{_any('denied_verb')})"

_CONTRARY: Final = tuple(words["contrary"] for words in _LANGUAGES.values())
_LEAST_CONTRARY: Final = 4
"""Minimum letters of a word that may stand behind such a prefix, or be the beginning of another."""

_SENTENCE_END: Final = re.compile("[.?!]")
_MAY: Final = _words(_any("may"))
_IS_NOT: Final = _words(_NOT)
_IS_FORBIDDEN: Final = _words(_FORBIDDEN)
_BEFORE_ASKING: Final = 4
"""Maximum number of words before the one that asks: "Can you tell me which …"."""

_EXCLUSION: Final = re.compile(
    rf"^\W*(?:\w+\s+){{0,{_BEFORE_ASKING}}}(?:{_any('asking')})\b(?:(?!\b(?:{_any('condition')})\b)[^,;.?!])*?"
    rf"\b(?:{_NOT}|{_DENIED_VERB}|{_any('excluded')})\b",
    re.IGNORECASE | re.VERBOSE,
)
_PERMISSION: Final = _words(_any("permitted"))
_DENIAL: Final = _words(rf"{_NOT}|{_DENIED_VERB}|{_FORBIDDEN}|{_any('excluded', 'none')}")
_LIMIT: Final = _words(_any("limit"))
_WITHOUT: Final = _words(_any("without"))
_LIGHT: Final = _words(_any("light"))
_PLACE: Final = _words(_any("place"))
_MODE: Final = _words(
    rf"{_NOT}|{_DENIED_VERB}|{_FORBIDDEN}|{_any('may', 'permitted', 'excluded', 'emphasis')}"
)


def asks_what_is_not(query: str) -> bool:
    """Tell whether a question asks what must not be done or is not so, or where, or of whom."""
    # One search for both words would take the square of the length of a question of nothing but "not".
    return (
        _IS_FORBIDDEN.search(query) is not None
        or any(_MAY.search(part) and _IS_NOT.search(part) for part in _SENTENCE_END.split(query))
        or _EXCLUSION.search(query) is not None
    )


def denying_words(query: str) -> str:
    """Return the words by which a question for what is not so asks that; a sentence may say it in other
    ones."""
    return " ".join(_MODE.findall(query))


def light_words(query: str) -> str:
    """Return the verbs of a question that say little of what it is about."""
    return " ".join(_LIGHT.findall(query))


def places(text: str) -> str:
    """Return the words by which a sentence says where something is so."""
    return " ".join(_PLACE.findall(text))


def denies(text: str) -> bool:
    """Tell whether a sentence says that something is not so, or must not be."""
    return _DENIAL.search(text) is not None or (
        _WITHOUT.search(text) is not None and _PERMISSION.search(text) is None
    )


def contraries(terms: Collection[str], wanted: Iterable[str]) -> frozenset[str]:
    """Return the wanted terms of which the contrary is among the terms: *suitable* beside *unsuitable*."""
    denied = [term.removeprefix(prefix) for term in terms for prefix in _CONTRARY if term.startswith(prefix)]
    return frozenset(term for term in wanted if any(_begin_alike(term, each) for each in denied))


def _begin_alike(first: str, second: str) -> bool:
    shorter, longer = sorted((first, second), key=len)
    return len(shorter) >= _LEAST_CONTRARY and longer.startswith(shorter)


def sets_limits(text: str) -> bool:
    """Tell whether a sentence says that something is not so, or only so."""
    return denies(text) or _LIMIT.search(text) is not None


def only_permits(text: str) -> bool:
    """Tell whether a sentence says what may be done, and nothing of what may not.

    "Without charge" beside a permission forbids nothing.
    """
    return _PERMISSION.search(text) is not None and not sets_limits(text)
