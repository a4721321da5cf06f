"""Types and units of a table's columns, by what its cells have in common."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final

from groundline.v1 import table_pb2

from groundline_tables.units import convert, is_unit, spelled
from groundline_tables.values import (
    DecimalMark,
    Marks,
    Written,
    boolean_of,
    date_of,
    is_blank,
    number_of,
    read_number,
)

MAX_COLUMNS: Final = 16_000
"""Maximum columns of a table, as the contract says."""

TYPED_SHARE: Final = 0.8
"""Share of a column's cells that are of its type, of those that are not empty, as the contract says."""

_MAX_NAME_CHARACTERS: Final = 200
_HEAD_UNIT: Final = re.compile(
    r"(?P<label>.*?)\s*"
    r"(?:\((?P<round>[^()]{1,20})\)|\[(?P<square>[^\[\]]{1,20})\]|(?:,| in|/)\s+(?P<plain>\S{1,20}))"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and how its cells are read."""

    name: str
    type: table_pb2.ColumnType.ValueType = table_pb2.COLUMN_TYPE_TEXT
    unit: str = ""
    mark: DecimalMark = ""
    is_month_first: bool = False
    is_measured: bool = False
    """Whether its cells name the unit, so that one without a unit has no number; else its head does."""

    def number(self, text: str, exact: str = "") -> Decimal | None:
        """Return a cell's number: of a date its seconds since 1970, of yes and no 1 and 0; None if it has
        none. `exact`: the number that it shows rounded."""
        match self.type:
            case table_pb2.COLUMN_TYPE_NUMBER:
                written = read_number(text)
                number = None if written is None else number_of(written, self.mark)
                if written is None or number is None:
                    return None
                return self._in_unit(Decimal(exact) if exact else number, written.unit)
            case table_pb2.COLUMN_TYPE_DATE:
                moment = date_of(text, is_month_first=self.is_month_first)
                return None if moment is None else moment_number(moment)
            case table_pb2.COLUMN_TYPE_BOOLEAN:
                said = boolean_of(text)
                return None if said is None else Decimal(said)
            case _:
                return None

    def _in_unit(self, number: Decimal, unit: str) -> Decimal | None:
        if not unit:
            return None if self.is_measured else number
        return convert(number, unit, self.unit)


@dataclass(slots=True)
class ColumnEvidence:
    """Counts of what the cells of a column are."""

    filled: int = 0
    numbers: int = 0
    booleans: int = 0
    day_first: int = 0
    month_first: int = 0
    either: int = 0
    """Dates that mean another day if the month comes first."""
    units: Counter[str] = field(default_factory=Counter)
    marks: Marks = field(default_factory=Marks)

    def add(self, text: str) -> None:
        """Count a cell."""
        if is_blank(text):
            return
        self.filled += 1
        if not any(character.isdigit() for character in text):
            self.booleans += boolean_of(text) is not None
            return
        if written := read_number(text):
            self._count(written)
        else:
            by_day, by_month = date_of(text), date_of(text, is_month_first=True)
            self.day_first += by_day is not None
            self.month_first += by_month is not None
            self.either += by_day is not None and by_month not in {None, by_day}

    def _count(self, written: Written) -> None:
        self.numbers += 1
        self.units[written.unit] += 1
        self.marks.add(written.digits)

    def column(self, name: str, elsewhere: DecimalMark) -> Column:
        """Return the column that the cells make; `elsewhere`: the mark that the rest of the table, or its
        language, has before decimals."""
        most = max(1.0, self.filled * TYPED_SHARE)
        if self.booleans >= most:
            return Column(name, table_pb2.COLUMN_TYPE_BOOLEAN)
        if max(self.day_first, self.month_first) >= most:
            if self.either and self.day_first == self.month_first:
                return Column(name)  # nothing tells which of the two days is meant
            return Column(name, table_pb2.COLUMN_TYPE_DATE, is_month_first=self.month_first > self.day_first)
        if self.numbers >= most:
            return self._numeric(name, most, elsewhere)
        return Column(name)

    def _numeric(self, name: str, most: float, elsewhere: DecimalMark) -> Column:
        told = self.marks.told
        if told is None:
            return Column(name)
        mark = told or elsewhere
        if self.marks.is_open and not mark:
            return Column(name)
        _, head = label_of(name)
        units = [unit for unit, _ in self.units.most_common() if unit]
        unit = head or (units[0] if units else "")
        fitting = sum(
            count
            for other, count in self.units.items()
            if (not other and (head or not units)) or (other and convert(Decimal(1), other, unit) is not None)
        )
        if fitting < most:
            return Column(name)
        return Column(name, table_pb2.COLUMN_TYPE_NUMBER, unit, mark, is_measured=bool(units) and not head)


def columns_of(
    names: Sequence[str], evidence: Sequence[ColumnEvidence], mark: DecimalMark, of_language: DecimalMark
) -> list[Column]:
    """Return the columns of a table. `mark`: the one before decimals that its format states; `of_language`:
    the one of the document's language, which counts where its numbers tell none."""
    if mark:
        told: DecimalMark = mark
    else:
        marks = {each.marks.told for each in evidence if each.marks.told}
        told = marks.pop() if len(marks) == 1 else "" if marks else of_language
    return [
        each.column(name.strip()[:_MAX_NAME_CHARACTERS], told)
        for name, each in zip(names, evidence, strict=True)
    ]


def label_of(name: str) -> tuple[str, str]:
    """Return the name of a column without its unit, and the unit, "" without one: of "Weight (kg)" both
    parts."""
    found = _HEAD_UNIT.fullmatch(name.strip())
    if found and found["label"]:
        unit = (found["round"] or found["square"] or found["plain"]).strip()
        for part in (unit, unit.removeprefix("in ").strip()):
            if is_unit(part):
                return found["label"].strip(), spelled(part)
    return name.strip(), ""


def moment_number(moment: datetime) -> Decimal:
    """Return the number of a date: seconds since 1970."""
    return Decimal(int(moment.timestamp()))
