"""Order of sentences where a question asks what is not so, or must not be."""

from collections.abc import Sequence
from typing import Final

from groundline_language.terms import content_terms

from groundline_generator.domain.asking.negations import places
from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.segments import Kind

_NO_LIMIT: Final = 0.5
"""Factor of the relevance of a sentence that says nothing of limits, if a question asks what is forbidden."""

_NOT_DENIED: Final = 0.85
"""Factor of the score of one that does not say that something is not so."""


def put_denials_first(question: Question, candidates: Sequence[Candidate]) -> None:
    """Let what is so count for less; a neighbour that says what is not counts as much as it did.

    The two stand beside each other: "Glass goes into the bin. Paper does not go there." Another denial that
    is of less of the question than the best sentence without one is of something else.
    """
    limiting = {(each.passage, each.position): each for each in candidates if each.sets_limits}
    denied: list[tuple[Candidate, list[Candidate]]] = []
    for each in candidates:
        permits = each.only_permits
        sets_limits = (each.passage, each.position) in limiting
        if sets_limits or not (permits or each.sentence.segment.kind is Kind.SENTENCE):
            continue
        beside = (limiting.get((each.passage, each.position + step)) for step in (-1, 1))
        denying = [
            one
            for one in beside
            if one and not _is_elsewhere(one, each) and (permits or _denies_it(question, one, each))
        ]
        for one in denying if permits else ():
            one.stand_in_for(each)
        if permits:
            each.fade()
        elif denying:
            denied.append((each, denying))
    best = max(candidates, key=lambda each: each.score, default=None)
    least = best.own_share if best and not best.denies else 0.0
    standing_in: set[tuple[int, int]] = set()
    for each, denying in denied:
        for one in denying:
            one.stand_in_for(each)
            standing_in.add((one.passage, one.position))
    for each, _ in denied:
        each.fade()
    for each in candidates:
        if each.sentence.segment.kind is not Kind.SENTENCE:
            continue
        place = each.passage, each.position
        is_of_less = each.own_share < least and place not in standing_in
        if place not in limiting or is_of_less or _is_of_another_thing(question, each):
            each.relevance *= _NO_LIMIT
        if not each.denies:
            each.score *= _NOT_DENIED


def _is_elsewhere(denial: Candidate, each: Candidate) -> bool:
    """Tell whether two sentences say of different places what is so there."""
    ours, theirs = (
        frozenset(content_terms(places(one.sentence.text), one.language)) for one in (denial, each)
    )
    return bool(ours and theirs) and ours.isdisjoint(theirs)


def _denies_it(question: Question, denial: Candidate, each: Candidate) -> bool:
    """Tell whether a sentence denies of something else what another says: they share half of what that one
    has of the question, and more than a name."""
    shared = denial.hits.keys() & each.hits.keys()
    return denial.denies and not shared <= question.names and 2 * len(shared) >= len(each.hits)


def _is_of_another_thing(question: Question, denial: Candidate) -> bool:
    """Tell whether a sentence names nothing of the question but what its document is about, though the
    question names more: "Smoking is forbidden" where is asked on which roads."""
    if denial.refers_back or denial.language != question.language:
        return False
    return question.matter > denial.is_about & question.matter and denial.in_heading.issuperset(
        question.matter & denial.hits.keys()
    )
