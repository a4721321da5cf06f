"""Numbers and days of questions, and the columns that hold such."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from groundline.v1 import table_pb2

from groundline_tables.matching import Meaning
from groundline_tables.units import convert

_EQUAL: Final = table_pb2.TABLE_OPERATOR_EQUAL
_LESS: Final = table_pb2.TABLE_OPERATOR_LESS
_AT_MOST: Final = table_pb2.TABLE_OPERATOR_AT_MOST
_AT_LEAST: Final = table_pb2.TABLE_OPERATOR_AT_LEAST
_NUMBER: Final = table_pb2.COLUMN_TYPE_NUMBER
_DATE: Final = table_pb2.COLUMN_TYPE_DATE
_YEARS: Final = range(1000, 3000)


class NoPlanError(Exception):
    """The meanings do not fit together, or, `is_ambiguous`, in more than one way."""

    def __init__(self, *, is_ambiguous: bool = False) -> None:
        super().__init__()
        self.is_ambiguous = is_ambiguous


def only(columns: Sequence[int]) -> int:
    """Return the one column. Raises NoPlanError for none and for several."""
    if len(columns) != 1:
        raise NoPlanError(is_ambiguous=bool(columns))
    return columns[0]


def is_measure(meaning: Meaning) -> bool:
    """Tell whether something can be compared with the words: a number, a day or a year."""
    return meaning.number is not None or bool(meaning.date) or _year_of(meaning) is not None


def is_year(meaning: Meaning) -> bool:
    """Tell whether a number is most likely a year."""
    return _year_of(meaning) is not None and not meaning.unit


def number_of(meaning: Meaning) -> tuple[Decimal | None, str]:
    """Return the number that the words are, a year too, and its unit; None for none."""
    if meaning.number is None and (year := _year_of(meaning)):
        return Decimal(year), ""
    return meaning.number, meaning.unit


def _year_of(meaning: Meaning) -> int | None:
    """Return the year that a cell, a column's name or a number is; None if it is none."""
    text = meaning.text
    return int(text) if text.isdecimal() and len(text) == 4 and int(text) in _YEARS else None


def of_measure(table: table_pb2.Table, columns: Sequence[int], unit: str | None) -> tuple[int, ...]:
    """Return those of columns that hold numbers of a unit; of any, and dates, if that is None. A number
    without a unit may be of any, or a year."""

    def fits(column: table_pb2.TableColumn) -> bool:
        if column.type == _DATE:
            return not unit
        if column.type != _NUMBER:
            return False
        return not unit or bool(column.unit and convert(Decimal(1), unit, column.unit) is not None)

    return tuple(index for index in columns if fits(table.columns[index]))


def date_conditions(
    column: int, operator: table_pb2.TableOperator.ValueType, measure: Meaning
) -> list[table_pb2.TableCondition]:
    """Return the conditions that a date is, is before or is after a day or a year."""

    def condition(operator: table_pb2.TableOperator.ValueType, value: str) -> table_pb2.TableCondition:
        return table_pb2.TableCondition(column=column, operator=operator, values=[value])

    year = _year_of(measure)
    if year is None:
        if not measure.date:
            raise NoPlanError
        return [condition(operator, measure.date)]
    first, following = f"{year}-01-01", f"{year + 1}-01-01"
    if operator == _EQUAL:
        return [condition(_AT_LEAST, first), condition(_LESS, following)]
    if operator in {_LESS, _AT_LEAST}:
        return [condition(operator, first)]
    return [condition(_LESS if operator == _AT_MOST else _AT_LEAST, following)]
