"""Plans for questions to tables, by rules.

A question is read from left to right. Every word of it must mean something in the table, or be one that asks
for nothing by itself; and what it means must fit together in one way. Else there is no plan: a wrong number
is worse than none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from groundline.v1 import table_pb2
from groundline_language import guess_language

from groundline_tables.language import LANGUAGES, Language, Mark, language_of
from groundline_tables.matching import MAX_WORDS, Known, Meaning, Words, meanings, naming_column, split
from groundline_tables.units import convert, same_unit

_EQUAL: Final = table_pb2.TABLE_OPERATOR_EQUAL
_LESS: Final = table_pb2.TABLE_OPERATOR_LESS
_AT_MOST: Final = table_pb2.TABLE_OPERATOR_AT_MOST
_AT_LEAST: Final = table_pb2.TABLE_OPERATOR_AT_LEAST
_GREATER: Final = table_pb2.TABLE_OPERATOR_GREATER
_NUMBER: Final = table_pb2.COLUMN_TYPE_NUMBER
_DATE: Final = table_pb2.COLUMN_TYPE_DATE
_COUNT: Final = table_pb2.TABLE_FUNCTION_COUNT
_DIFFERENCE: Final = table_pb2.TABLE_FUNCTION_DIFFERENCE
_YEARS: Final = range(1000, 3000)
_EXTREMES: Final = frozenset({table_pb2.TABLE_FUNCTION_MINIMUM, table_pb2.TABLE_FUNCTION_MAXIMUM})


class Planned(NamedTuple):
    """A plan and the place of its table among the given ones; or the reason for having none, and the words
    that mean nothing in the table in which most of them mean something."""

    plan: table_pb2.TablePlan | None = None
    place: int = 0
    refusal: table_pb2.TableRefusal.ValueType = table_pb2.TABLE_REFUSAL_UNSPECIFIED
    unknown_words: Sequence[str] = ()
    language: str = LANGUAGES[0]
    """Language that the question was read in."""
    likeliest: Sequence[int] = ()
    """Without a plan: places of the tables, those first of which more is named."""


class _NoPlanError(Exception):
    """The meanings do not fit together, or, `is_ambiguous`, in more than one way."""

    def __init__(self, *, is_ambiguous: bool = False) -> None:
        super().__init__()
        self.is_ambiguous = is_ambiguous


def plan_for(question: str, tables: Sequence[Known]) -> Planned:
    """Return the plan of the one table that a question fits; of several the one of which it names more."""
    if not tables:
        return Planned(refusal=table_pb2.TABLE_REFUSAL_NO_TABLE)
    words = split(question)
    if len(words.written) > MAX_WORDS:
        return Planned(refusal=table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD, likeliest=range(len(tables)))
    guessed = guess_language(question)
    attempts: list[Planned] = []
    for name in [name for name in LANGUAGES if name == guessed] or LANGUAGES:
        tried = [_planned(words, known, language_of(name)) for known in tables]
        attempts += tried
        found = [(place, attempt) for place, attempt in enumerate(tried) if attempt.plan]
        best = max((attempt.place for _, attempt in found), default=0)
        fitting = [(place, attempt) for place, attempt in found if attempt.place == best]
        if len(fitting) == 1:
            [(place, attempt)] = fitting
            return attempt._replace(place=place)
        if fitting:
            return Planned(refusal=table_pb2.TABLE_REFUSAL_AMBIGUOUS, likeliest=_likeliest(tried))
    nearest = min(attempts, key=lambda attempt: (len(attempt.unknown_words), -attempt.place))
    return nearest._replace(place=0, likeliest=_likeliest(attempts[-len(tables) :]))


def _likeliest(attempts: Sequence[Planned]) -> Sequence[int]:
    """Return the places of tables in the order of how many words name something in them."""
    return sorted(range(len(attempts)), key=lambda place: -attempts[place].place)


def _planned(words: Words, known: Known, language: Language) -> Planned:
    """Return a plan for one table, with the number of words that name something in it as its place."""
    found, unknown = meanings(words, known, language)
    named = sum(len(each.text.split()) for each in found if each.columns or each.cells or each.is_title)
    if unknown:
        return Planned(None, named, table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD, unknown)
    reading = _Reading(known.table, language.fillers)
    try:
        reading.read([each for each in found if each.cells or not each.is_title])
        return Planned(reading.plan(), named, language=language.name)
    except _NoPlanError as error:
        refusal = (
            table_pb2.TABLE_REFUSAL_AMBIGUOUS
            if error.is_ambiguous
            else table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD
        )
        return Planned(None, named, refusal)


@dataclass(slots=True)
class _Reading:
    """Parts of a plan, as they are read out of a question."""

    table: table_pb2.Table
    fillers: frozenset[str]
    """Words that ask for nothing, of which some also compare or group."""
    conditions: list[table_pb2.TableCondition] = field(default_factory=list)
    requested: list[tuple[int, ...]] = field(default_factory=list)
    """Columns that are named and not used yet, each one of several."""
    compared: list[int] = field(default_factory=list)
    function: Mark | None = None
    superlative: Mark | None = None
    ranked: tuple[int, ...] = ()
    """Columns that the superlative speaks of; empty for the one named."""
    group_by: int | None = None
    order_by: int | None = None
    names_a_title: bool = False
    """Whether a cell that is named is also in the title: the cheapest "DN-6" of "Variants of the DN-6"."""

    def read(self, found: Sequence[Meaning]) -> None:
        """Take the meanings in their order. Raises _NoPlanError."""
        at = 0
        while at < len(found):
            each, following = found[at], found[at + 1 : at + 5]
            if each.mark("between") and self._is_difference() and following and following[0].cells:
                at += 1
            elif each.mark("between"):
                self._between(following)
                at += 4
            elif (mark := each.mark("compare")) and following and _is_measure(following[0]):
                at += self._compared(each, mark, following)
            elif each.mark("group") and following and following[0].columns:
                self._group(following[0].columns)
                at += 2
            elif mark := each.mark("superlative"):
                self._keep("superlative", mark)
                if each.columns:
                    self.ranked = each.columns
                at += 1
            elif mark := each.mark("function"):
                self._keep("function", mark)
                at += 1
            elif each.mark("and", "or"):
                at += self._join(found, at)
            elif each.columns and not each.marks:
                at += self._column(each, following)
            elif each.cells and not each.marks:
                self._value(each)
                at += 1
            elif (
                each.number is not None and following and _of_measure(self.table, following[0].columns, None)
            ):
                # "have 7 seats"
                self._compare(_EQUAL, each, following[0].columns)
                at += 2
            elif each.number is not None or each.date:
                self._moment(each)
                at += 1
            elif each.unit and self.requested:
                self._in_unit(each.unit)
                at += 1
            elif each.marks and each.text.casefold() in self.fillers:
                at += 1
            else:
                raise _NoPlanError

    def plan(self) -> table_pb2.TablePlan:
        """Return the plan of what was read. Raises _NoPlanError."""
        plan = table_pb2.TablePlan(
            document_id=self.table.document_id,
            table_index=self.table.table_index,
            conditions=self.conditions,
        )
        if self.names_a_title and (self.superlative or self.function):
            raise _NoPlanError(is_ambiguous=True)
        if self.superlative is not None and self.function is not None:
            self._rank_groups()
        elif self.superlative is not None:
            self.order_by = self._ordered(self.superlative)
        # "in the North region" names the column of a condition again.
        named = [(condition.column,) for condition in self.conditions]
        self.requested = [columns for columns in self.requested if columns not in named]
        if self.function is not None and self.function.function == _COUNT and self._asks_a_number():
            self.function = None
        if self.function is not None:
            self._apply(self.function, plan)
        elif self.group_by is not None:
            raise _NoPlanError
        else:
            plan.columns.extend(self._shown())
        if self.order_by is not None and self.superlative is not None:
            plan.order_by = self.order_by
            plan.is_descending = self.superlative.is_descending
            plan.limit = 1
        return plan

    def _is_difference(self) -> bool:
        return self.function is not None and self.function.function == _DIFFERENCE

    def _asks_a_number(self) -> bool:
        """Tell whether "how many" asks for what a row says: how many inhabitants, not how many rows. Raises
        _NoPlanError if no row is named, or nothing says which rows are counted."""
        naming = naming_column(self.table)
        if not self.requested or self.requested == [(naming,)]:
            if not self.conditions and self.group_by is None:
                raise _NoPlanError  # "how many pumps are there?": a table need not have all of them
            return False
        if (
            self.compared
            or self.group_by is not None
            or [each.column for each in self.conditions] != [naming]
        ):
            raise _NoPlanError
        return True

    def _in_unit(self, unit: str) -> None:
        """Take the unit that an answer is asked in: of the columns named last those that have it."""
        columns = [
            column for column in self.requested[-1] if same_unit(unit, self.table.columns[column].unit)
        ]
        if not columns:
            raise _NoPlanError
        self.requested[-1] = tuple(columns)

    def _keep(self, name: str, mark: Mark) -> None:
        """Take a function or a superlative. "The average number of pieces" has one function."""
        if mark.function == _COUNT and (self.function or self.superlative):
            return
        if name == "superlative" and self.function and self.function.function == _COUNT:
            self.function = None
        if self.function and self.function.function == _COUNT and mark.function:
            self.function = None
        if getattr(self, name) is not None:
            raise _NoPlanError
        setattr(self, name, mark)

    def _group(self, columns: tuple[int, ...]) -> None:
        if self.group_by is not None:
            raise _NoPlanError
        self.group_by = _only(columns)

    def _join(self, found: Sequence[Meaning], at: int) -> int:
        """Take an "and" or "or"; the latter only between cells of one column."""
        before = found[at - 1] if at else None
        after = found[at + 1] if at + 1 < len(found) else None
        if before is None or after is None:
            raise _NoPlanError
        if before.cells and after.cells and not after.columns and self.conditions:
            column = self.conditions[-1].column
            if column in after.cells:
                self.conditions[-1].values.append(after.value)
                return 2
        if found[at].mark("or"):
            raise _NoPlanError
        return 1

    def _column(self, each: Meaning, following: Sequence[Meaning]) -> int:
        """Take a column, with what it is said to be if that follows."""
        after = following[0] if following and _of_measure(self.table, each.columns, None) else None
        mark = after.mark("compare") if after else None
        if mark and not mark.property and len(following) > 1 and _is_measure(following[1]):
            self._compare(mark.operator, following[1], each.columns)
            return 3
        if after and after.mark("between") and not self._is_difference():
            self._between(following[1:4], each.columns)
            return 5
        if after and after.number is not None and not after.cells:
            self._compare(_EQUAL, after, each.columns)
            return 2
        self.requested.append(each.columns)
        return 1

    def _compared(self, each: Meaning, mark: Mark, following: Sequence[Meaning]) -> int:
        """Take a comparison with a number; the column may follow: "more than 300 inhabitants"."""
        named = following[1].columns if len(following) > 1 else ()
        before = self.requested[-1] if self.requested else ()
        if (
            not each.columns
            and not _of_measure(self.table, before, None)
            and _of_measure(self.table, named, None)
        ):
            self._compare(mark.operator, following[0], named)
            return 3
        self._compare(mark.operator, following[0], each.columns)
        return 2

    def _value(self, each: Meaning) -> None:
        columns = each.cells
        self.names_a_title = self.names_a_title or each.is_title
        if len(columns) > 1:
            # Several columns have such a cell: the one that is named beside it is meant.
            named = [column for column in columns if (column,) in self.requested]
            columns = tuple(named) if len(named) == 1 else columns
        column = _only(columns)
        self.conditions.append(table_pb2.TableCondition(column=column, operator=_EQUAL, values=[each.value]))

    def _moment(self, each: Meaning) -> None:
        """Take a year or a day that stands alone, of a table with one column of dates."""
        dates = [column.index for column in self.table.columns if column.type == _DATE]
        if len(dates) != 1 or each.unit:
            raise _NoPlanError
        self._compare(_EQUAL, each, (dates[0],))

    def _between(self, following: Sequence[Meaning], columns: tuple[int, ...] = ()) -> None:
        if len(following) < 3 or not following[1].mark("and"):
            raise _NoPlanError
        first, _, last = following[:3]
        if first.number is not None and not first.unit and last.unit:
            first = Meaning(first.text, number=first.number, unit=last.unit)
        self._compare(_AT_LEAST, first, columns)
        column = self.conditions[-1].column
        self._compare(_AT_MOST, last, (column,))

    def _compare(
        self,
        operator: table_pb2.TableOperator.ValueType,
        measure: Meaning,
        columns: tuple[int, ...] = (),
    ) -> None:
        """Add the condition that a column, or the one that was named last, or the only one of the unit, has a
        number or day."""
        number, unit = _number_of(measure)
        if not columns and self.requested and _of_measure(self.table, self.requested[-1], unit):
            columns = _of_measure(self.table, self.requested.pop(), unit)
        elif columns:
            columns = _of_measure(self.table, columns, unit)
        elif self.requested and self.requested[-1] != (naming_column(self.table),):
            raise _NoPlanError  # the column that is named has no such numbers
        else:
            columns = _of_measure(self.table, [column.index for column in self.table.columns], unit)
        column = _only(columns)
        if self.table.columns[column].type == _DATE:
            self.conditions += _date_conditions(column, operator, measure)
        elif number is None:
            raise _NoPlanError
        else:
            value = f"{number:f} {unit}".strip()
            self.conditions.append(table_pb2.TableCondition(column=column, operator=operator, values=[value]))
        self.compared.append(column)

    def _ordered(self, mark: Mark) -> int:
        """Return the column that a superlative is about: one of its property, or the one named."""
        if mark.is_of_two and not any(len(condition.values) > 1 for condition in self.conditions):
            raise _NoPlanError
        if self.ranked:
            column = _only(_of_measure(self.table, self.ranked, None))
            self.compared.append(column)
            return column
        candidates = [columns for columns in self.requested if _of_measure(self.table, columns, None)]
        if len(candidates) != 1:
            raise _NoPlanError(is_ambiguous=len(candidates) > 1)
        self.requested.remove(candidates[0])
        column = _only(_of_measure(self.table, candidates[0], None))
        self.compared.append(column)
        return column

    def _rank_groups(self) -> None:
        """Take the one text column that is named as the groups of which one is asked for."""
        texts = [columns for columns in self.requested if not _of_measure(self.table, columns, None)]
        if self.group_by is not None or len(texts) != 1:
            raise _NoPlanError
        self.requested.remove(texts[0])
        self.group_by = self.order_by = _only(texts[0])

    def _apply(self, mark: Mark, plan: table_pb2.TablePlan) -> None:
        """Put the function into the plan, with the column that it is of."""
        plan.function = mark.function
        if self.group_by is not None:
            plan.group_by = self.group_by
        if mark.function == _COUNT:
            if self.requested:
                plan.function_column = _only(self.requested[0])
            return
        if mark.function == _DIFFERENCE:
            # A difference is taken of two named rows only.
            named = [each.operator == _EQUAL and len(each.values) for each in self.conditions]
            if named != [2] or self.compared or self.group_by is not None:
                raise _NoPlanError
        with_dates = mark.function in _EXTREMES
        # "average price of the pumps" names the rows by the column that does.
        naming = naming_column(self.table)
        requested = [columns for columns in self.requested if columns != (naming,)]
        measured = [
            columns
            for named in requested
            if (columns := _of_measure(self.table, named, None if with_dates else ""))
        ]
        if len(measured) != 1 or len(requested) != 1:
            raise _NoPlanError(is_ambiguous=len(measured) > 1)
        plan.function_column = _only(measured[0])

    def _shown(self) -> list[int]:
        """Return the columns to show: those that name the row, those asked for, those compared."""
        requested = [_only(columns) for columns in self.requested]
        if not requested and not self.compared and not self._is_filter():
            requested = [self._other_of_two()]
        naming = naming_column(self.table)
        named = [condition.column for condition in self.conditions if condition.column not in self.compared]
        if not (self.conditions or self.superlative):
            raise _NoPlanError
        return list(
            dict.fromkeys([*([] if naming is None else [naming]), *named, *requested, *self.compared])
        )

    def _is_filter(self) -> bool:
        """Tell whether the conditions say which rows are asked for, by another column than names them."""
        naming = naming_column(self.table)
        return bool(self.conditions) and all(each.column != naming for each in self.conditions)

    def _other_of_two(self) -> int:
        """Return the other column of a table of two, one of which names what the other says."""
        named = [column.index for column in self.table.columns if column.name]
        others = [index for index in named if index != self.conditions[0].column] if self.conditions else []
        if len(named) != 2 or len(others) != 1 or len(self.conditions) != 1:
            raise _NoPlanError
        return others[0]


def _only(columns: Sequence[int]) -> int:
    if len(columns) != 1:
        raise _NoPlanError(is_ambiguous=bool(columns))
    return columns[0]


def _is_measure(meaning: Meaning) -> bool:
    return meaning.number is not None or bool(meaning.date) or _year_of(meaning) is not None


def _number_of(meaning: Meaning) -> tuple[Decimal | None, str]:
    if meaning.number is None and (year := _year_of(meaning)):
        return Decimal(year), ""
    return meaning.number, meaning.unit


def _year_of(meaning: Meaning) -> int | None:
    """Return the year that a cell, a column's name or a number is; None if it is none."""
    text = meaning.text
    return int(text) if text.isdecimal() and len(text) == 4 and int(text) in _YEARS else None


def _of_measure(table: table_pb2.Table, columns: Sequence[int], unit: str | None) -> tuple[int, ...]:
    """Return those of columns that hold numbers of a unit; of any, and dates, if that is None. A number
    without a unit may be of any, or a year."""

    def fits(column: table_pb2.TableColumn) -> bool:
        if column.type == _DATE:
            return not unit
        if column.type != _NUMBER:
            return False
        return not unit or bool(column.unit and convert(Decimal(1), unit, column.unit) is not None)

    return tuple(index for index in columns if fits(table.columns[index]))


def _date_conditions(
    column: int, operator: table_pb2.TableOperator.ValueType, measure: Meaning
) -> list[table_pb2.TableCondition]:
    """Return the conditions that a date is, is before or is after a day or a year."""

    def condition(operator: table_pb2.TableOperator.ValueType, value: str) -> table_pb2.TableCondition:
        return table_pb2.TableCondition(column=column, operator=operator, values=[value])

    year = _year_of(measure)
    if year is None:
        if not measure.date:
            raise _NoPlanError
        return [condition(operator, measure.date)]
    first, following = f"{year}-01-01", f"{year + 1}-01-01"
    if operator == _EQUAL:
        return [condition(_AT_LEAST, first), condition(_LESS, following)]
    if operator in {_LESS, _AT_LEAST}:
        return [condition(operator, first)]
    return [condition(_LESS if operator == _AT_MOST else _AT_LEAST, following)]
