"""Claims of a finished answer, and the passages that they cite."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from groundline.v1 import chat_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_language import guess_language
from groundline_language.terms import content_terms

from groundline_generator.domain.checking.differences import Deviation
from groundline_generator.domain.checking.disagreement import disagreement
from groundline_generator.domain.checking.statements import Asked, Statement, document_of, statement
from groundline_generator.domain.checking.verdicts import deviation
from groundline_generator.domain.checking.wording import is_said_otherwise
from groundline_generator.domain.markers import SPACES, unmarked
from groundline_generator.domain.reading import read
from groundline_generator.domain.segments import Kind, Segment, segments

_NOT_SPACE: Final = re.compile(r"\S")
_ENDED: Final = re.compile(r"[.!?…。！？][\"'”’»«)\]*_]*\s*$")

_SUPPORT_SHARE: Final = 0.6
"""Minimum share of a claim's terms that its passages must hold for it to count as supported."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """Neighbouring markers and the part of a sentence that they stand for."""

    start: int
    end: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CitedClaim:
    """A sentence or block of code of the answer, its markers left out of `text`."""

    text: str
    references: tuple[_Reference, ...]
    start: int
    end: int
    kind: Kind = Kind.SENTENCE

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number for each in self.references for number in each.numbers))


class Disagreement(NamedTuple):
    """Two passages that answer the question differently, and what each says."""

    number: int
    words: str
    other_number: int
    other_words: str


class CitedAnswer:
    """A finished answer with markers such as `[1]`, and the passages it was written from, by number."""

    def __init__(self, text: str, passages: Mapping[int, pb.NumberedPassage]) -> None:
        self.text = text
        self.passages = passages
        self._evidence = {number: _Evidence(passage) for number, passage in passages.items()}

    def with_text(self, text: str) -> "CitedAnswer":
        """Return another answer from the same passages, which are not read again."""
        other = CitedAnswer(text, {})
        other.passages, other._evidence = self.passages, self._evidence
        return other

    @cached_property
    def claims(self) -> Sequence[CitedClaim]:
        """Sentences and blocks of code, with the markers in them or right behind them."""
        return tuple(_claims(self.text))

    def citations(self) -> list[chat_pb2.Citation]:
        """Return one citation for each marker, in order, with the sentence of its passage that supports it
        best."""
        return [
            chat_pb2.Citation(
                source_number=number,
                start_offset=reference.start,
                end_offset=reference.end,
                supporting_text=self._evidence[number].best_sentence(
                    self.text[reference.start : reference.end]
                ),
                chunk_id=self.passages[number].chunk_id,
            )
            for claim in self.claims
            for reference in claim.references
            for number in reference.numbers
            if number in self.passages
        ]

    def cites(self, claim: CitedClaim) -> bool:
        """Tell whether a claim cites a passage."""
        return any(number in self.passages for number in claim.numbers)

    def supports(self, claim: CitedClaim) -> bool:
        """Tell whether the passages that a claim cites hold its terms; if it cites none, any may."""
        evidence = [self._evidence[number] for number in self._cited(claim)]
        return bool(evidence) and _is_supported(claim.text, evidence)

    def deviation(self, claim: CitedClaim) -> Deviation | None:
        """Return what a claim has otherwise than the passages that it cites; if it cites none, than all."""
        return deviation(claim.text, [self.passages[number] for number in self._cited(claim)])

    def disagreements(self, query: str, claims: Sequence[CitedClaim]) -> list[Disagreement]:
        """Return what passages of other documents say otherwise than those that some of the claims cite, once
        for each two documents."""
        found: dict[frozenset[str], Disagreement] = {}
        for claim in claims:
            for number in claim.numbers:
                if number in self._evidence:
                    for each in self._otherwise(query, claim, number):
                        numbers = (each.number, each.other_number)
                        found.setdefault(frozenset(document_of(self.passages[one]) for one in numbers), each)
        return list(found.values())

    def _otherwise(self, query: str, claim: CitedClaim, number: int) -> Iterator[Disagreement]:
        """Yield what passages of other documents say otherwise than a claim of this one, one of each."""
        language = guess_language(claim.text) or self._evidence[number].reading.language
        asked = Asked.of(query, guess_language(query) or language)
        found = self._evidence[number].statement_of(claim.text, language)
        if found is None:
            return
        ours = found._replace(text=claim.text)
        for other, evidence in self._evidence.items():
            if document_of(self.passages[other]) == document_of(self.passages[number]):
                continue
            differing = (disagreement(asked, ours, theirs) for theirs in evidence.statements(asked.language))
            said = next((each for each in differing if each is not None), None)
            if said is not None:
                yield Disagreement(number, said[0], other, said[1])

    def _cited(self, claim: CitedClaim) -> tuple[int, ...]:
        return tuple(number for number in claim.numbers if number in self._evidence) or tuple(self._evidence)


def _claims(answer: str) -> Iterator[CitedClaim]:
    bare, markers = unmarked(answer)
    found = [each for each in segments(bare, guess_language(answer)) if each.kind is not Kind.HEADING]
    quotable = [part for each in found for part in _parts(bare, each, markers)]
    for index, segment in enumerate(quotable):
        limit = quotable[index + 1].start if index + 1 < len(quotable) else len(answer)
        own = [marker for marker in markers if segment.start <= marker.start() and marker.end() <= limit]
        references = tuple(_references(bare, segment.start, segment.end, own))
        text = bare[segment.start : segment.end]
        end = segment.start + len(text.rstrip())
        yield CitedClaim(SPACES.sub(" ", text), references, segment.start, end, segment.kind)


def _parts(bare: str, segment: Segment, markers: Sequence[re.Match[str]]) -> Iterator[Segment]:
    """Yield the sentences of a segment: markers behind a full stop end one, in whatever case the next
    begins."""
    start = segment.start
    for marker in markers if segment.kind is not Kind.CODE else ():
        if start < marker.start() < segment.end and _ENDED.search(bare, start, marker.start()):
            following = _NOT_SPACE.search(bare, marker.end(), segment.end)
            if following is not None:
                yield segment._replace(start=start, end=marker.start())
                start = following.start()
    yield segment._replace(start=start)


def _references(bare: str, start: int, end: int, markers: Sequence[re.Match[str]]) -> Iterator[_Reference]:
    """Yield each group of markers with the text between it and the group before."""
    index = 0
    while index < len(markers):
        first = last = index
        while last + 1 < len(markers) and not bare[markers[first].start() : markers[last + 1].end()].strip():
            last += 1
        stop = min(end, markers[first].start())
        while stop > start and bare[stop - 1].isspace():
            stop -= 1
        yield _Reference(start, stop, tuple(int(m.group(1)) for m in markers[first : last + 1]))
        following = markers[last].end()
        start = following + (len(bare[following:]) - len(bare[following:].lstrip()))
        index = last + 1


class _Evidence:
    """A passage to compare claims with."""

    def __init__(self, passage: pb.NumberedPassage) -> None:
        self.reading = read(passage)
        self._passage = passage
        self._terms: dict[str | None, frozenset[str]] = {}
        self._statements: dict[str | None, Sequence[Statement]] = {}

    def best_sentence(self, claim: str) -> str:
        """Return the sentence that shares the most terms with a claim; "" if none shares any."""
        wanted = frozenset(content_terms(claim, self.reading.language))
        best, best_score = "", 0.0
        for sentence in self.reading.sentences(self.reading.language):
            if shared := len(wanted.intersection(sentence.terms)):
                score = shared / (len(wanted) + len(set(sentence.terms)) - shared)
                if score > best_score:
                    best, best_score = sentence.text, score
        return best

    def statements(self, asked: str | None) -> Sequence[Statement]:
        """Return the sentences, each with the title, the context, its headings and the sentence before it."""
        language = self.reading.language or asked
        if language not in self._statements:
            sentences = self.reading.sentences(language)
            self._statements[language] = [
                statement(self._passage, sentences, place, language) for place in range(len(sentences))
            ]
        return self._statements[language]

    def statement_of(self, claim: str, language: str | None) -> Statement | None:
        """Return the sentence that shares the most terms with a claim."""
        wanted = frozenset(content_terms(claim, self.reading.language or language))
        return max(
            self.statements(language), key=lambda each: len(wanted.intersection(each.terms)), default=None
        )

    def terms(self, language: str | None) -> frozenset[str]:
        """Return the terms of title, context and text, read as one language."""
        if language not in self._terms:
            above = content_terms(f"{self._passage.title} {self._passage.context}", language)
            self._terms[language] = self.reading.terms(language).union(above)
        return self._terms[language]


def _is_supported(claim: str, evidence: Sequence[_Evidence]) -> bool:
    """Tell whether passages hold a claim's terms together, or one sentence does in other forms and words."""
    language = guess_language(claim) or evidence[0].reading.language
    wanted = frozenset(content_terms(claim, language))
    enough = _SUPPORT_SHARE * len(wanted)
    held = frozenset[str]().union(*(each.terms(language) for each in evidence))
    if len(wanted & held) >= enough:
        return True
    return any(
        sum(term in one.terms or is_said_otherwise(term, one.terms, language) for term in wanted) >= enough
        for each in evidence
        for one in each.reading.sentences(language)
    )
