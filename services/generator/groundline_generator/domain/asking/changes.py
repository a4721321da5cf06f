"""Questions about the time before a change, which name it by its value: "before it went up to £2.65"."""

import re
from collections.abc import Iterable
from datetime import date, timedelta
from itertools import islice
from typing import Final

from groundline_generator.domain.asking.times import INTRODUCED, AskedTime, Period, named_times, pattern_of
from groundline_generator.domain.signs import quantities

_BEFORE_CHANGE: Final = pattern_of("before_change", after=r"(?=[€$£]?\s?\d)", flags=re.VERBOSE)
_VALUE: Final = re.compile(r"[€$£]?\s?\d[\d.,]*\d|[€$£]?\s?\d")

_MAX_VALUES: Final = 50
"""Maximum number of numbers that are looked at in a sentence."""

_NEAR: Final = 40
"""Maximum number of characters between a value and the time that stands behind it."""


def time_before_change(query: str, sentences: Iterable[str], today: date) -> AskedTime | None:
    """Return the day before something took a value, if a question asks about the time before that, and one
    of the sentences tells since when it had it."""
    change = _BEFORE_CHANGE.search(query)
    value = _VALUE.match(query, change.end()) if change else None
    wanted = next(quantities(value.group()), None) if value else None
    if not change or not value or not wanted:
        return None
    filler = INTRODUCED.search(query[: change.start()])
    start = filler.start() if filler else change.start()
    for sentence in sentences:
        begun = _beginning(sentence, wanted.values)
        if begun is not None and begun > date.min:
            day = begun - timedelta(days=1)
            timeless = f"{query[:start]} {query[value.end() :]}"
            named = query[start : value.end()]
            return AskedTime(Period(day, day), timeless, named, is_now=False, today=today)
    return None


def _beginning(sentence: str, values: frozenset[str]) -> date | None:
    """Return when what has one of the values began by a sentence: at the last time named before the value, or
    at one close behind it; None if it tells none, or only an end."""
    times = list(named_times(sentence))
    for match in islice(_VALUE.finditer(sentence), _MAX_VALUES) if times else ():
        found = next(quantities(match.group()), None)
        if found is None or values.isdisjoint(found.values):
            continue
        if any(one.start <= match.start() < one.end for one in times):
            continue
        before = [one for one in times if one.end <= match.start()]
        behind = [one for one in times if match.end() <= one.start <= match.end() + _NEAR]
        if nearest := before[-1] if before else next(iter(behind), None):
            return nearest.period.start
    return None
