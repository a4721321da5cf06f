"""Comparisons of two things, in English and German, taken apart into a question on each."""

import re
from typing import Final

from groundline_generator.domain.signs import COUNTED, designated

_SIDE: Final = r"[^,;?.!]{2,80}?"
_REST: Final = (
    r"(?P<rest>(?:\s+(?:in|for|with respect to|regarding|when|bei|für|hinsichtlich|bezüglich|im)"
    r"\s+[^?.!]{2,120})?)"
)
_TWO_SIDES: Final = (
    r"\b(?:differences?|differ|distinction|compar\w+)\s+(?:is\s+there\s+)?(?:between|of)\s+{a}\s+(?:and|with)\s+{b}",
    r"\bcompare\s+{a}\s+(?:and|with|to|against)\s+{b}",
    r"\bhow\s+(?:do|does)\s+{a}\s+(?:compare\s+(?:to|with)|differ\s+from)\s+{b}",
    r"^\s*{a}\s+(?:vs\.?|versus)\s+{b}",
    r"\b(?:unterschiede?|unterscheidung|vergleich)\s+(?:\w+\s+)?(?:zwischen|von)\s+{a}\s+(?:und|mit)\s+{b}",
    r"\bvergleiche?\s+{a}\s+(?:und|mit)\s+{b}",
    r"\b(?:worin\s+|wie\s+)?unterscheide(?:t|n)\s+sich\s+{a}\s+(?:von|und)\s+{b}",
)
_COMPARISONS: Final = tuple(
    re.compile(
        pattern.replace("{a}", f"(?P<a>{_SIDE})").replace("{b}", f"(?P<b>{_SIDE})") + _REST + r"\s*[?.!]*$",
        re.IGNORECASE,
    )
    for pattern in _TWO_SIDES
)

_ARTICLE: Final = r"(?:the|an?|der|die|das|dem|den|des|eine[rnms]?|ein)"
_LEADING_ARTICLE: Final = re.compile(rf"^{_ARTICLE}\s+", re.IGNORECASE)
_UP_TO_ARTICLE: Final = re.compile(rf"^(?:.*\s)?{_ARTICLE}\s+", re.IGNORECASE)
_ADJECTIVES: Final = (
    r"big|bright|broad|cheap|clean|clear|cold|cool|dark|deep|dens|earl|eas|fast|few|firm|great|hard|heav|high|hot|larg"
    r"|lat|light|long|loud|low|narrow|near|new|old|poor|quick|quiet|rar|rich|saf|sharp|short|simpl|slow|small|soft|steep"
    r"|strong|tall|thick|thin|tight|warm|weak|wet|wid|young|alt|ält|billig|breit|dick|dünn|eng|früh|gering|günstig"
    r"|größ|hart|hell|höh|jung|jüng|kält|klein|kürz|läng|langsam|laut|leicht|leis|näh|neu|niedrig|öft|schmal|schnell"
    r"|schwäch|schwer|sicher|spät|stärk|teur|tief|wärm|weit|wenig"
)
_COMPARATIVE: Final = (
    rf"(?:more|less|better|worse|most|least|further|farther|mehr|weniger|besser|schlechter|teurer|höchste[nrs]?"
    rf"|größte[nrs]?|(?:{_ADJECTIVES})\w?i?(?:er|est)(?:e[nrs]?)?)"
)
# Words that end a thing that is compared, on either side of it.
_VERB: Final = (
    r"(?:is|are|was|were|be|has|have|had|does|do|did|can|could|will|would|should|must|costs?|lasts?|needs?|weighs?"
    r"|takes?|holds?|gets?|ist|sind|war|hat|haben|kann|können|soll|muss|wird|werden|kostet|hält|braucht|wiegt)"
)
_STOP: Final = rf"(?:{_VERB}|{_COMPARATIVE}|which|what|who|welche[rnms]?|was|wer|wie|how)"
_WORD: Final = rf"(?!(?:{_STOP}|or|oder|than|als)\b)[^\s,;?.!]+"
_THING: Final = rf"{_WORD}(?:\s+{_WORD}){{0,3}}?"
_ANOTHER: Final = rf"(?:the\s+ones?\s+)?(?:(?:of|in|for|von|bei|mit|with)\s+)?(?:{_ARTICLE}\s+)?"
_ALTERNATIVES: Final = re.compile(
    rf"\b(?P<a>{_THING})\s+(?:or|oder)\s+{_ANOTHER}(?P<b>{_THING})(?=\s*[?.!,]|\s+{_STOP}\b|\s*$)",
    re.IGNORECASE,
)
_STANDARD: Final = re.compile(
    rf"[\s,]+(?:than|als|(?:when\s+)?compared\s+(?:with|to)|im\s+vergleich\s+(?:mit|zu[rm]?))\s+{_ANOTHER}"
    rf"(?P<b>{_THING})(?=\s*[?.!,]|\s+{_STOP}\b|\s+(?:in|im|among|from|aus)\s|\s*$)",
    re.IGNORECASE,
)
_SUBJECT: Final = re.compile(
    rf"\b{_VERB}\s+(?:{_ARTICLE}\s+)?(?P<a>{_THING})(?=\s+(?:{_STOP}\b|(?:in|im|among|from|aus)\s)|\s*[?.!]|\s*$)",
    re.IGNORECASE,
)
_DEGREE: Final = re.compile(rf"\b{_COMPARATIVE}\b", re.IGNORECASE)
_THRESHOLD: Final = re.compile(rf"\b{_COMPARATIVE}\s+(?:than|als)\s+(?P<number>[\w.,]+)", re.IGNORECASE)
"""A degree beside a number ("more than nine hours"), which compares no two things."""
_IS_COMPARISON: Final = re.compile(rf"\b(?:{_COMPARATIVE}|compared|vergleich)\b", re.IGNORECASE)


def compared(query: str) -> tuple[str, str] | None:
    """Return a question on each of the two things that a question compares; None if it compares none."""
    for comparison in _COMPARISONS:
        if found := comparison.search(query):
            rest = found["rest"].strip(" ?.!")
            first, second = (_LEADING_ARTICLE.sub("", found[side].strip()) for side in ("a", "b"))
            first = _with_shared_end(first, second)
            return f"{first} {rest}".strip(), f"{second} {rest}".strip()
    if not _IS_COMPARISON.search(_without_thresholds(query)):
        return None
    if found := _ALTERNATIVES.search(query):
        first, second = _UP_TO_ARTICLE.sub("", found["a"]), found["b"]
        if _designation(second):
            first = _designation(first) or first
        before, behind = query[: found.start()] + found["a"].removesuffix(first), query[found.end() :]
        return f"{before}{first}{behind}", f"{before}{second}{behind}"
    if found := _STANDARD.search(query):
        return _against(query[: found.start()] + query[found.end() :], found["b"])
    return None


def _with_shared_end(first: str, second: str) -> str:
    """Return an adjective with the noun that it shares: *sick leave* for "sick" beside "annual leave"."""
    _, *end = second.split()
    return f"{first} {' '.join(end)}" if first.islower() and first.isalpha() and end else first


def degrees(query: str) -> list[str]:
    """Return the comparatives and superlatives of a question."""
    return _DEGREE.findall(_without_thresholds(query))


def _without_thresholds(query: str) -> str:
    def kept(found: re.Match[str]) -> str:
        number = found["number"].casefold()
        return "" if number[0].isdecimal() or number in COUNTED else found.group()

    return _THRESHOLD.sub(kept, query)


def _against(alone: str, standard: str) -> tuple[str, str] | None:
    """Return the question without what its subject is compared with, and with that in the subject's place."""
    subject = _designation(alone) if _designation(standard) else None
    if subject:
        return alone, alone.replace(subject, standard, 1)
    if found := _SUBJECT.search(alone):
        return alone, alone[: found.start("a")] + standard + alone[found.end("a") :]
    return None


def _designation(text: str) -> str | None:
    return next((shown for shown, _ in designated(text)), None)
