"""Values that sentences state, compared whatever their unit: numbers, money, times of day, dates, persons."""

import re
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import Any, Final, NamedTuple

from groundline_language.terms import content_terms

from groundline_generator.domain.asking.times import DATE, month_number
from groundline_generator.domain.signs import COUNTED, UNITS

_WORDS_OF: Final[Mapping[str, Any]] = tomllib.loads(
    (files("groundline_generator.domain.checking") / "values.toml").read_text(encoding="utf-8")
)
_WORDS: Final[Mapping[str, str]] = _WORDS_OF["words"]

_DIMENSIONS: Final[Mapping[str, tuple[str, float, float]]] = {
    unit: (dimension, *((each[0], each[1]) if isinstance(each, list) else (each, each)))
    for dimension, units in _WORDS_OF["units"].items()
    for unit, each in units.items()
}
"""Dimension of a unit, and the least and the greatest size of one."""

_SCALES: Final = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


def _choice(key: str) -> frozenset[str]:
    return frozenset(_WORDS[key].split("|"))


def _terms(key: str) -> frozenset[str]:
    return frozenset(chain(*(content_terms(_WORDS[key], each) for each in ("english", "german"))))


_ROUGH, _TO, _BETWEEN, _AND, _CLOCK = map(_choice, ("rough", "to", "between", "and", "clock"))
_AT_LEAST, _AT_MOST, BEFORE_NOUN = map(_choice, ("at_least", "at_most", "before_noun"))


def _numbers(key: str, first: int = 1) -> dict[str, int]:
    return {
        name: number for number, names in enumerate(_WORDS[key].split(), first) for name in names.split("|")
    }


_NUMBERED: Final = _numbers("weekdays", 0)
REPHRASED: Final = _terms("verbs")
"""Terms of a question by which it asks for a value, and which an answer need not repeat."""

DOCUMENTS: Final = _terms("documents")
"""Terms by which titles tell kinds of documents, not of things."""

NOUNS: Final = frozenset(_WORDS["verbs"].split())
"""The same as they are written; a German noun has to be one of them."""

PART, LIMIT, AFTER, _MOST, _LEAST = (
    re.compile(_WORDS[key], re.IGNORECASE | re.VERBOSE) for key in ("part", "limit", "after", "most", "least")
)
_TIMES: Final = _numbers("times")
_MULTIPLIED, _PER, _EVERY = map(_choice, ("multiplied", "per", "every"))
_OFTEN: Final[Mapping[str, str]] = {
    word: unit for unit, words in _WORDS_OF["often"].items() for word in words.split()
}
ORDINALS: Final = _numbers("ordinals")
TITLES: Final = _choice("titles")
"""Words before the names of persons, in lower case."""

_AT_WORK: Final = tuple(_WORDS["at_work"].split())
_COMPOUNDS: Final = tuple(_WORDS["compounds"].split())

_ASKS: Final = tuple(
    (re.compile(each["words"], re.IGNORECASE | re.VERBOSE), frozenset(each["kinds"].split()))
    for each in _WORDS_OF["asks"]
)

_COUNTS: Final = re.compile(r"\b(?:how many|wie ?viele?n?)\s+(?P<unit>[^\W\d_]+)", re.IGNORECASE)

_TOKEN: Final = re.compile(
    rf"(?P<date>{DATE})|(?P<number>\d+(?:[.,:]\d+)*)"
    r"|(?P<word>[ap]\.m\b\.?|[^\W\d_]+(?:['’.-][^\W\d_]+)*[²³]?|°[CF]?)|(?P<mark>[^\w\s])"
)
_PERSON: Final = re.compile(
    r"(?<![^\W\d_])[A-ZÄÖÜ][^\W\d_]+(?:[-'’][A-ZÄÖÜ][^\W\d_]+)?(?:\s(?:van|von|de|der|den|bin|al))?"
    r"(?:\s[A-ZÄÖÜ][^\W\d_]+(?:[-'’][A-ZÄÖÜ][^\W\d_]+)?){1,2}"
)
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_YEAR: Final = re.compile(r"1[5-9]\d\d|20\d\d")
_DASHES: Final = frozenset("-–—")
_HOURS: Final = re.compile(r"(\d{1,2})(?:[:.](\d\d))?")
_PREPOSITIONS: Final = frozenset({"at", "by", "with", "bei", "mit", "um", "von"})
_HALVES: Final = {"am": 0, "pm": 12}
_A_YEAR: Final = 10_000
"""How far apart two days are that are a year apart: 20240403. Dates without a year are below."""

_HOURS_OF_DAY: Final = 24
_LONG: Final = 4
"""Minimum letters of words that count a unit of time; shorter ones may only join others."""

_ROUGHLY: Final = 0.1
"""Share by which a value that is said to be rough may be off."""

_ROUNDED: Final = 0.01
"""The same of numbers from a thousand on of which one ends in zeros."""

_VARIES: Final = 1.12
"""How much longer the longest month is than the shortest, and a little more."""

_REMEMBERED: Final = 1_024
"""Sentences whose values are cached."""


class Value(NamedTuple):
    """A value of a `kind`, from `low` to `high`; `thing` holds the words beside a number that has no unit."""

    kind: str
    low: float
    high: float
    shown: str
    start: int
    end: int
    bound: str = ""
    is_rough: bool = False
    thing: str = ""
    unit: str = ""

    @property
    def is_range(self) -> bool:
        return self.low != self.high

    def differs(self, other: "Value") -> bool:
        """Tell whether both cannot be true of one thing: a range may hold the other, or one be rounded."""
        ours, theirs = self._beside(other)._bounded(other), other._beside(self)._bounded(self)
        slack = 0.0
        if self.is_rough or other.is_rough:
            slack = _ROUGHLY * max(abs(self.high), abs(other.high))
        elif (
            min(self.low, other.low) >= 1000
            and self.kind == "count"
            and 0 in (self.low % 100, other.low % 100)
        ):
            slack = _ROUNDED * max(self.high, other.high)
        return (
            ours[1] + slack < theirs[0]
            or theirs[1] + slack < ours[0]
            or (self.kind == "clock" and self.is_range and other.is_range and ours != theirs)
        )

    def is_told_by(self, other: "Value") -> bool:
        """Tell whether the other says the same in whatever unit; of months and years the length varies. A day
        tells its month and year, a range its ends."""
        if other.kind == "date" and self.kind in ("date", "year"):
            ours, theirs = self._beside(other), other._beside(self)
            if self.kind == "year" or self.unit == "month":
                return ours.low <= theirs.low and theirs.high <= ours.high
            ends, others = {ours.low, ours.high}, {theirs.low, theirs.high}
            return not ends.isdisjoint(others) if "/" in (self.unit, other.unit) else ends <= others
        if self.kind != other.kind or self.unit == other.unit:
            return (self.kind, self.low, self.high) == (other.kind, other.low, other.high)
        is_one = max(self.high, other.high) <= _VARIES * max(self.low, other.low)
        return is_one and self.low <= other.high and other.low <= self.high

    def of_year(self) -> "Value":
        """Return the year of a date that has one; any other value as it is."""
        year = self.low // _A_YEAR
        return self._replace(kind="year", low=year, high=year) if self.kind == "date" and year else self

    def _beside(self, other: "Value") -> "Value":
        """Return a year as its days beside a date, and a date as it is without its year beside one that has
        none."""
        if self.kind == "year" and other.kind == "date":
            return self._replace(low=self.low * _A_YEAR, high=(self.high + 1) * _A_YEAR - 1)
        if self.kind == "date" and other.kind == "date" and other.low < _A_YEAR:
            return self._replace(low=self.low % _A_YEAR, high=self.high % _A_YEAR)
        return self

    def of_hours(self) -> "Value":
        """Return what "8 to 12" means if a time is asked for; any other value as it is."""
        if self.kind != "count" or not 0 <= self.low < self.high <= _HOURS_OF_DAY or " " in self.thing:
            return self
        return self._replace(kind="clock", low=self.low * 60, high=self.high * 60)

    def _bounded(self, other: "Value") -> tuple[float, float]:
        if self.bound == other.bound or not self.bound:
            return self.low, self.high
        return (self.low, float("inf")) if self.bound == "least" else (float("-inf"), self.high)


def kinds_asked(query: str) -> frozenset[str] | None:
    """Return the kinds of values that a question asks for, empty if any will do; None if it asks for none."""
    return next((kinds for pattern, kinds in _ASKS if pattern.search(query)), None)


def asked_unit(query: str) -> tuple[str, str, str] | None:
    """Return the unit that a question counts, its kind and its word: "how many days", "wie viele Stunden"."""
    found = _COUNTS.search(query)
    unit = UNITS.get(found["unit"].casefold()) if found else None
    return (unit, _kind(unit), found["unit"]) if found and unit and unit not in _SCALES else None


def _kind(unit: str) -> str:
    return _DIMENSIONS[unit][0] if unit in _DIMENSIONS else unit


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    parts: Mapping[str, str]
    """Day, month and year of a date, as far as it has them."""

    @property
    def folded(self) -> str:
        return self.text.casefold()


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(str(match.lastgroup), match.group(), *match.span(), _parts(match))
        for match in _TOKEN.finditer(text)
    ]


def _parts(match: re.Match[str]) -> Mapping[str, str]:
    return {name[0]: part for name, part in match.groupdict().items() if part and name[1:].isdigit()}


def persons(text: str, known: Container[str]) -> list[str]:
    """Return what may be the full names of persons: two or three words with a capital, none of them known."""
    return [
        found.group()
        for found in _PERSON.finditer(text)
        if not any(word.casefold() in known for word in found.group().split())
    ]


@lru_cache(maxsize=_REMEMBERED)
def values(text: str) -> Sequence[Value]:
    """Return the values of a sentence in their order, of which two that are joined are one."""
    tokens = _tokens(text)
    found: list[tuple[Value, int, int]] = []
    place = 0
    while place < len(tokens):
        value, after = _value_at(tokens, place)
        if value is None:
            place += 1
            continue
        found.append((value, place, after))
        place = after
    joined = list(_joined(tokens, found))
    if len(joined) == 1 and not joined[0].bound:
        bound = "most" if _MOST.search(text) else "least" if _LEAST.search(text) else ""
        joined[0] = joined[0]._replace(bound=bound)
    return tuple(joined)


def _at(tokens: Sequence[_Token], place: int) -> _Token | None:
    return tokens[place] if 0 <= place < len(tokens) else None


def _value_at(tokens: Sequence[_Token], place: int) -> tuple[Value | None, int]:
    token = tokens[place]
    if token.kind == "date":
        return _date(token), place + 1
    day = _NUMBERED.get(token.folded.rstrip("s")) if token.kind == "word" and len(token.text) > 3 else None
    if day is not None:
        return Value("weekday", day, day, token.text, token.start, token.end), place + 1
    if token.kind != "mark" and (often := _often(tokens, place)):
        return often
    number = _number(token, _at(tokens, place + 1))
    before = _at(tokens, place - 1)
    start, after = token.start, place + 1
    if number is None or (before and before.end == token.start and before.text in "/.:_§#"):
        return None, place
    following = _at(tokens, after)
    if before and before.text in "€$£":
        return _measured(tokens, place, number, UNITS[before.text], before.start, after)
    if clock := _clock(tokens, place, number):
        return clock
    if following and following.folded in UNITS and UNITS[following.folded] in _SCALES:
        number, after = number * _SCALES[UNITS[following.folded]], after + 1
        following = _at(tokens, after)
    beyond = _at(tokens, after + 1) if following and following.text in _DASHES else None
    if beyond and beyond.folded in UNITS:
        after, following = after + 1, beyond
    counted = UNITS.get(following.folded) if following else None
    last = _at(tokens, after + 1)
    if counted is None and following and last and _is_duration(following, last):
        after, counted = after + 1, UNITS[last.folded]
    elif counted is None and following and following.text[0].isupper():
        counted = _of_compound(following.folded)
    if counted:
        return _measured(tokens, place, number, counted, start, after + 1)
    is_counting = following and following.kind == "word" and following.text[0].isupper()
    if token.kind == "number" and _YEAR.fullmatch(token.text) and not is_counting:
        return Value("year", number, number, token.text, start, token.end), after
    thing = f"{_thing(tokens, after)} {_word_before(tokens, place)}".strip()
    bound, rough = _before(tokens, place)
    end = tokens[after - 1].end
    return Value("count", number, number, token.text, start, end, bound, rough, thing), after


def _often(tokens: Sequence[_Token], place: int) -> tuple[Value, int] | None:
    """Return how far apart what happens "twice a year", "every 6 months" or "daily" is."""
    word, next_ = tokens[place].folded, _at(tokens, place + 1)
    times, each, after = _TIMES.get(word, 0.0), 1.0, place + 1
    if word in _EVERY and next_:
        number = _number(next_)
        each, after = (number, place + 2) if number else (1.0, place + 1)
    elif not times and next_ and next_.folded in _MULTIPLIED:
        times, after = _number(tokens[place]) or 0.0, place + 2
    while times and after < len(tokens) and tokens[after].folded in _PER:
        after += 1
    if not times and word not in _EVERY:
        after = place
    following = tokens[after].folded if after < len(tokens) else ""
    unit = _OFTEN.get(following) or (UNITS.get(following) if after > place else None)
    if unit is None or _kind(unit) != "duration":
        return None
    _, least, greatest = _DIMENSIONS[unit]
    end = tokens[after].end
    shown = _shown(tokens[place : after + 1])
    apart = (each * least / (times or 1), each * greatest / (times or 1))
    return Value("often", *apart, shown, tokens[place].start, end, unit=unit), after + 1


def _date(token: _Token) -> Value:
    """Return a day or month as a number of its year, month and day; 3/4/2024 may be of March or April."""
    day, year, name = int(token.parts.get("d", 0)), int(token.parts.get("y", 0)), token.parts["m"]
    month = int(name) if name.isdecimal() else month_number(name)
    unit, days = "", [(month, day)]
    if "/" in token.text:
        unit, days = "/", [(month, day), (day, month)]
    elif not day:
        unit, days = "month", [(month, 1), (month, 31)]
    numbers = [year * _A_YEAR + one * 100 + each for one, each in days if one <= 12]
    low, high = min(numbers), max(numbers)
    return Value("date", low, high, token.text, token.start, token.end, unit=unit)


def _is_duration(first: _Token, last: _Token) -> bool:
    """Tell whether two words behind a number count a unit of time: "calendar days", and not "working
    days"."""
    is_own = not first.folded.startswith(_AT_WORK) and first.folded not in _EVERY
    is_long = min(len(first.text), len(last.text)) >= _LONG
    return first.text.islower() and is_own and is_long and _kind(UNITS.get(last.folded, "")) == "duration"


def _of_compound(word: str) -> str | None:
    end = next((each for each in _COMPOUNDS if word.endswith(each) and word != each), None)
    return UNITS[end] if end and not word.startswith(_AT_WORK) else None


def _word_before(tokens: Sequence[_Token], place: int) -> str:
    """Return the word before a number: its label ("port 7443"), or the column of a cell ("Seats: 120")."""
    before = place - 1
    if before >= 0 and tokens[before].text == ":":
        before -= 1
    return tokens[before].text if before >= 0 and tokens[before].kind == "word" else ""


def _number(token: _Token, following: _Token | None = None) -> float | None:
    if token.kind == "word" and token.folded == "one" and following and following.folded in UNITS:
        return 1.0
    if token.kind == "word":
        return float(COUNTED[token.folded]) if token.folded in COUNTED else None
    if token.kind != "number":
        return None
    text = token.text
    if ":" in text:
        # "127.0.0.1:8080" is an address.
        hours, minutes, *_ = text.split(":")
        return float(f"{hours}.{minutes}") if hours.isdecimal() and minutes.isdecimal() else None
    if _THOUSANDS.fullmatch(text):
        return float(re.sub(r"[.,]", "", text))
    whole, mark, rest = text.replace(",", ".").rpartition(".")
    return float(f"{whole.replace('.', '')}.{rest}") if mark else float(text)


def _clock(tokens: Sequence[_Token], place: int, number: float) -> tuple[Value, int] | None:
    token, next_, beyond = tokens[place], _at(tokens, place + 1), _at(tokens, place + 2)
    parts = _HOURS.fullmatch(token.text)
    following = next_.folded.replace(".", "") if next_ else ""
    if not parts and token.kind != "word":
        return None
    if following not in _HALVES and following not in _CLOCK and ":" not in token.text:
        return None
    # In German "am" is a word before a day; times of day have "Uhr" there.
    is_day = beyond is not None and beyond.text.istitle() and beyond.folded not in _NUMBERED
    if next_ and next_.text == "am" and is_day:
        return None
    hour = int(parts[1]) if parts else int(number)
    minute = int(parts[2] or 0) if parts else 0
    if following in _HALVES:
        hour = hour % 12 + _HALVES[following]
    after = place + (2 if following in _HALVES or following in _CLOCK else 1)
    shown = " ".join(each.text for each in tokens[place:after])
    when = float(hour * 60 + minute)
    return Value("clock", when, when, shown, token.start, tokens[after - 1].end), after


def _measured(
    tokens: Sequence[_Token], place: int, number: float, unit: str, start: int, after: int
) -> tuple[Value, int]:
    kind, least, greatest = _DIMENSIONS.get(unit, (unit, 1.0, 1.0))
    if after + 1 < len(tokens) and tokens[after].text == "/" and tokens[after + 1].folded in UNITS:
        kind, after = f"{kind}/{tokens[after + 1].folded}", after + 2
    bound, rough = _before(tokens, place - 1 if tokens[place].start != start else place)
    end = tokens[after - 1].end
    shown = f"{'' if start == tokens[place].start else tokens[place - 1].text}" + _shown(tokens[place:after])
    return Value(kind, number * least, number * greatest, shown, start, end, bound, rough, unit=unit), after


def _shown(tokens: Sequence[_Token]) -> str:
    text, end = "", tokens[0].start
    for each in tokens:
        text += " " * (each.start > end) + each.text
        end = each.end
    return text


def _thing(tokens: Sequence[_Token], after: int) -> str:
    """Return the words behind a number up to a mark, three at most."""
    found: list[str] = []
    for each in tokens[after : after + 3]:
        if each.kind != "word" or each.folded in ("of", "on", "in", "and", "und", "or", "to", "for", "bis"):
            break
        found.append(each.text)
    return " ".join(found)


def _before(tokens: Sequence[_Token], place: int) -> tuple[str, bool]:
    """Return the bound that the words before a number set, and whether they say that it is rough."""
    words = [each.folded for each in tokens[max(0, place - 4) : place]]
    if words and words[-1] in _PREPOSITIONS:
        words.pop()
    one, two, three = (" ".join(words[-count:]) for count in (1, 2, 3))
    said = {one, two, three}
    bound = "least" if said & _AT_LEAST else "most" if said & _AT_MOST else ""
    return bound, not bound and one in _ROUGH


def _joined(tokens: Sequence[_Token], found: Sequence[tuple[Value, int, int]]) -> Iterator[Value]:
    """Yield values; "8 to 14 kg" and "1 hour 15 minutes" are one."""
    place = 0
    while place < len(found):
        value, start, end = found[place]
        while place + 1 < len(found):
            other, begins, ends = found[place + 1]
            gap = [each.folded for each in tokens[end:begins] if each.text not in "€$£"]
            joined = _range(tokens, value, start, gap, other) or _sum(value, gap, other)
            if joined is None:
                break
            value, end, place = joined, ends, place + 1
        yield value
        place += 1


def _range(
    tokens: Sequence[_Token], value: Value, start: int, gap: Sequence[str], other: Value
) -> Value | None:
    before = tokens[start - 1].folded if start else ""
    if len(gap) != 1 or not (gap[0] in _TO or gap[0] in _DASHES or (before in _BETWEEN and gap[0] in _AND)):
        return None
    if value.kind not in (other.kind, "count", "year"):
        return None
    low = value.low
    if other.kind == "date":
        if value.kind == "year":
            return None
        # "3 to 5 March" and "2 April to 5 May 2024" have at the end what the beginning lacks.
        lacking = other.low - other.low % (_A_YEAR if value.kind == "date" else 100)
        low += lacking if low < _A_YEAR else 0
    if value.kind != other.kind and other.kind == "clock":
        low *= 60
    elif value.kind != other.kind and other.kind in _KINDS_OF_UNITS and low > 0:
        numbers = (number for number in map(_number, _tokens(other.shown)) if number is not None)
        low = low * other.low / (next(numbers, None) or 1.0)
    return other._replace(low=low, start=value.start, shown=f"{value.shown} {gap[0]} {other.shown}")


_KINDS_OF_UNITS: Final = frozenset(each[0] for each in _DIMENSIONS.values())


def _sum(value: Value, gap: Sequence[str], other: Value) -> Value | None:
    if value.kind != "duration" or other.kind != "duration" or other.high >= value.low or value.is_range:
        return None
    if gap and not (len(gap) == 1 and gap[0] in _AND):
        return None
    low, high, shown = value.low + other.low, value.high + other.high, f"{value.shown} {other.shown}"
    return value._replace(low=low, high=high, end=other.end, shown=shown)
