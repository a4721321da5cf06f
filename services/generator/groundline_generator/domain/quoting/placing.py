"""Order of sentences by the time that a question asks about: of several statements about one thing the one
that was true then answers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import date
from itertools import groupby
from operator import attrgetter
from typing import Final

from groundline_generator.domain.asking.times import AskedTime, named_times, told
from groundline_generator.domain.quoting.candidates import Candidate

_OF_THAT_TIME: Final = 1.2
"""Factor of the score of a sentence that stands in for those of other times."""

_OF_OTHER_TIMES: Final = 0.5
"""Factor of the relevance of all sentences if the best tells of other times, and none near it of that one."""

_NEAR: Final = 0.7
"""Minimum score of a sentence of the time asked about, as a share of the best, not to be far off."""

type _Places = Mapping[tuple[int, int], Candidate]


def place_in_time(candidates: Sequence[Candidate], asked: AskedTime, kind: re.Pattern[str] | None) -> None:
    """Let sentences that tell only of other times answer another question, and those of the time asked about
    stand in for what they go on from; if a kind of answer is asked for, those that have one."""
    for _, members in groupby(candidates, attrgetter("passage")):
        _read(list(members), asked)
    by_place = {(each.passage, each.position): each for each in candidates}
    best = max(candidates, key=lambda each: each.score, default=None)
    minimum = _NEAR * best.score if best else 0.0
    if asked.period.end != date.max:
        for each in [one for one in candidates if _is_superseded(one, by_place, asked)]:
            each.is_of_time = False
    _stand_in([one for one in candidates if _is_of_kind(one, kind)], by_place, asked)
    for each in candidates:
        if each.is_of_time is False:
            each.fade()
    if (
        best
        and best.is_of_time is False
        and not any(each.is_of_time and each.score >= minimum for each in candidates)
    ):
        for each in candidates:
            each.relevance *= _OF_OTHER_TIMES


def _read(members: Sequence[Candidate], asked: AskedTime) -> None:
    """Tell which sentences of a passage are of the time asked about."""
    read = told([each.sentence.text for each in members], asked.today)
    for each, times in zip(members, read, strict=True):
        each.times, each.is_of_time = times, times.agrees(asked)


def _is_of_kind(candidate: Candidate, kind: re.Pattern[str] | None) -> bool:
    """Tell whether a sentence has the kind of answer asked for; its times are no numbers of things."""
    if kind is None or candidate.is_of_kind:
        return True
    text = candidate.sentence.text
    for one in reversed(list(named_times(text))):
        text = text[: one.start] + text[one.end :]
    return kind.search(text) is not None


def _stand_in(candidates: Sequence[Candidate], by_place: _Places, asked: AskedTime) -> None:
    """Let sentences of that time count as much as others of one statement did, before and behind them."""
    before = {place: copy(each) for place, each in by_place.items()}
    for each in candidates:
        if not each.is_of_time:
            continue
        others = list(_gone_on_from(each, by_place))
        # More is true of an open period ("until 1986") than of a day, so what stands behind proves less.
        if not asked.period.is_open:
            others += _going_on_from(each, by_place)
        for other in others:
            each.stand_in_for(before[other.passage, other.position])
        if others:
            each.score *= _OF_THAT_TIME


def _gone_on_from(candidate: Candidate, by_place: _Places) -> Iterator[Candidate]:
    """Yield the sentences before one whose statement it goes on, nearest first, up to one that is of that
    time itself."""
    while _goes_on(candidate) and (previous := by_place.get((candidate.passage, candidate.position - 1))):
        if previous.is_of_time:
            return
        yield previous
        candidate = previous


def _going_on_from(candidate: Candidate, by_place: _Places) -> Iterator[Candidate]:
    """Yield the sentences behind one that go on from it about other times, nearest first."""
    while following := by_place.get((candidate.passage, candidate.position + 1)):
        if following.is_of_time is not False or not _goes_on(following):
            return
        yield following
        candidate = following


def _is_superseded(candidate: Candidate, by_place: _Places, asked: AskedTime) -> bool:
    """Tell whether what goes on from a sentence tells of a later beginning that had come by then."""
    if not candidate.is_of_time:
        return False
    following = by_place.get((candidate.passage, candidate.position + 1))
    while following is not None and _goes_on(following):
        if following.is_of_time and _begun(following, asked) > _begun(candidate, asked):
            return True
        following = by_place.get((following.passage, following.position + 1))
    return False


def _goes_on(candidate: Candidate) -> bool:
    times = candidate.times
    if times is None or not times.periods:
        return False
    return times.begins or times.changes_it or candidate.refers_back


def _begun(candidate: Candidate, asked: AskedTime) -> int:
    return candidate.times.begun(asked).toordinal() if candidate.times else 0
