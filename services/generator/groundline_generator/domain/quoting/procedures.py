"""Answers to questions of what to do: the numbered steps under one heading, in their order."""

from collections.abc import Sequence
from typing import Final

from groundline_generator.domain.asking.asked import asks_for_steps
from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.segments import Kind

_LEAST_STEPS: Final = 2
_MOST_QUOTED: Final = 12
"""Maximum number of sentences and pieces of code: half a procedure helps less than a long answer."""

_LEAST_ABOUT: Final = 2 / 3
"""Minimum share of the question's terms that the steps, their headings and the rest below these have."""

_LEAST_IN_HEADING: Final = 1 / 2
"""Minimum share, names and designations aside, that the headings have: steps do not say what they are for."""


def procedure(question: Question, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the steps that a question of what to do asks for, with what stands between them.

    Half of what it is about is in their headings, and with what stands below them two thirds, all that it
    names, and as much as in the best sentence. Empty if nothing is like that, or if it asks something else.
    """
    if not ranked or not asks_for_steps(question.text):
        return ()
    below: dict[tuple[int, str], list[Candidate]] = {}
    for each in ranked:
        below.setdefault((each.passage, each.sentence.segment.heading), []).append(each)
    least = max(len(ranked[0].is_about), _LEAST_ABOUT * len(question.terms))
    matter = question.terms - question.designated - question.names
    found: list[tuple[int, int, Sequence[Candidate]]] = []
    for (passage, _), members in below.items():
        about = frozenset[str]().union(*(each.is_about for each in members))
        is_named = len(matter & members[0].in_heading) >= max(1, _LEAST_IN_HEADING * len(matter))
        if not is_named or not question.designated <= about or len(about) < least:
            continue
        if steps := _steps(sorted(members, key=lambda each: each.position)):
            found.append((len(about), -passage, steps))
    return max(found, key=lambda each: each[:2])[2][:_MOST_QUOTED] if found else ()


def _steps(members: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the steps among what stands below a heading, with what stands between them, and code after the
    last one; empty if there are fewer than two."""
    kinds = [each.sentence.segment.kind for each in members]
    if kinds.count(Kind.STEP) < _LEAST_STEPS:
        return ()
    first = kinds.index(Kind.STEP)
    end = len(kinds) - kinds[::-1].index(Kind.STEP)
    while end < len(kinds) and kinds[end] is Kind.CODE:
        end += 1
    return members[first:end]
