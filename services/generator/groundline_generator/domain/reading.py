"""Language, sentences and terms of texts, cached."""

import re
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from groundline.v1 import generator_service_pb2 as pb
from groundline_language import guess_language
from groundline_language.terms import content_terms

from groundline_generator.domain.segments import Segment, header_in, segments

_REMEMBERED_TEXTS: Final = 512
_LONGEST_REMEMBERED: Final = 8_000
"""Maximum characters of a cached text. Most chunks are shorter; the cache takes some 10 MB, 40 at most."""

_LINK: Final = re.compile(r"\]\([^()\n]{0,2000}\)")
"""The address of a Markdown link, whose words say nothing of what the sentence tells."""


class Sentence(NamedTuple):
    """A segment of a text with its terms, in order."""

    segment: Segment
    text: str
    terms: list[str]


class Reading:
    """Sentences and terms of a text, computed on demand. Returned values are shared: never change them."""

    def __init__(self, text: str, columns: str = "") -> None:
        self._text = text
        self._columns = columns
        self._sentences: dict[str | None, list[Sentence]] = {}
        self._terms: dict[str | None, frozenset[str]] = {}

    @cached_property
    def language(self) -> str | None:
        return guess_language(self._text)

    def sentences(self, language: str | None) -> list[Sentence]:
        """Return the sentences, read as a text of this language."""
        if language not in self._sentences:
            found = [
                (each, self._text[each.start : each.end])
                for each in segments(self._text, language, self._columns)
            ]
            self._sentences[language] = [
                Sentence(segment, text, content_terms(_LINK.sub("] ", text), language))
                for segment, text in found
            ]
        return self._sentences[language]

    def terms(self, language: str | None) -> frozenset[str]:
        """Return all terms, read as a text of this language."""
        if language not in self._terms:
            self._terms[language] = frozenset(content_terms(self._text, language))
        return self._terms[language]


def read(passage: pb.NumberedPassage) -> Reading:
    """Return the reading of a passage's text, from the cache if possible: it is read for an answer, its
    citations and often the next question."""
    text, columns = passage.text, header_in(passage.context)
    return _remembered(text, columns) if len(text) <= _LONGEST_REMEMBERED else Reading(text, columns)


_remembered = lru_cache(maxsize=_REMEMBERED_TEXTS)(Reading)
