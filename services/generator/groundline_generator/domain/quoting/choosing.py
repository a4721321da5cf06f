"""Choice of the sentences that are quoted, among those that are ranked."""

import re
from collections.abc import Sequence
from typing import Final

from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.quoting.scoring import is_other
from groundline_generator.domain.segments import Kind

_FURTHER_SHARE: Final = 0.7
"""Minimum score of a further sentence, as a share of the best."""

_SAYS_LITTLE: Final = 0.7
"""Weighted share of the question's terms in the best sentence and its headings, below which it is quoted with
a neighbour."""

_DUPLICATE_OVERLAP: Final = 0.7
"""Jaccard overlap of terms from which a sentence repeats a quoted one."""

_LEAD_SHARE: Final = 0.15
"""Share of the lead on other passages in the relevance."""

_USUAL_LEAD: Final = 0.4
"""Lead that changes no relevance; most sentences that answer have more, most that do not have less."""

_MAXIMUM_LEAD: Final = 0.6
"""Lead from which more tells nothing: of few passages one has any word of a question alone."""

_DIGIT: Final = re.compile(r"\d")


def lead_of(ranked: Sequence[Candidate]) -> float | None:
    """Return the share of the best score by which other passages, copies aside, stay behind; None if there is
    no other."""
    best = ranked[0]
    others = (
        each.score
        for each in ranked
        if each.passage != best.passage and _overlap(each, best) < _DUPLICATE_OVERLAP
    )
    second = next(others, None)
    return None if second is None or not best.score else 1 - second / best.score


def weigh_lead(question: Question, ranked: Sequence[Candidate]) -> None:
    """Let the best sentence be more relevant if those of other passages stay far behind it, and less if they
    do not: what many passages say as well as the best is what they all speak of, seldom what was asked. In
    another language than the question's all sentences score alike."""
    if not ranked or is_other(question.language, ranked[0].language):
        return
    if (lead := lead_of(ranked)) is not None:
        shift = _LEAD_SHARE * (min(lead, _MAXIMUM_LEAD) - _USUAL_LEAD)
        ranked[0].relevance = max(0.0, min(ranked[0].relevance + shift, 1.0))


def choose(question: Question, ranked: Sequence[Candidate], max_sentences: int) -> list[Candidate]:
    """Return the best sentence, the further ones nearly as good, and the neighbours that it needs."""
    best = ranked[0]
    is_own = not is_other(question.language, best.language)
    # If the question names something with a number (a model, a version), the document must be about it: a
    # sentence on another model answers another question, however similar it is otherwise.
    designations = {term for term in best.in_heading if _DIGIT.search(term)}
    chosen: list[Candidate] = []
    for candidate in ranked:
        if len(chosen) == max_sentences or candidate.score < _FURTHER_SHARE * best.score:
            break
        if not (candidate.hits or candidate.denies) or not designations <= candidate.is_about:
            continue
        if chosen and _leaves_open(question, candidate):
            continue
        if candidate.is_of_other_question or (is_own and is_other(best.language, candidate.language)):
            continue
        if all(_overlap(candidate, other) < _DUPLICATE_OVERLAP for other in chosen):
            chosen.append(candidate)
    return [*chosen, *_beside(question, ranked, chosen)][:max_sentences] if chosen else chosen


def _leaves_open(question: Question, candidate: Candidate) -> bool:
    """Tell whether a question asks what is not so, and a sentence says nothing of that: beside others it
    would read as if it did."""
    return question.asks_what_is_not and not candidate.sets_limits


def _beside(question: Question, ranked: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
    """Return the neighbours that the best sentence needs.

    In the order of need: what it refers to, the kind of answer that it lacks, what speaks on of it, and the
    better one if it alone is quoted and says little of what was asked.
    """
    best = chosen[0]
    beside = around = {
        each.position - best.position: each
        for each in ranked
        if each.passage == best.passage
        and abs(each.position - best.position) == 1
        and each.sentence.segment.kind is best.sentence.segment.kind is Kind.SENTENCE
        and each.sentence.segment.heading == best.sentence.segment.heading
        and not each.is_of_other_question
    }
    before = around.get(-1)
    needed: list[Candidate] = []
    if before and best.refers_back:
        needed.append(before)
    around = {position: each for position, each in around.items() if not _leaves_open(question, each)}
    after = around.get(1)
    if not any(each.is_of_kind for each in chosen):
        needed.extend(each for each in around.values() if each.is_of_kind)
    if after and after.refers_back:
        needed.append(after)
    if around and len(chosen) == 1 and best.own_share < _SAYS_LITTLE:
        needed.append(max(around.values(), key=lambda each: each.score))
    quoted = {(each.passage, each.position) for each in chosen}
    positions = dict.fromkeys(each.position - best.position for each in needed)
    return [
        beside[position] for position in positions if (best.passage, best.position + position) not in quoted
    ]


def _overlap(first: Candidate, second: Candidate) -> float:
    ours, theirs = {*first.sentence.terms, *first.hits}, {*second.sentence.terms, *second.hits}
    return len(ours & theirs) / len(ours | theirs) if ours or theirs else 1.0


def in_reading_order(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Order passages by their best sentence, and sentences as in their passage."""
    order = list(dict.fromkeys(candidate.passage for candidate in chosen))
    return sorted(chosen, key=lambda candidate: (order.index(candidate.passage), candidate.position))
