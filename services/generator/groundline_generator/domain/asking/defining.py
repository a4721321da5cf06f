"""Questions for what a word means or letters stand for, and what says so, in English and German."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from groundline_language.terms import content_terms

_ARTICLE: Final = r"(?:an?|the|ein(?:e[nmrs]?)?|der|die|das|den|dem)\s+"
_LETTERS: Final = r"(?:(?:abbreviation|acronym|initialism|letters|abkürzung|akronym|kürzel|buchstaben)\s+)"
_QUESTION: Final = re.compile(
    rf"""^\W*(?:
        what(?:'s|\s+is|\s+are)\s+(?:(?P<meant>meant\s+by)\s+)?
        | what\s+(?:does|do)\s+(?=.*?\b(?P<verb>mean|stand\s+for)\b)
        | was\s+(?:ist|sind)\s+
        | was\s+(?:bedeute[nt]|hei(?:ß|ss)t|meint)\s+
        | was\s+versteht\s+man\s+unter\s+
        | (?P<for>wofür\s+(?:steht|stehen))\s+
        | define\s+
    )
    (?:{_ARTICLE})?(?P<letters>{_LETTERS})?["'„“»«‚‘]*(?P<thing>[^?,;:]+?)["'“”«»‘’]*
    (?:\s+(?:mean|(?P<stands>stand\s+for)|(?P<short>short\s+for))\b(?P<rest>[^?]*))?\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""A question for what something is, means or stands for, in which `thing` is what it asks about."""

_LONGEST: Final = 5
"""Maximum number of words of what a question asks to be defined."""

_LONGEST_QUESTION: Final = 120
"""Maximum characters of such a question; the pattern takes the cube of its length where it does not fit."""

_BEGINNING: Final = 160
"""Characters of a sentence in which it says what it defines, bounded for the same reason."""

_ACRONYM: Final = re.compile(r"(?=(?:.*[A-Z]){2})[A-Za-z][\w&/-]{1,9}")
_SAYS: Final = re.compile(
    r"""^\W*(?P<subject>[^.:;!?]{1,80}?)["'”“»«’*_`)]*\s+(?:
        (?:is|ist)\s+(?:an?|the|any|one|ein(?:e[nmrs]?)?|der|die|das|eigentlich|when|where)\b
        | (?:are|sind)\s+(?!(?:not|nicht)\b)
        | (?:means|(?:shall|will)\s+mean|refers?\s+to|denotes?|describes|stands?\s+for)\b
        | (?:bedeutet|bezeichnet|heißt|meint|steht\s+für|stehen\s+für)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_ENTRY: Final = re.compile(r"^\W*(?P<subject>[^.:;!?–—]{1,60}?)[*_`\"”“»«’]*\s*(?::|\s[–—-])\s+\S")
"""An entry of a glossary: "**Crib**: the cards that …"."""

_FURTHER: Final = 1
"""Maximum number of terms of a subject that the question has not: "A crib in cribbage is …"."""

_EXPANSION: Final = 90
"""Maximum characters before or behind an acronym that may be what it stands for."""

_OPENING: Final = re.compile(r"(?P<words>[^()]+)\(\s*[\"'„“»]*$")
_IN_PARENTHESES: Final = re.compile(r"[\"'“”«»*_`]*\s*\((?P<words>[^)]+)")
_STANDS_FOR: Final = re.compile(
    r"""[\"'“”«»*_`]*\s*(?::|=|–|—|-\s|,?\s(?:stands?\sfor|is\sshort\sfor|means|steh(?:t|en)\sfür|bedeutet|heißt)\b)
    (?P<words>[^.;()]+)""",
    re.VERBOSE,
)
_WORD_START: Final = re.compile(r"(?<![^\W_])[^\W_]")


class Defined(NamedTuple):
    """A thing that a question asks to be defined: its terms, the question without the words that only ask,
    and the letters whose words are asked for. `only_words` tells that nothing else would answer."""

    terms: frozenset[str]
    text: str
    acronym: str | None = None
    only_words: bool = False


def defined(query: str, language: str | None) -> Defined | None:
    """Return what a question asks to be defined; None if it asks for something else."""
    words = " ".join(query.split())
    found = _QUESTION.match(words) if len(words) <= _LONGEST_QUESTION else None
    if found is None or len(found["thing"].split()) > _LONGEST:
        return None
    thing = found["thing"].strip()
    terms = frozenset(content_terms(thing, language))
    if not terms:
        return None
    acronym = thing if _ACRONYM.fullmatch(thing) else None
    stands = found["for"] or found["stands"] or found["short"] or found["letters"]
    return Defined(terms, f"{thing} {found['rest'] or ''}", acronym, bool(acronym and stands))


def defines(text: str, asked: Defined, language: str | None) -> bool:
    """Tell whether a sentence says what the thing is or means."""
    for pattern in (_SAYS, _ENTRY):
        if found := pattern.match(text[:_BEGINNING]):
            subject = frozenset(content_terms(found["subject"], language))
            if asked.terms <= subject and len(subject - asked.terms) <= _FURTHER:
                return True
    return False


def spells_out(text: str, acronym: str) -> bool:
    """Tell whether a text gives the words for an acronym beside it, one of both in parentheses, or behind
    "stands for", a colon or a dash."""
    for found in re.finditer(rf"(?<!\w){re.escape(acronym)}(?:s|-\w+)?(?!\w)", text, re.IGNORECASE):
        before, after = text[: found.start()], text[found.end() :]
        opening = _OPENING.search(before[-_EXPANSION:])
        if opening and _long_form(opening["words"], acronym, is_before=True):
            return True
        for pattern in (_IN_PARENTHESES, _STANDS_FOR):
            behind = pattern.match(after[:_EXPANSION])
            if behind and _long_form(behind["words"], acronym, is_before=False):
                return True
    return False


def _long_form(words: str, acronym: str, *, is_before: bool) -> bool:
    """Tell whether words directly before or behind an acronym have its letters in order, the first at the
    beginning of a word (after Schwartz and Hearst 2003, "A simple algorithm for identifying abbreviation
    definitions in biomedical text")."""
    letters = [each for each in acronym.casefold() if each.isalnum()]
    tokens = re.findall(r"[^\W_]+", words.casefold())
    most = min(len(letters) + 5, 2 * len(letters))
    tokens = tokens[-most:] if is_before else tokens[:most]
    text = " ".join(tokens)
    if len(text) <= len(letters) or acronym.casefold() in tokens:
        return False
    if not is_before:
        starts = [found.start() for found in _WORD_START.finditer(text)][:2]
        return any(
            text[start] == letters[0] and _in_order(letters[1:], text[start + 1 :]) for start in starts
        )
    place = len(text)
    for letter in reversed(letters[1:]):
        place = text.rfind(letter, 0, place)
        if place < 0:
            return False
    return any(text[found.start()] == letters[0] for found in _WORD_START.finditer(text[:place]))


def _in_order(letters: Iterable[str], text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)
