"""Kinds of answers that questions ask for."""

import re
import tomllib
from collections.abc import Container
from importlib.resources import files
from typing import Final

from groundline_generator.domain.signs import COUNTED, quantities

_LANGUAGES: Final = tomllib.loads(
    (files("groundline_generator.domain.asking") / "asked.toml").read_text(encoding="utf-8")
)


def _said_by(*kinds: str) -> re.Pattern[str]:
    words = "|".join(each[kind] for each in _LANGUAGES.values() for kind in kinds)
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE | re.VERBOSE)


_KIND: Final = _said_by("kind")
_PART: Final = "|".join(each["parts"] for each in _LANGUAGES.values())
_REFERENCE: Final = re.compile(
    r"(?<=\])\([^()\n]{1,2000}\)|\w+://[^\s()<>\]]+|^\W*\(?\d{1,3}[a-z]?\)(?=\s)"
    rf"|(?:§{{1,2}}\s*|\b(?:{_PART})\s+)\(?\d+[a-z]?\b\)?"
    r"(?:\s*(?:,|-|–|to|and|or|bis|und|oder)\s*\d+[a-z]?\b)*",
    re.IGNORECASE | re.VERBOSE,
)
"""A number that names a part of a text: "(2)" at its beginning, "§ 20", "Abs. 2", "chapter 3"; an address."""
_QUANTITY: Final = re.compile(
    r"\bhow (?:many|much|long|old|far|often|large|big|high|tall|deep|fast)\b|\bwhat (?:percent|number|share)"
    r"|\bwie ?(?:viele?|lange?|alt|weit|oft|groß|hoch|tief|schnell|häufig)\b"
    r"|\bwelche[rn]? (?:anteil|anzahl|zahl)",
    re.IGNORECASE,
)
_TIME: Final = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|decade|century)\b"
    r"|\bwann\b|\bwelche[mnrs]? (?:jahr|datum|tag|monat|jahrzehnt|jahrhundert)",
    re.IGNORECASE,
)
_PERSON: Final = re.compile(r"\bwho(?:m|se)?\b|\bwe[rnm]\b|\bwessen\b", re.IGNORECASE)

NUMBER: Final = re.compile(
    r"\d|\b(?:one|dozen|hundred|thousand|million|billion|half|twice|\w*hundert|\w*tausend|millionen?|halb|doppelt"
    rf"|{'|'.join(COUNTED)})\b",
    re.IGNORECASE,
)
DATE: Final = re.compile(
    r"\b\d{3,4}\b|\b\d{1,2}[./]\d{1,2}\b|\b\d{1,2}(?:st|nd|rd|th)\b"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|century|Jahrhundert)\b"
)
NAME: Final = re.compile(r"(?<![.!?:] )(?<!^)\b[A-ZÄÖÜ][\w'’-]+")

_MEASURED: Final = re.compile(
    r"\bhow (?:long|far|large|big|high|tall|deep|fast|heavy|wide)\b"
    r"|\bwie ?(?:lange?|weit|groß|hoch|tief|schnell|schwer|breit)\b",
    re.IGNORECASE,
)
_OFTEN: Final = re.compile(r"\bhow often\b|\bwie ?(?:oft|häufig)\b", re.IGNORECASE)
_AMOUNT: Final = re.compile(
    rf"{_MEASURED.pattern}|\bhow (?:many|much|old)\b|\bwie ?(?:viele?|alt)\b"
    r"|\bwhat does .{1,80}\bcosts?\b|\bwas kosten?t?\b",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(r"^(?:\W*(?:since|until|by|and|und|seit|bis|ab))?\W*(?:when|wann)\b", re.IGNORECASE)
_TOLD_BY: Final = (
    (_AMOUNT, _said_by("amount")),
    (_OFTEN, _said_by("often", "amount")),
    (_WHEN, _said_by("time")),
)

_STEPS: Final = re.compile(
    r"\b(?:what (?:now|next|(?:do|should|can|must|shall|would) (?:i|we|you|one|they))|what to do"
    r"|how (?:do|can|should|must) (?:i|we|you|one)|how to|was (?:nun|tun|(?:mache|tue|muss|soll|kann) ich)"
    r"|was (?:machen|tun|müssen|sollen|können) wir|was (?:muss|soll|kann) (?:man|ich) tun"
    r"|wie (?:kann|muss|soll) (?:ich|man)|wie (?:mache|gehe) ich)\b",
    re.IGNORECASE,
)


def asked_for(query: str) -> re.Pattern[str] | None:
    """Return what the kind of answer that a question asks for looks like: a number, a date or a name."""
    for question, answer in ((_QUANTITY, NUMBER), (_TIME, DATE), (_PERSON, NAME)):
        if question.search(query):
            return answer
    return None


def has_another(kind: re.Pattern[str], text: str, known: Container[str]) -> bool:
    """Tell whether a text holds the kind of answer asked for, other than what the question itself names."""
    return any(match.group().casefold() not in known for match in kind.finditer(_plain(text)))


def tells(query: str, text: str) -> bool:
    """Tell whether a text has a figure, or a word that may tell it, if a question asks how much or when; True
    for other questions."""
    for question, words in _TOLD_BY:
        if question.search(query):
            return bool(NUMBER.search(_plain(text)) or words.search(text))
    return True


def tells_figure(query: str, text: str) -> bool:
    """Tell whether a text has a figure of the kind that a question for an amount or a time asks for."""
    if _MEASURED.search(query):
        return any(each.unit for each in quantities(text))
    return (DATE if _WHEN.search(query) else NUMBER).search(_plain(text)) is not None


def _plain(text: str) -> str:
    """Return a text without the numbers of parts of texts and in addresses, which tell no amount."""
    return _REFERENCE.sub(" ", text)


def asks_for_steps(query: str) -> bool:
    """Tell whether a question asks what to do."""
    return _STEPS.search(query) is not None


def asking_words(query: str) -> str:
    """Return the words of a question that name the kind of answer, such as "what kind of"; a sentence that
    answers seldom repeats them."""
    return " ".join(_KIND.findall(query))
