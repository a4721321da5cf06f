"""Extraction of the sentences that answer a question, without a model: the best by `scoring`, and for a
comparison the best on each of the two things that it compares."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain, product
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_language import guess_language

from groundline_generator.domain.asking.asked import asked_for, tells
from groundline_generator.domain.checking.disagreement import disagreement
from groundline_generator.domain.checking.statements import Asked, Statement, document_of, statement
from groundline_generator.domain.comparing import compared
from groundline_generator.domain.measures import asked_measures, rank
from groundline_generator.domain.quoting.bridging import bridged
from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.quoting.choosing import choose, in_reading_order, weigh_lead
from groundline_generator.domain.quoting.denying import put_denials_first
from groundline_generator.domain.quoting.fitting import (
    counts_first,
    fade_contents,
    fade_links,
    put_definitions_first,
    told_near,
)
from groundline_generator.domain.quoting.likelihood import likelihood
from groundline_generator.domain.quoting.lists import lead_in, led_to
from groundline_generator.domain.quoting.placing import place_in_time
from groundline_generator.domain.quoting.procedures import procedure
from groundline_generator.domain.quoting.quotation import quotation
from groundline_generator.domain.quoting.scoring import is_other, scored
from groundline_generator.domain.quoting.subjects import speak_of_others
from groundline_generator.domain.reading import read
from groundline_generator.domain.rewriting import questions_in
from groundline_generator.domain.segments import Kind
from groundline_generator.domain.signs import quantities

_OTHER_SUBJECT: Final = 0.5
"""Factor of the relevance where the passages speak of others than the question."""

_NO_COUNT: Final = 0.3
"""Factor of the relevance where the number of things is asked for, and no quoted sentence counts them, or
where an amount or a time is, and none tells any."""

_RIVAL_SHARE: Final = 0.5
"""Minimum score of a sentence that is quoted since it says otherwise, as a share of the best."""

_READ: Final = frozenset({"english", "german"})
"""Languages in which a reading was measured to help; both the question and the passage have to be in it."""

_READ_CHARACTERS: Final = 620
"""Maximum length of what is read around a quoted sentence; the reader was trained on texts of up to this."""

_READING_SHIFT: Final = 0.07
"""Relevance that a reading adds, for one of its log-odds that the quoted sentences answer."""

_MAXIMUM_SHIFT: Final = 0.3

_STARTS: Final = 3
"""Number of passages whose names are followed where none is relevant alone."""

_COVERAGE_SHARE: Final = 1 / 2
"""Relevance that a second sentence adds, for the share of the question that it alone tells."""

_COMPARED: Final = 5
"""Sentences on each side of a comparison among which the best pair is looked for."""

_STEP: Final = re.compile(r"\n\s*\d{1,3}[.)]\s")
"""Beginning of a numbered item behind the one before."""

_YEAR: Final = re.compile(
    r"(?P<until>\b(?:until|till|before|up to|prior to|bis|vor)\s+(?:[\w.]+\s+){0,3}?)?"
    r"(?<![\w.,:$€£-])(?P<year>(?:1\d|20)\d\d)(?![\w%]|[.,:]\d)",
    re.IGNORECASE,
)
"""A number that may be a year, and what says that something ended then, and was so before."""


@dataclass(frozen=True, slots=True)
class Extract:
    """A sentence to quote from passage `number`; `text` is one line unless it is code. `step` is the place of
    its item in a list, from 1; 0 if it is of none. Items `is_numbered` are steps."""

    number: int
    text: str
    is_code: bool
    step: int = 0
    is_numbered: bool = True


type Answerability = Callable[[str, Sequence[str]], Sequence[float]]
"""Judgement of a reader: for a question and texts, the log-odds that each text answers it."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Sentences to quote, in order, and the relevance (0 to 1) of the best candidate.

    Empty if that relevance is too low. `likelihood` is the probability that the extracts hold the right
    answer.
    """

    extracts: Sequence[Extract]
    relevance: float
    likelihood: float = 0.0
    untold: Sequence[str] = ()
    """Parts of the question that nothing was found for."""


def extract(
    query: str,
    passages: Sequence[pb.NumberedPassage],
    *,
    min_relevance: float,
    max_sentences: int,
    answerability: Answerability | None = None,
    checkpoint: Callable[[], None] = lambda: None,
    today: date | None = None,
) -> Extraction:
    """Choose at most `max_sentences` from passages that come best first; of a question that consists of
    several, an equal part of them, rounded up, for each.

    With a reader, the relevance that has to reach `min_relevance` depends on what it says of the chosen
    sentences and what stands around them. `checkpoint` is called before each passage; it may raise to stop
    the work. `today` is what "now" means, by default the present day in UTC.
    """
    work = _Work(passages, checkpoint, today)
    whole = partial(_extracted, work, min_relevance=min_relevance, answerability=answerability)
    parts = questions_in(query, max_sentences) if max_sentences > 1 else ()
    if parts:
        # Two sentences for each of two parts: one is the answer, the other what it needs to be understood.
        each = -(-max_sentences // len(parts))
        answered = {part: whole(query=part, max_sentences=each) for part in parts}
        untold = tuple(part for part, answer in answered.items() if not answer.extracts)
        if not untold:
            return _joined(answered.values())
        one = whole(query=query, max_sentences=max_sentences)
        if not one.extracts and len(untold) < len(parts):
            one = _joined([answer for answer in answered.values() if answer.extracts])
        return replace(one, untold=untold) if one.extracts else one
    return whole(query=query, max_sentences=max_sentences)


def _joined(answers: Collection[Extraction]) -> Extraction:
    """Return the answers to parts of a question as one, which is as sure as the least sure of them."""
    extracts = dict.fromkeys(chain.from_iterable(each.extracts for each in answers))
    return Extraction(
        tuple(extracts), min(each.relevance for each in answers), min(each.likelihood for each in answers)
    )


def _extracted(
    work: "_Work", query: str, max_sentences: int, min_relevance: float, answerability: Answerability | None
) -> Extraction:
    """Answer a single question, or a comparison."""
    sides = compared(query) if max_sentences > 1 else None
    if sides and (both := _contrasted(work, sides, min_relevance)):
        return both
    ranked = work.ranked(question := work.question(query))
    if sides and question.asks_degree:
        ranked = _on_both([work.question(side) for side in sides], question, ranked)
    weigh_lead(question, ranked)
    is_read = bool(answerability and ranked and question.language == ranked[0].language in _READ)
    minimum = min_relevance - _MAXIMUM_SHIFT if is_read else min_relevance
    relevance = work.relevance(question, ranked, minimum)
    if not ranked or relevance < minimum:
        return work.led_on(question, ranked, relevance, min_relevance, max_sentences)
    steps = procedure(question, ranked) if max_sentences > 1 else ()
    chosen = [*steps] or choose(question, ranked, max_sentences)
    is_counted = any(each.is_of_kind and each.language == ranked[0].language for each in chosen)
    if question.counted.things and not is_counted:
        if counting := counts_first(ranked):
            ranked, relevance = counting, work.relevance(question, counting, minimum)
            chosen = choose(question, ranked, max_sentences)
        elif not question.counted.is_amount:
            relevance *= _NO_COUNT
    elif not _tell(query, [*chosen, *bridged(question, chosen, ranked, work.passages)]):
        if told := told_near(query, ranked):
            chosen = [*chosen[: max_sentences - 1], told]
        else:
            relevance *= _NO_COUNT
    if relevance < minimum:
        return Extraction((), relevance)
    if answerability and is_read and chosen:
        shift = _READING_SHIFT * max(answerability(query, work.around(chosen)))
        relevance = max(0.0, min(relevance + max(-_MAXIMUM_SHIFT, min(shift, _MAXIMUM_SHIFT)), 1.0))
        if relevance < min_relevance:
            return Extraction((), relevance)
    shift = relevance - ranked[0].relevance
    if steps:
        is_of_best = steps[0].passage == ranked[0].passage
        likely = work.likelihood(question, ranked if is_of_best else steps[:1], shift)
        return Extraction(work.steps(steps), relevance, likely)
    if chosen and max_sentences > 1 and (other := work.saying_otherwise(question, ranked, chosen)):
        chosen = [*chosen[: max_sentences - 1], other]
    elif chosen and max_sentences > 1:
        chosen = work.bridged(question, ranked, chosen, max_sentences)
    extracts = work.with_lists(query, chosen, ranked) if max_sentences > 1 else work.extracts(chosen)
    return Extraction(extracts, relevance, work.likelihood(question, ranked, shift))


def _tell(query: str, chosen: Sequence[Candidate]) -> bool:
    return any(tells(query, quotation(each.sentence)) for each in chosen)


class _Work:
    """Passages with what is read in them."""

    def __init__(
        self, passages: Sequence[pb.NumberedPassage], checkpoint: Callable[[], None], today: date | None
    ) -> None:
        self.passages = passages
        self._checkpoint = checkpoint
        self._today = today or datetime.now(UTC).date()
        self._readings = [read(passage) for passage in passages]

    def question(self, query: str) -> Question:
        spoken = (each.language for each in self._readings if each.language)
        sentences = (one.text for each in self._readings for one in each.sentences(each.language))
        return Question(query, guess_language(query) or next(spoken, None), self._today, sentences)

    def ranked(self, question: Question) -> Sequence[Candidate]:
        """Return the sentences that can be quoted, best first."""
        found = scored(question, self.passages, self._readings, self._checkpoint)
        if question.asks_what_is_not:
            put_denials_first(question, found)
        if question.time:
            place_in_time(found, question.time, asked_for(question.text))
        fade_contents(found)
        fade_links(found, is_kind_asked=asked_for(question.text) is not None)
        if question.defined:
            above = (f"{passage.title}\n{passage.context}" for passage in self.passages)
            put_definitions_first(found, question.defined, above)
        return sorted(
            (each for each in found if each.is_spelt_out or each.sentence.segment.kind is not Kind.HEADING),
            key=lambda candidate: (-candidate.score, candidate.passage, candidate.position),
        )

    def relevance(self, question: Question, ranked: Sequence[Candidate], min_relevance: float) -> float:
        """Return the relevance of the best sentence; less if the passages speak of others."""
        relevance = ranked[0].relevance if ranked else 0.0
        if relevance < min_relevance:
            return relevance
        other = ranked[0].language if ranked and is_other(question.language, ranked[0].language) else None
        # A year within a span need not stand anywhere.
        text = question.timeless if ranked and question.is_told_by(ranked[0]) else question.text
        is_of_others = speak_of_others(text, question.language, self.passages, other)
        if is_of_others or (ranked and self._begins_later(question, ranked[0])):
            relevance *= _OTHER_SUBJECT
        return relevance

    def _begins_later(self, question: Question, best: Candidate) -> bool:
        """Tell whether a question asks about a year before all that the best sentence's passage tells of."""
        asked = [int(year["year"]) for year in _YEAR.finditer(question.text)]
        if not asked:
            return False
        passage = self.passages[best.passage]
        told = list(_YEAR.finditer(f"{passage.title} {passage.context} {passage.text}"))
        first = min(told, key=lambda year: int(year["year"]), default=None)
        return first is not None and max(asked) < int(first["year"]) and not first["until"]

    def likelihood(self, question: Question, ranked: Sequence[Candidate], shift: float = 0.0) -> float:
        return likelihood(question, ranked, self.passages, shift)

    def saying_otherwise(
        self, question: Question, ranked: Sequence[Candidate], chosen: Sequence[Candidate]
    ) -> Candidate | None:
        """Return the best sentence of another document that answers differently than the first one chosen."""
        best = chosen[0]
        asked = Asked.of(question.text, question.language or best.language)
        own = document_of(self.passages[best.passage])
        ours = [self._statement(each) for each in chosen if each.passage == best.passage]
        for candidate in ranked:
            if candidate.score < _RIVAL_SHARE * best.score:
                return None
            is_of_language = candidate.language == best.language
            document = document_of(self.passages[candidate.passage])
            if is_of_language and not candidate.is_of_other_question and document != own:
                theirs = self._statement(candidate)
                if any(disagreement(asked, each, theirs) is not None for each in ours):
                    return None if candidate in chosen else candidate
        return None

    def bridged(
        self, question: Question, ranked: Sequence[Candidate], chosen: Sequence[Candidate], max_sentences: int
    ) -> list[Candidate]:
        """Return the chosen sentences, the last of them replaced by what another document tells."""
        further = bridged(question, chosen, ranked, self.passages)
        kept = [each for each in chosen if each not in further]
        return [*kept[: max(0, max_sentences - len(further))], *further]

    def led_on(
        self,
        question: Question,
        ranked: Sequence[Candidate],
        relevance: float,
        minimum: float,
        max_sentences: int,
    ) -> Extraction:
        """Return a sentence with a name and what another document tells of it if both together are relevant,
        where the best sentence is not."""
        starts = {each.passage: each for each in reversed(ranked)}
        for start in list(reversed(starts.values()))[: _STARTS if max_sentences > 1 else 0]:
            if found := bridged(question, [start], ranked, self.passages, is_relevant=False):
                first, second, *_ = found
                told = frozenset[str]().union(*(each.is_about for each in found[1:]))
                first.relevance = max(
                    first.relevance + _COVERAGE_SHARE * question.share_of(told - first.is_about),
                    second.relevance + _COVERAGE_SHARE * question.share_of(first.is_about - told),
                )
                if (together := self.relevance(question, [first], minimum)) >= minimum:
                    likely = self.likelihood(question, ranked, together - relevance)
                    return Extraction(self.extracts(found[:max_sentences]), together, likely)
        return Extraction((), relevance)

    def _statement(self, candidate: Candidate) -> Statement:
        sentences = self._readings[candidate.passage].sentences(candidate.language)
        return statement(self.passages[candidate.passage], sentences, candidate.position, candidate.language)

    def around(self, chosen: Sequence[Candidate]) -> Sequence[str]:
        """Return what stands around the sentences in their passages, at most `_READ_CHARACTERS` of each."""
        spans: list[tuple[int, int, int]] = []
        for each in chosen:
            start, end = each.sentence.segment.start, each.sentence.segment.end
            if any(where == each.passage and first <= start and end <= last for where, first, last in spans):
                continue
            room = max(0, (_READ_CHARACTERS - (end - start)) // 2)
            beside = [one.segment for one in self._readings[each.passage].sentences(each.language)]
            first = min(one.start for one in beside if start - room <= one.start <= start)
            last = max(one.end for one in beside if end <= one.end <= end + room)
            spans.append((each.passage, first, last))
        return [self.passages[where].text[first:last][:_READ_CHARACTERS] for where, first, last in spans]

    def extracts(self, chosen: Sequence[Candidate]) -> Sequence[Extract]:
        return tuple(self._extract(each) for each in in_reading_order(chosen))

    def with_lists(
        self, query: str, chosen: Sequence[Candidate], ranked: Sequence[Candidate]
    ) -> Sequence[Extract]:
        """Return sentences, each with the list, table or code that it leads to."""
        found: dict[tuple[int, int], Extract] = {}
        for each in in_reading_order(chosen):
            if before := lead_in(each, ranked, self.passages[each.passage].text):
                found.setdefault((before.passage, before.position), self._extract(before))
            found.setdefault((each.passage, each.position), self._extract(each))
            for other, item in led_to(query, each, ranked, self.passages[each.passage].text):
                found[other.passage, other.position] = self._extract(other, item, is_numbered=False)
        return tuple(found.values())

    def steps(self, chosen: Sequence[Candidate]) -> Sequence[Extract]:
        """Return steps of one passage with the numbers of their items, counted from 1."""
        text = self.passages[chosen[0].passage].text
        found: list[Extract] = []
        step, end = 1, chosen[0].sentence.segment.start
        for each in chosen:
            segment = each.sentence.segment
            if _STEP.search(text[end : segment.start]):
                step += 1
            found.append(self._extract(each, step))
            end = segment.end
        return tuple(found)

    def _extract(self, chosen: Candidate, step: int = 0, *, is_numbered: bool = True) -> Extract:
        is_code = chosen.sentence.segment.kind is Kind.CODE
        number = self.passages[chosen.passage].number
        return Extract(number, quotation(chosen.sentence), is_code, step, is_numbered)


def _contrasted(work: _Work, sides: tuple[str, str], min_relevance: float) -> Extraction | None:
    """Return the best sentence on each side of a comparison; None unless each has one, of the same matter."""
    questions = [work.question(side) for side in sides]
    measures = frozenset(asked_measures(sides[0])) if questions[0].asks_degree else frozenset()
    found: list[Sequence[Candidate]] = []
    relevance = 1.0
    for question, other in zip(questions, reversed(questions), strict=True):
        # Both have to be of one matter, so that covering the question counts before all else.
        question.require(question.terms - other.terms)
        question.measures = measures
        on_side = _on_side(work.ranked(question), question, other)
        ranked = sorted(on_side, key=lambda each: -each.relevance)[:_COMPARED]
        relevance = min(relevance, work.relevance(question, ranked, min_relevance))
        if not ranked or relevance < min_relevance:
            return None
        found.append(ranked)
    common = questions[0].terms & questions[1].terms
    pair = first, second = max(product(*found), key=partial(_likeness, questions, common))
    is_apart = common and not _matter(common, first, second)
    if is_apart or (measures and not first.measured(measures) & second.measured(measures)):
        return None
    extracts = dict.fromkeys(chain.from_iterable(work.extracts([each]) for each in (first, second)))
    likely = (work.likelihood(question, [each]) for question, each in zip(questions, pair, strict=True))
    return Extraction(tuple(extracts), relevance, min(likely))


def _matter(common: frozenset[str], first: Candidate, second: Candidate) -> frozenset[str]:
    return common & first.is_about & second.is_about


def _likeness(
    questions: Sequence[Question], common: frozenset[str], pair: tuple[Candidate, Candidate]
) -> tuple[bool, int, int, bool, bool, float, int]:
    """Return the key by which the best pair is chosen: of the same measure and matter, told in the same form
    unless it is code, each without the other."""
    first, second = pair
    ours, theirs = first.sentence.segment, second.sentence.segment
    shared = first.measured(questions[0].measures) & second.measured(questions[0].measures)
    return (
        bool(shared),
        len(_matter(common, first, second)),
        -rank(shared),
        ours.kind is theirs.kind is not Kind.CODE,
        ours.columns == theirs.columns,
        first.relevance + second.relevance,
        sum(
            (other.required - own.required).isdisjoint(each.sentence.terms)
            for each, own, other in zip(pair, questions, reversed(questions), strict=True)
        ),
    )


def _on_side(ranked: Sequence[Candidate], question: Question, other: Question) -> list[Candidate]:
    """Return the sentences about the thing that only this question names, and not about the other one; with a
    quantity if a degree is asked for."""
    own, others = question.required, other.terms - question.terms
    return [
        candidate
        for candidate in ranked
        if own <= candidate.is_about
        and (not own.isdisjoint(candidate.hits) or others.isdisjoint(candidate.sentence.terms))
        and (candidate.hits.keys() - own or own >= question.terms)
        and (not question.asks_degree or _has_value(question.measures, candidate))
    ]


def _has_value(measures: frozenset[str], candidate: Candidate) -> bool:
    return bool(candidate.measured(measures) if measures else any(quantities(candidate.sentence.text)))


def _on_both(
    sides: Sequence[Question], question: Question, ranked: Sequence[Candidate]
) -> Sequence[Candidate]:
    """Return the sentences that tell of the degree that a comparison asks for, or of both things with a value
    of the measure, if it asks for one that is known."""
    both = sides[0].terms ^ sides[1].terms
    measures = frozenset(asked_measures(question.text))
    return [
        each
        for each in ranked
        if not question.degrees.isdisjoint(each.hits)
        or (both <= each.is_about and (not measures or each.measured(measures)))
    ]
