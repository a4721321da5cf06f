"""Texts taken apart: their language, their sentences, and the terms of both."""

from functools import cached_property, lru_cache
from typing import NamedTuple

from groundline_generator.domain.language import content_terms, guess_language
from groundline_generator.domain.segments import Segment, segments

__all__ = ["Reading", "Sentence", "read"]

_REMEMBERED_TEXTS = 512
_LONGEST_REMEMBERED = 8_000
"""Characters. Most chunks are shorter; all that is remembered takes some 10 MB, 40 at most."""


class Sentence(NamedTuple):
    """A segment of a text with its terms, in order."""

    segment: Segment
    text: str
    terms: list[str]


class Reading:
    """A text taken apart as far as anybody has asked for. What it returns is shared: never change it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sentences: dict[str | None, list[Sentence]] = {}
        self._terms: dict[str | None, frozenset[str]] = {}

    @cached_property
    def language(self) -> str | None:
        return guess_language(self._text)

    def sentences(self, language: str | None) -> list[Sentence]:
        """Read as a text of this language."""
        found = self._sentences.get(language)
        if found is None:
            found = self._sentences[language] = [
                Sentence(
                    segment, text := self._text[segment.start : segment.end], content_terms(text, language)
                )
                for segment in segments(self._text, language)
            ]
        return found

    def terms(self, language: str | None) -> frozenset[str]:
        """All terms, read as a text of this language."""
        found = self._terms.get(language)
        if found is None:
            found = self._terms[language] = frozenset(content_terms(self._text, language))
        return found


def read(text: str) -> Reading:
    """The text taken apart. A passage is read for an answer, its citations and often the next question."""
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else Reading(text)


_remembered = lru_cache(maxsize=_REMEMBERED_TEXTS)(Reading)
