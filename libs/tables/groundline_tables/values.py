"""Values of cells: numbers with units, dates, yes and no."""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from groundline_tables.data import words_in
from groundline_tables.units import currency_of, spelled

type DecimalMark = Literal["", ".", ","]
"""Mark before decimals; "" if it is not known."""

_WORDS: Final = words_in("values")
_BLANK: Final = frozenset(_WORDS["blank"])
_TRUE: Final = frozenset(_WORDS["true"])
_FALSE: Final = frozenset(_WORDS["false"])
_TOTALS: Final = frozenset(_WORDS["totals"])
_MONTHS: Final[dict[str, int]] = _WORDS["months"]

EDGES: Final = "?!.,;:\"'“”„()[]{}‘’"
"""Marks around words that are not theirs."""

_LONGEST_NUMBER: Final = 60
_NUMBER: Final = re.compile(
    r"(?P<open>\()?\s*(?P<sign>[-+−–]?)\s*(?P<before>[€$£¥]|[A-Za-z]{2,3}\.?)?\s*(?P<minus>[-−–]?)\s*"
    r"(?P<digits>\d[\d.,'’\u00a0\u202f ]*(?<=\d)|[.,]\d+)(?P<less>,[-–—]{1,2})?\s*"
    r"(?P<unit>[^\d\s()][^\d()]{0,16}|)(?P<close>\))?"
)
_SEPARATORS: Final = "'’\u00a0\u202f "
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+")

_ISO: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?Z?)?")
_DOTTED: Final = re.compile(r"(\d{1,2})\.\s?(\d{1,2})\.(\d{4})")
_SLASHED: Final = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_DAY_FIRST: Final = re.compile(r"(\d{1,2})\.?\s+([^\W\d_]+)\.?,?\s+(\d{4})")
_MONTH_FIRST: Final = re.compile(r"([^\W\d_]+)\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})")


class Written(NamedTuple):
    """A number as it is written: its digits, whether it is negative, and its unit."""

    digits: str
    is_negative: bool
    unit: str


@dataclass(slots=True)
class Marks:
    """Counts of the marks before decimals that numbers must have."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, digits: str) -> None:
        """Count what the digits of a number tell."""
        self.counts[_mark_in(digits)] += 1

    @property
    def told(self) -> DecimalMark | None:
        """The mark that they tell, "" for none; None if they contradict each other."""
        if self.counts["."] and self.counts[","]:
            return None
        return "." if self.counts["."] else "," if self.counts[","] else ""

    @property
    def is_open(self) -> bool:
        """Whether some number means another one by another mark."""
        return bool(self.counts["open"])


def folded_text(text: str) -> str:
    """Return a text as texts are compared: without regard to case, white space and the marks around its
    words."""
    words = (word.strip(EDGES) for word in text.casefold().split())
    return " ".join(word for word in words if word)


def is_blank(text: str) -> bool:
    """Tell whether a cell holds nothing, or a mark for nothing."""
    text = text.strip()
    return not text or text.lower() in _BLANK


def is_total(text: str) -> bool:
    """Tell whether a row that begins with this text is a total of others."""
    return folded_text(text) in _TOTALS


def boolean_of(text: str) -> bool | None:
    """Return what a yes or no says; None for anything else."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def read_number(text: str) -> Written | None:
    """Return a number with its digits still as they are written; None if the text is none. Codes that begin
    with a zero, versions and ranges are none."""
    text = text.strip()
    if len(text) > _LONGEST_NUMBER or not (found := _NUMBER.fullmatch(text)):
        return None
    before, unit = found["before"] or "", found["unit"].strip()
    if (before and (unit or not currency_of(before))) or bool(found["open"]) != bool(found["close"]):
        return None
    if len(unit.split()) > 1:
        return None
    digits = found["digits"]
    for separator in _SEPARATORS:
        if separator in digits:
            whole = re.split(r"[.,]", digits)[0]
            if not re.fullmatch(rf"\d{{1,3}}(?:{re.escape(separator)}\d{{3}})+", whole):
                return None
            digits = digits.replace(separator, "")
    if _mark_in(digits) == "none" or (digits[0] == "0" and digits[1:2].isdigit()):
        return None
    negative = found["sign"] in {"-", "−", "–"} or bool(found["minus"]) or bool(found["open"])
    return Written(digits, negative, spelled(before or unit))


def number_of(written: Written, mark: DecimalMark) -> Decimal | None:
    """Return a number by the mark before its decimals; None if it contradicts the number or leaves it
    open."""
    told = _mark_in(written.digits)
    if told in {".", ","} and mark not in {"", told}:
        return None
    if told == "open" and not mark:
        return None
    decimal = told if told in {".", ","} else mark
    digits = written.digits
    digits = digits.replace(".", "").replace(",", ".") if decimal == "," else digits.replace(",", "")
    return Decimal(digits) * (-1 if written.is_negative else 1)


def date_of(text: str, *, is_month_first: bool = False) -> datetime | None:
    """Return a day, with its time if it has one, in UTC; None if the text is none. `is_month_first` says how
    05/04/2024 is meant."""
    text = text.strip()
    try:
        if found := _ISO.fullmatch(text):
            year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        if found := _DOTTED.fullmatch(text):
            return datetime(int(found[3]), int(found[2]), int(found[1]), tzinfo=UTC)
        if found := _SLASHED.fullmatch(text):
            first, second = int(found[1]), int(found[2])
            month, day = (first, second) if is_month_first else (second, first)
            return datetime(int(found[3]), month, day, tzinfo=UTC)
        if (found := _DAY_FIRST.fullmatch(text)) and (month := _MONTHS.get(found[2].lower(), 0)):
            return datetime(int(found[3]), month, int(found[1]), tzinfo=UTC)
        if (found := _MONTH_FIRST.fullmatch(text)) and (month := _MONTHS.get(found[1].lower(), 0)):
            return datetime(int(found[3]), month, int(found[2]), tzinfo=UTC)
    except ValueError:  # the 31st of April
        return None
    return None


def _mark_in(digits: str) -> str:
    """Return the mark that must be before the decimals of these digits: "open" if both are possible, "any" if
    they have none, "none" if they are no number."""
    dots, commas = digits.count("."), digits.count(",")
    if not dots and not commas:
        return "any"
    if dots and commas:
        last = max(digits.rfind("."), digits.rfind(","))
        mark = digits[last]
        whole = digits[:last]
        is_sound = digits.count(mark) == 1 and _GROUPED.fullmatch(whole)
        return mark if is_sound else "none"
    mark = "." if dots else ","
    other = "," if dots else "."
    if dots + commas > 1:
        return other if _GROUPED.fullmatch(digits) else "none"
    whole, _, decimals = digits.partition(mark)
    return "open" if len(decimals) == 3 and 1 <= len(whole) <= 3 and whole != "0" else mark
