"""The words and signs of a text, each read when it is asked for."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final, NamedTuple

from groundline_language.concepts import alike
from groundline_language.terms import content_terms

from groundline_generator.domain.forms import MIN_VARIANT_LENGTH, begins_like, parts_among
from groundline_generator.domain.signs import (
    COUNTED,
    Quantity,
    beginning,
    designated,
    full_years,
    names,
    quantities,
)

_TOKEN: Final = re.compile(r"\d+(?:[.,:]\d+)+|\w+(?:['’-]\w+)*")
_POSSESSIVE: Final = re.compile(r"['’]s?$", re.IGNORECASE)
_BEFORE_NUMBER: Final = re.compile(r"(?<=[A-ZÄÖÜ]) (?=\d)")

_MIN_MISSPELT: Final = 5
"""Minimum letters of a name that may be misspelt: of shorter ones many differ by a letter."""
_MISSPELT: Final = 0.8
"""Minimum ratio (difflib's) of a name and its misspelling."""

_LONGEST_ABBREVIATION: Final = 2
"""Maximum letters of a word whose full stop ends no sentence within a name: "Robert E. Lee", "Dr. Who"."""

_NEGATED_TERMS: Final = 3
"""How many terms behind its word, or before it where none follow, a negation is taken to deny."""

_NEGATION: Final = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|without|cannot|nicht|nie|niemals|nirgends|ohne"
    r"|niemand|nichts|weder|kein\w{0,2})\b|n['’]t\b",
    re.IGNORECASE,
)
_NO_DENIAL: Final = re.compile(
    r"\b(?:not only|nicht nur|no (?:more|less|later|fewer) than|No\.? ?\d|whether or not)\b", re.IGNORECASE
)


class Token(NamedTuple):
    """A word or number, as written and as it is compared."""

    text: str
    folded: str
    is_first: bool
    """Whether a sentence begins with it, where any word has a capital."""

    @property
    def is_number(self) -> bool:
        """Whether it is a number, or has one as a model or version has."""
        return self.folded in COUNTED or any(sign.isdigit() for sign in self.text)

    @property
    def parts(self) -> Sequence["Token"]:
        """The words that hyphens join in it; itself if none do."""
        parts = [self.text] if self.folded in COUNTED else self.text.split("-")
        return [self._replace(text=part, folded=folded(part)) for part in parts if part]


class Denial(NamedTuple):
    """A word that denies, and the terms that it denies."""

    word: str
    terms: frozenset[str]


def _parts(word: str) -> Sequence[str]:
    return [part for part in re.split(r"[-'’]", word) if len(part) > 1]


def folded(word: str) -> str:
    """Return a word as it is compared: in lower case, without accents and the s of a possessive."""
    plain = _POSSESSIVE.sub("", word).casefold()
    if plain.isascii():
        return plain
    return "".join(sign for sign in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(sign))


def is_same_name(one: str, other: str) -> bool:
    """Tell whether two folded words may be one name: another form of it, or a typing error away."""
    return beginning(one) == beginning(other) or one in other or other in one or _is_misspelt(one, other)


def _is_misspelt(one: str, other: str) -> bool:
    is_long = min(len(one), len(other)) >= _MIN_MISSPELT and abs(len(one) - len(other)) <= 1
    return is_long and SequenceMatcher(None, one, other, autojunk=False).ratio() >= _MISSPELT


def has_form_of(term: str, others: Collection[str]) -> bool:
    """Tell whether one of the terms is another form of a word, or a compound with it."""
    if len(term) < MIN_VARIANT_LENGTH:
        return False
    return any(
        term in other or other in term or begins_like(term, other)
        for other in others
        if len(other) >= MIN_VARIANT_LENGTH
    )


def is_said_otherwise(term: str, others: Collection[str], language: str | None) -> bool:
    """Tell whether terms hold another form of a word, all parts of a compound, or what means the same."""
    return (
        has_form_of(term, others)
        or not alike(term, language).isdisjoint(others)
        or bool(language == "german" and parts_among(term, others))
    )


def is_negation(word: str) -> bool:
    return _NEGATION.fullmatch(word) is not None


class WordedText:
    """A text in a language, or in one that is not known."""

    def __init__(self, text: str, language: str | None) -> None:
        self.text = text
        self.language = language

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(content_terms(self.text, self.language))

    @cached_property
    def tokens(self) -> Sequence[Token]:
        text = full_years(self.text)
        found = list(_TOKEN.finditer(text))
        ends = [0, *(token.end() for token in found)]
        return [
            Token(token.group(), folded(token.group()), end == 0 or "." in text[end : token.start()])
            for token, end in zip(found, ends, strict=False)
        ]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(token.folded for token in self.tokens)

    @cached_property
    def full_names(self) -> Sequence[frozenset[str]]:
        """The words of each run of words with a capital that only initials and abbreviations interrupt."""
        found: list[set[str]] = []
        previous = None
        for token in _TOKEN.finditer(self.text):
            if not token.group()[0].isupper():
                continue
            gap = self.text[previous.end() : token.start()] if previous else ""
            if previous and (gap == " " or (gap == ". " and len(previous.group()) <= _LONGEST_ABBREVIATION)):
                found[-1].add(folded(token.group()))
            else:
                found.append({folded(token.group())})
            previous = token
        return [frozenset(name) for name in found]

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """Beginnings of all words and of their parts, to look names up in."""
        return frozenset(beginning(part) for word in self.counts for part in (word, *_parts(word)))

    def has_name(self, name: str) -> bool:
        """Tell whether a name or a part of it is among the words, a typing error aside."""
        word = folded(name)
        if not self.beginnings.isdisjoint(map(beginning, (word, *_parts(word)))):
            return True
        return any(_is_misspelt(word, other) for other in self.counts)

    @cached_property
    def quantities(self) -> Sequence[Quantity]:
        return tuple(quantities(self.text))

    @cached_property
    def designations(self) -> Mapping[str, str]:
        """Designations as written, by their form for comparing: DN 4 is DN-4."""
        joined = _BEFORE_NUMBER.sub("", self.text)
        return {key: shown for text in (joined, self.text) for shown, key in designated(text)}

    @cached_property
    def names(self) -> Sequence[str]:
        return tuple(names(self.text, self.language))

    @cached_property
    def denials(self) -> Sequence[Denial]:
        plain = _NO_DENIAL.sub(" ", self.text)
        found: list[Denial] = []
        for word in _NEGATION.finditer(plain):
            behind = content_terms(plain[word.end() :], self.language)[:_NEGATED_TERMS]
            # German may deny at the end: "Schließen Sie das Ventil nicht."
            denied = behind or content_terms(plain[: word.start()], self.language)[-_NEGATED_TERMS:]
            found.append(Denial(word.group(), frozenset(denied)))
        return found


def in_order(text: WordedText, other: WordedText) -> float:
    """Return the share of a text's words that another has in the same order."""
    first, second = ([token.folded for token in each.tokens] for each in (text, other))
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) / max(1, len(first))
