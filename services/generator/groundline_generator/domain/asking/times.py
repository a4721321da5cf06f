"""Times that a question asks about, and times that sentences tell of, in English and German.

A sentence tells of points ("in 2018"), of spans ("from 2015 to May 2020"), and of spans with one end ("since
2022", "until 2012, then …"). Words such as "before that" and "danach" count from the time that stands before
them, in their sentence or the one before.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple

from groundline_generator.domain.signs import names, quantities

_LANGUAGES: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (files("groundline_generator.domain") / "times.toml").read_text(encoding="utf-8")
)


def _numbered(key: str) -> dict[str, int]:
    """Return the number of each name, from 1."""
    return {
        name: number
        for words in _LANGUAGES.values()
        for number, names in enumerate(words[key].split(), 1)
        for name in names.split("|")
    }


_PARTS: Final = "|".join(words["part"] for words in _LANGUAGES.values())
_PART: Final = rf"(?:(?:{_PARTS})\s+)*"
"""Words that may stand between one that sets a bound and the time itself: "until the end of"."""


INTRODUCED: Final = re.compile(rf"\b(?:(?:{_PARTS}|in|im|on|am|during)\s+){{1,6}}$", re.IGNORECASE)


def pattern_of(key: str, before: str = "", after: str = "", flags: int = 0) -> re.Pattern[str]:
    """Return the pattern of a kind of words in any language."""
    found = (
        words[key].replace("{event}", words["event"]).replace("{clause}", words["clause"])
        for words in _LANGUAGES.values()
    )
    return re.compile(f"{before}(?:{'|'.join(found)}){after}", re.IGNORECASE | flags)


_MONTHS: Final = _numbered("months")
_SEASONS: Final = _numbered("seasons")
_YEAR: Final = r"(?:1[5-9]|20)\d\d"
_NAMES: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_D, _M = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_NUMERIC: Final = (
    rf"(?P<y1>{_YEAR})-(?P<m1>{_M})-(?P<d1>{_D})|(?P<d2>{_D})\. ?(?P<m2>{_M})\. ?(?P<y2>{_YEAR})"
    rf"|(?:(?={_M}/)|(?=\d+/{_M}/))(?P<d3>{_D})/(?P<m3>{_D})/(?P<y3>{_YEAR})"
    rf"|(?:(?<=\b[av][mb] )|(?<=\b[zd][ue][mn] )|(?<=\bbis ))(?P<d4>{_D})\.(?P<m4>{_M})\."
)
DATE: Final = (
    rf"(?<![\w,:/$€£.])(?:(?<!-)(?:{_NUMERIC})(?![/-])"
    rf"|(?P<d5>{_D})(?:st|nd|rd|th|\.)?\s(?:of\s)?(?P<m5>(?i:{_NAMES}))\b\.?(?:,?\s(?:of\s)?(?P<y5>{_YEAR}))?"
    rf"|(?P<m6>(?i:{_NAMES}))\.?\s(?:(?P<d6>{_D})(?:st|nd|rd|th)?(?:,?\s(?P<y6>{_YEAR}))?|(?P<y7>{_YEAR}))"
    r")(?!\w|[.,:]\d)"
)
"""Pattern of a day with or without its year, or of a month with it; in digits a German day without one has to
stand behind "am" or the like. Names of its groups begin with d, m and y."""

_TIME: Final = re.compile(
    rf"(?<![\w.,:/$€£-])(?:"
    rf"(?P<iso>{_YEAR}-\d\d(?:-\d\d)?)"
    rf"|(?P<dotted>\d\d?\.\d\d?\.{_YEAR})"
    rf"|(?:(?P<day>\d\d?)(?:st|nd|rd|th|\.)?\s+(?:of\s+)?)?(?P<month>{_NAMES})\.?\s+"
    rf"(?:(?P<us_day>\d\d?)(?:st|nd|rd|th)?,\s+)?(?P<month_year>{_YEAR})"
    rf"|(?P<season>{'|'.join(_SEASONS)})\s+(?:of\s+)?(?P<season_year>{_YEAR})"
    rf"|(?P<decade>{_YEAR})(?:s|er)"
    rf"|(?P<year>{_YEAR})"
    rf")(?![\w%€$£]|[.,:]\d)(?!\s?[%€°])",
    re.IGNORECASE,
)
_BEFORE: Final = pattern_of("before", after=rf"\s+{_PART}$", flags=re.VERBOSE)
_UNTIL: Final = pattern_of("until", after=rf"\s+{_PART}$", flags=re.VERBOSE)
_SINCE: Final = pattern_of("since", after=rf"\s+{_PART}$", flags=re.VERBOSE)
_BOUND: Final = re.compile(
    "|".join(one.pattern for one in (_BEFORE, _UNTIL, _SINCE)), re.IGNORECASE | re.VERBOSE
)
_TO: Final = pattern_of("to", r"\s*(?:[-–—/]|", rf")\s*{_PART}")
_AND: Final = pattern_of("and", r"\s*", rf"\s*{_PART}")
_BETWEEN: Final = pattern_of("between", after=rf"\s+{_PART}$", flags=re.VERBOSE)
_NOW: Final = pattern_of("now", flags=re.VERBOSE)
_STILL: Final = pattern_of("still")
_VALID: Final = pattern_of("valid", flags=re.VERBOSE)
_EARLIER: Final = pattern_of("earlier", flags=re.VERBOSE)
_LATER: Final = pattern_of("later", flags=re.VERBOSE)
_CHANGE: Final = pattern_of("change", flags=re.VERBOSE)
_FROM_TO: Final = pattern_of("from_to", flags=re.VERBOSE)
_CHANGES_IT: Final = pattern_of("changes_it", flags=re.VERBOSE)
_WHEN: Final = pattern_of("when", flags=re.VERBOSE)
_PAST: Final = pattern_of("past", flags=re.VERBOSE)
_PRESENT: Final = pattern_of("present", flags=re.VERBOSE)
_OF_TERM: Final = pattern_of("of_term", flags=re.VERBOSE)
"""A year that is counted from a beginning: "in the first two years"."""

_LOOKED_AT: Final = 60
"""Number of characters before a time that are searched for what bounds it."""

_LONGEST_UNIT: Final = 20
"""Number of characters behind a year that are searched for a unit: 1800 litres are no year."""

_AMOUNT: Final = re.compile(r"\s[€$£]\d.*", re.DOTALL)
"""A sum of money behind a year: its sign is not the year's unit."""

_BEGINS: Final = 3
"""Maximum number of words before the time that a sentence begins with: "Bought from 1 March 2020"."""


class Period(NamedTuple):
    """Days from `start` to `end`, both included; `date.min` and `date.max` where it has no such bound."""

    start: date
    end: date

    def holds(self, other: "Period") -> bool:
        return self.start <= other.start and other.end <= self.end

    @property
    def is_open(self) -> bool:
        return self.start == date.min or self.end == date.max

    def meets(self, other: "Period") -> bool:
        return self.start <= other.end and other.start <= self.end


class AskedTime(NamedTuple):
    """The time that a question asks about."""

    period: Period
    timeless: str
    """The question without the words that name the time."""
    filler: str
    """Words that name it and need not stand in what answers: "now", and "the year" of "in the year 1990"."""
    is_now: bool
    today: date


class Told(NamedTuple):
    """Times that a sentence tells of, and whether it begins with one: then it is about that time, or goes on
    about what the sentence before it names."""

    periods: Sequence[Period]
    begins: bool
    is_past: bool
    """Whether its verbs are in the past tense alone."""
    changes: bool
    """Whether it tells of a change, after which things stayed as they were then."""
    changes_it: bool
    """Whether it tells of a change of what the sentence before it names."""

    def agrees(self, asked: AskedTime) -> bool | None:
        """Tell whether what is said was so at that time; None if the sentence does not decide it."""
        if any(_is_within(one, asked.period) for one in self.periods):
            # "From 2015 they had 25 days" leaves open whether they still have.
            return None if asked.is_now and self.is_past and not self.changes else True
        # "Founded in 1998, it has 40 members" does not speak of 1998 alone.
        tells = self.begins and (self.is_past or not asked.is_now)
        decide = self.periods if tells else [one for one in self.periods if one.is_open]
        if not decide or any(one.meets(asked.period) for one in self.periods):
            return None
        return False

    def begun(self, asked: AskedTime) -> date:
        """Return when the last of its times began that agrees with the one asked about."""
        return max(one.start for one in self.periods if _is_within(one, asked.period))


def _is_within(one: Period, other: Period) -> bool:
    return one.holds(other) or other.holds(one)


class _Named(NamedTuple):
    """An expression of a time: where it stands, its days, and what the words around it make of them."""

    start: int
    end: int
    days: Period
    period: Period


def asked_time(query: str, language: str | None, today: date) -> AskedTime | None:
    """Return the time that a question asks about; None if it names none, or several.

    In English a number behind a name, as in "Kestrel 2000", is taken for a part of it.
    """
    labels = frozenset(names(query, language)) if language == "english" else frozenset[str]()
    found = [one for one in named_times(query) if labels.isdisjoint(query[: one.start].split()[-1:])]
    if len(found) == 1:
        before, behind = query[: found[0].start], query[found[0].end :]
        filler = INTRODUCED.search(before)
        start = filler.start() if filler else found[0].start
        return AskedTime(
            found[0].period, f"{query[:start]} {behind}", before[start:], is_now=False, today=today
        )
    now = [match.group() for pattern in (_NOW, _STILL) for match in pattern.finditer(query)]
    if found or not now or _WHEN.search(query):
        return None
    timeless = _STILL.sub(" ", _NOW.sub(" ", query))
    return AskedTime(Period(today, today), timeless, " ".join(now), is_now=True, today=today)


def words_of_validity(query: str) -> str:
    """Return the words by which a question asks what was valid at a time, such as "applied"."""
    return " ".join(_VALID.findall(query))


def told(sentences: Sequence[str], today: date) -> Sequence[Told]:
    """Return the times that the sentences of a passage tell of, in their order."""
    found: list[Told] = []
    known: Period | None = None
    for sentence in sentences:
        each, known = _told(sentence, known, today)
        found.append(each)
    return found


@lru_cache(maxsize=4096)
def _told(sentence: str, known: Period | None, today: date) -> tuple[Told, Period | None]:
    """Return what a sentence tells of, and the last time that it names; `known` is the one before it."""
    named = list(named_times(sentence))
    changes = _CHANGE.search(sentence) is not None
    periods: list[Period] = []
    tells_both = changes and _FROM_TO.search(sentence) is not None
    marks: list[tuple[int, _Named | str]] = [(one.start, one) for one in named]
    for kind, pattern in (("earlier", _EARLIER), ("later", _LATER), ("now", _NOW)):
        marks.extend((match.start(), kind) for match in pattern.finditer(sentence))
    marks.sort(key=lambda mark: mark[0])
    # "Afterwards" counts from such a year, of which no date is known.
    told_last: Period | None = None
    is_followed = False
    last = None if _OF_TERM.search(sentence) else known
    for _, mark in marks:
        if isinstance(mark, _Named):
            period = mark.period
            if period.start == date.min and told_last and told_last.end < period.end:
                # "… from 1999 to 2012, followed by Lund until 2020": her time began with the end of his.
                period = Period(told_last.end, period.end)
                if is_followed:
                    periods.pop()
            is_point = period == mark.days
            start = date.min if tells_both and period.start.year == period.end.year else period.start
            periods.append(Period(start, date.max) if changes and is_point else period)
            last = told_last = mark.period
        elif mark == "now":
            periods.append(Period(today, date.max))
        elif mark == "earlier":
            periods.append(Period(date.min, _day_before(last, today)))
        elif last is not None:
            periods.append(Period(last.start if last.end == date.max else last.end, date.max))
        is_followed = mark == "later"
    begins = bool(marks) and len(sentence[: marks[0][0]].split()) <= _BEGINS
    is_past = bool(_PAST.search(sentence)) and not _PRESENT.search(sentence)
    changes_it = _CHANGES_IT.search(sentence) is not None
    return Told(tuple(periods), begins, is_past, changes, changes_it), (last if marks else None)


def _day_before(last: Period | None, today: date) -> date:
    start = today if last is None or last.start == date.min else last.start
    return start - timedelta(days=1)


def named_times(text: str) -> Iterator[_Named]:
    """Yield the times that a text names, as far as the words around each extend it."""
    found = [(match, days) for match in _TIME.finditer(text) if (days := _days_of(match))]
    is_joined = False
    for current, following in pairwise((*found, None)):
        if current is None or is_joined:
            is_joined = False
            continue
        match, days = current
        before = text[max(0, match.start() - _LOOKED_AT) : match.start()]
        joint = text[match.end() : following[0].start()] if following else ""
        is_joined = bool(_TO.fullmatch(joint) or (_BETWEEN.search(before) and _AND.fullmatch(joint)))
        end = match.end()
        period = days
        if is_joined and following:
            period = days = Period(days.start, max(days.end, following[1].end))
            end = following[0].end()
        elif _BEFORE.search(before):
            period = Period(date.min, days.start - timedelta(days=1))
        elif _UNTIL.search(before):
            period = Period(date.min, days.end)
        elif _SINCE.search(before):
            period = Period(days.start, date.max)
        bound = _BOUND.search(before)
        start = match.start() - (len(before) - bound.start() if bound else 0)
        yield _Named(start, end, days, period)


def month_number(name: str) -> int:
    """Return the number of a month that DATE or an expression of time names."""
    return _MONTHS[_plain(name)]


def _plain(name: str) -> str:
    """Return a name in small letters; patterns take Turkish ones for i, too."""
    return name.casefold().replace("ı", "i").replace("\u0307", "")


def _days_of(match: re.Match[str]) -> Period | None:
    """Return the days that an expression names; None if there is no such day, or if it counts something."""
    groups = match.groupdict()
    try:
        if iso := groups["iso"]:
            return _days(*map(int, iso.split("-")))
        if dotted := groups["dotted"]:
            return _days(*reversed([int(part) for part in dotted.split(".")]))
        if month := groups["month"]:
            day = groups["day"] or groups["us_day"]
            return _days(int(groups["month_year"]), month_number(month), int(day) if day else None)
        if season := groups["season"]:
            year, last = int(groups["season_year"]), 3 * _SEASONS[_plain(season)] + 2
            return Period(_days(year, last - 2).start, _days(year, last).end)
        if decade := groups["decade"]:
            return Period(date(int(decade), 1, 1), date(int(decade) + 9, 12, 31))
        behind = _AMOUNT.sub("", match.string[match.end() : match.end() + _LONGEST_UNIT])
        return None if next(quantities(match.group() + behind)).unit else _days(int(groups["year"]))
    except ValueError:
        return None


def _days(year: int, month: int | None = None, day: int | None = None) -> Period:
    if month is None:
        return Period(date(year, 1, 1), date(year, 12, 31))
    if day is None:
        following = date(year + month // 12, month % 12 + 1, 1)
        return Period(date(year, month, 1), following - timedelta(days=1))
    return Period(date(year, month, day), date(year, month, day))
