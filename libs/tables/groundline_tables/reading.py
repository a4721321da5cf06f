"""Parts of a plan, read out of what the words of a question mean."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from groundline.v1 import table_pb2

from groundline_tables.language import Mark
from groundline_tables.matching import Meaning, is_calendar, is_numbering, naming_column
from groundline_tables.measures import (
    NoPlanError,
    date_conditions,
    is_measure,
    is_year,
    number_of,
    of_measure,
    only,
)
from groundline_tables.units import same_unit

_EQUAL: Final = table_pb2.TABLE_OPERATOR_EQUAL
_NOT_EQUAL: Final = table_pb2.TABLE_OPERATOR_NOT_EQUAL
_AT_MOST: Final = table_pb2.TABLE_OPERATOR_AT_MOST
_AT_LEAST: Final = table_pb2.TABLE_OPERATOR_AT_LEAST
_NUMBER: Final = table_pb2.COLUMN_TYPE_NUMBER
_DATE: Final = table_pb2.COLUMN_TYPE_DATE
_COUNT: Final = table_pb2.TABLE_FUNCTION_COUNT
_SUM: Final = table_pb2.TABLE_FUNCTION_SUM
_DIFFERENCE: Final = table_pb2.TABLE_FUNCTION_DIFFERENCE
_COUNTED: Final = Mark("function", function=_COUNT)
_EXTREMES: Final = frozenset({table_pb2.TABLE_FUNCTION_MINIMUM, table_pb2.TABLE_FUNCTION_MAXIMUM})


@dataclass(slots=True)
class QuestionReading:
    """A question as it is read: the parts of its plan."""

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
    modified: list[tuple[int, ...]] = field(default_factory=list)
    """Columns among them that are named by a word which only modifies their name."""
    inflected: list[tuple[int, ...]] = field(default_factory=list)
    """Columns among them that are called otherwise than they are named."""
    named_before: int = 0
    """How many columns are requested before the superlative."""
    group_by: int | None = None
    order_by: int | None = None
    is_counted: bool = False
    """Whether it asks for a number beside another function: a "total number"."""
    is_listed: bool = False
    """Whether it says that it asks about what the table has."""
    is_distinct: bool = False
    is_only: bool = False
    is_of_times: bool = False
    is_of_groups: bool = False
    counts_a_cell: bool = False
    """Whether the word after "how many" is a cell: how many of it there are."""
    names_a_title: bool = False
    """Whether a cell that is named is also in the title: the cheapest "DN-6" of "Variants of the DN-6"."""

    def read(self, found: Sequence[Meaning]) -> None:
        """Take the meanings in their order. Raises NoPlanError."""
        self.is_listed, self.is_distinct, self.is_only = (
            any(each.mark(kind) for each in found) for kind in ("listed", "distinct", "only")
        )
        found = [each for each in found if not each.mark("listed", "distinct", "only")]
        at = 0
        while at < len(found):
            each, following = found[at], found[at + 1 : at + 5]
            if each.mark("between") and self._is_difference() and following and following[0].cells:
                at += 1
            elif each.mark("between"):
                self._between(following)
                at += 4
            elif (mark := each.mark("compare")) and following and is_measure(following[0]):
                at += self._compared(each, mark, following)
            elif each.mark("group") and following and following[0].columns:
                self._group(following[0].columns)
                at += 2
            elif mark := each.mark("superlative"):
                self._keep("superlative", mark)
                self.named_before = len(self.requested)
                if each.columns:
                    self.ranked = each.columns
                at += 1
            elif mark := each.mark("function"):
                self._keep("function", mark)
                self.is_of_times |= mark.is_of_count
                self.counts_a_cell |= bool(following and following[0].cells and not following[0].columns)
                at += 1
            elif each.mark("not"):
                if not following or not following[0].cells or following[0].columns:
                    raise NoPlanError
                self._value(following[0], _NOT_EQUAL)
                at += 2
            elif each.mark("and", "or") or (each.mark("than") and self._is_difference()):
                at += self._join(found, at)
            elif each.columns and not each.marks:
                at += self._column(each, following)
            elif each.cells and not each.marks:
                self._value(each)
                at += 1
            elif each.number is not None and following and of_measure(self.table, following[0].columns, None):
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
                raise NoPlanError

    def plan(self) -> table_pb2.TablePlan:
        """Return the plan of what was read. Raises NoPlanError."""
        plan = table_pb2.TablePlan(
            document_id=self.table.document_id,
            table_index=self.table.table_index,
            conditions=self.conditions,
        )
        if self.names_a_title and (self.superlative or self.function):
            raise NoPlanError(is_ambiguous=True)
        naming = naming_column(self.table)
        self._refine()
        if self.is_only and (self.function or self.superlative):
            raise NoPlanError
        is_total = self.function is not None and self.function.function == _SUM
        if is_total and self.is_counted and not self._measured():
            self.function = _COUNTED
            self.counts_a_cell = True  # a "total number" is none that a cell of texts says
        if self.superlative is not None and self.function is not None:
            self._rank_groups()
        elif self.superlative is not None and self.superlative.is_of_count and not self._ranked():
            self._count_groups(naming)
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
            raise NoPlanError
        else:
            plan.columns.extend(self._shown())
        if self.order_by is not None and self.superlative is not None:
            plan.order_by = self.order_by
            plan.is_descending = self.superlative.is_descending
            plan.limit = 1
        return plan

    def _refine(self) -> None:
        """Leave out columns that another word names more narrowly: "who is the winning driver"."""
        every = self.requested
        kept = [columns for columns in every if not any(set(other) < set(columns) for other in every)]
        self.named_before = sum(columns in kept for columns in every[: self.named_before])
        self.requested = kept

    @property
    def ordinal(self) -> Literal["", "first", "last"]:
        """Which row is asked for, if that may be meant by the order of the table as well."""
        if self.superlative is None or not self.superlative.is_ordinal:
            return ""
        return "last" if self.superlative.is_descending else "first"

    def _measured(self) -> list[tuple[int, ...]]:
        """Return the columns named that hold numbers or days."""
        return [columns for columns in self.requested if of_measure(self.table, columns, None)]

    def _ranked(self) -> list[tuple[int, ...]]:
        """Return those of them that a superlative may be about: of several no years, as in "the year with the
        highest price"; of "most", which may count rows, those behind it if any column is."""
        measured, behind = self._measured(), self.requested[self.named_before :]
        is_of_count = self.superlative is not None and self.superlative.is_of_count
        if is_of_count and behind:
            return [columns for columns in measured if columns in behind]
        if len(measured) > 1:
            return [each for each in measured if not all(map(self._is_time, each))] or measured
        return measured

    def _count_groups(self, naming: int | None) -> None:
        """Take the column of texts or years before "most" as groups that are counted: in "which region has
        the most models" the last word names the rows, or nothing does."""
        of_conditions = [(condition.column,) for condition in self.conditions]
        before = [each for each in self.requested[: self.named_before] if each not in of_conditions]
        after = [each for each in self.requested[self.named_before :] if each not in of_conditions]
        if self.group_by is not None or len(before) != 1 or (before == [(naming,)] and not self.is_listed):
            raise NoPlanError
        if any(columns != (naming,) for columns in after):
            raise NoPlanError
        self.group_by = self.order_by = only(before[0])
        column = self.table.columns[self.group_by]
        if column.type in {_NUMBER, _DATE} and not is_calendar(column):
            raise NoPlanError
        self.requested = []
        self.function = _COUNTED
        self.is_of_groups = True

    def _is_difference(self) -> bool:
        return self.function is not None and self.function.function == _DIFFERENCE

    def _asks_a_number(self) -> bool:
        """Tell whether "how many" asks for what a row says: how many inhabitants, not how many rows. Raises
        NoPlanError if no row is named, or nothing says which rows are counted."""
        naming = naming_column(self.table)
        is_of_some = bool(self.conditions) or self.group_by is not None or self.is_listed
        if not self.requested or self.requested == [(naming,)]:
            if not is_of_some:
                raise NoPlanError  # "how many pumps are there?": a table need not have all of them
            is_of_a_row = self.counts_a_cell and [each.column for each in self.conditions] == [naming]
            if is_of_a_row and not (self.is_of_times or self.is_listed):
                raise NoPlanError  # a row that is named is one
            return False
        numbers = of_measure(self.table, self.requested[0], "")
        is_number = bool(numbers) and not any(is_calendar(self.table.columns[index]) for index in numbers)
        if len(self.requested) == 1 and is_of_some and (self.is_distinct or self.is_listed) and not is_number:
            return False
        is_by_name = [each.column for each in self.conditions] == [naming]
        if (
            self.compared
            or self.group_by is not None
            or self.counts_a_cell
            or not self.conditions
            or any(each.operator != _EQUAL for each in self.conditions)
            or not (is_by_name or (is_number and len(self.requested) == 1))
        ):
            raise NoPlanError
        # Texts of several rows are no number, and numbers of several are not added up unasked.
        self.is_only = not (is_by_name and is_number)
        return True

    def _in_unit(self, unit: str) -> None:
        """Take the unit that an answer is asked in: of the columns named last those that have it."""
        columns = [
            column for column in self.requested[-1] if same_unit(unit, self.table.columns[column].unit)
        ]
        if not columns:
            raise NoPlanError
        self.requested[-1] = tuple(columns)

    def _keep(self, name: str, mark: Mark) -> None:
        """Take a function or a superlative. "The average number of pieces" has one function."""
        if mark.function == _COUNT and (self.function or self.superlative):
            self.is_counted = True
            return
        if name == "superlative" and self.function and self.function.function == _COUNT:
            self.function = None
        if self.function and self.function.function == _COUNT and mark.function:
            self.function = None
            self.is_counted = True
        if getattr(self, name) is not None:
            raise NoPlanError
        setattr(self, name, mark)

    def _group(self, columns: tuple[int, ...]) -> None:
        if self.group_by is not None:
            raise NoPlanError
        self.group_by = only(columns)

    def _join(self, found: Sequence[Meaning], at: int) -> int:
        """Take an "and" or "or"; the latter only between cells of one column."""
        before = found[at - 1] if at else None
        after = found[at + 1] if at + 1 < len(found) else None
        if before is None or after is None:
            raise NoPlanError
        if before.cells and after.cells and not after.columns and self.conditions:
            column = self.conditions[-1].column
            if column in after.cells:
                self.conditions[-1].values.append(after.value)
                return 2
        if found[at].mark("or"):
            raise NoPlanError
        return 1

    def _column(self, each: Meaning, following: Sequence[Meaning]) -> int:
        """Take a column, with what it is said to be if that follows."""
        after = following[0] if following and of_measure(self.table, each.columns, None) else None
        mark = after.mark("compare") if after else None
        if mark and not mark.property and len(following) > 1 and is_measure(following[1]):
            self._compare_by(mark, following[1], each.columns)
            return 3
        if after and after.mark("between") and not self._is_difference():
            self._between(following[1:4], each.columns)
            return 5
        if after and after.number is not None and not after.cells:
            if is_year(after) and not all(map(self._is_time, each.columns)):
                raise NoPlanError  # "how many goals in 2014" are not 2014 goals
            self._compare(_EQUAL, after, each.columns)
            return 2
        naming = naming_column(self.table)
        # "who" may be any person of a row; the one that names it is meant.
        is_named = each.is_kind and naming is not None and naming in each.columns
        columns = (naming,) if is_named and naming is not None else each.columns
        if each.is_modifier:
            self.modified.append(columns)
        if each.is_inflected:
            self.inflected.append(columns)
        self.requested.append(columns)
        return 1

    def _compared(self, each: Meaning, mark: Mark, following: Sequence[Meaning]) -> int:
        """Take a comparison with a number; the column may follow: "more than 300 inhabitants"."""
        named = following[1].columns if len(following) > 1 else ()
        if mark.is_of_time and len(following) > 1 and following[1].cells and not named:
            raise NoPlanError  # before "the 2001 championships" is before a row
        before = self.requested[-1] if self.requested else ()
        if (
            not each.columns
            and not of_measure(self.table, before, None)
            and of_measure(self.table, named, None)
        ):
            self._compare_by(mark, following[0], named)
            return 3
        self._compare_by(mark, following[0], each.columns)
        return 2

    def _value(self, each: Meaning, operator: table_pb2.TableOperator.ValueType = _EQUAL) -> None:
        columns = each.cells
        self.names_a_title = self.names_a_title or each.is_title
        if len(columns) > 1:
            # Several columns have such a cell: the one that is named beside it is meant.
            named = [column for column in columns if (column,) in self.requested]
            columns = tuple(named) if len(named) == 1 else columns
        column = only(columns)
        self.conditions.append(
            table_pb2.TableCondition(column=column, operator=operator, values=[each.value])
        )

    def _moment(self, each: Meaning) -> None:
        """Take a year or a day that stands alone, of a table with one column of dates."""
        dates = [column.index for column in self.table.columns if column.type == _DATE]
        if len(dates) != 1 or each.unit:
            raise NoPlanError
        self._compare(_EQUAL, each, (dates[0],))

    def _between(self, following: Sequence[Meaning], columns: tuple[int, ...] = ()) -> None:
        if len(following) < 3 or not following[1].mark("and"):
            raise NoPlanError
        first, _, last = following[:3]
        if first.number is not None and not first.unit and last.unit:
            first = Meaning(first.text, number=first.number, unit=last.unit)
        self._compare(_AT_LEAST, first, columns)
        column = self.conditions[-1].column
        self._compare(_AT_MOST, last, (column,))

    def _compare_by(self, mark: Mark, measure: Meaning, columns: tuple[int, ...]) -> None:
        """Add a comparison; "before" is one of days or years."""
        if not mark.is_of_time:
            self._compare(mark.operator, measure, columns)
            return
        named = columns or (self.requested[-1] if self.requested else ())
        # "founded before 1900" names the years itself.
        is_named = bool(columns) and is_year(measure)
        times = tuple(index for index in named if self._is_time(index) or is_named)
        if times and not columns:
            self.requested.pop()
        if not times and not columns:
            times = tuple(column.index for column in self.table.columns if self._is_time(column.index))
        if not times:
            raise NoPlanError
        self._compare(mark.operator, measure, times)

    def _is_time(self, index: int) -> bool:
        column = self.table.columns[index]
        return column.type == _DATE or (column.type == _NUMBER and is_calendar(column))

    def _compare(
        self,
        operator: table_pb2.TableOperator.ValueType,
        measure: Meaning,
        columns: tuple[int, ...] = (),
    ) -> None:
        """Add the condition that a column, or the one that was named last, or the only one of the unit, has a
        number or day."""
        number, unit = number_of(measure)
        if not columns and self.requested and of_measure(self.table, self.requested[-1], unit):
            columns = of_measure(self.table, self.requested.pop(), unit)
        elif columns:
            columns = of_measure(self.table, columns, unit)
        elif self.requested and self.requested[-1] != (naming_column(self.table),):
            raise NoPlanError  # the column that is named has no such numbers
        else:
            columns = of_measure(self.table, [column.index for column in self.table.columns], unit)
        column = only(columns)
        if self.table.columns[column].type == _DATE:
            self.conditions += date_conditions(column, operator, measure)
        elif number is None:
            raise NoPlanError
        else:
            value = f"{number:f} {unit}".strip()
            self.conditions.append(table_pb2.TableCondition(column=column, operator=operator, values=[value]))
        self.compared.append(column)

    def _ordered(self, mark: Mark) -> int:
        """Return the column that a superlative is about: one of its property, or the one named."""
        if mark.is_of_two:
            if not any(len(condition.values) > 1 for condition in self.conditions):
                raise NoPlanError
            self.is_only = True
        if self.ranked:
            column = only(of_measure(self.table, self.ranked, None))
            self.compared.append(column)
            return column
        candidates = self._ranked()
        if len(candidates) != 1:
            raise NoPlanError(is_ambiguous=len(candidates) > 1)
        self.requested.remove(candidates[0])
        if mark.is_of_count and candidates[0] in self.modified:
            raise NoPlanError  # most hospitals are not most "hospital beds"
        column = only(of_measure(self.table, candidates[0], None))
        is_of_another_order = is_numbering(self.table.columns[column])
        if is_of_another_order or self.table.columns[column].type == _DATE:
            raise NoPlanError  # the highest rank is the lowest number, and a day is the latest
        self.compared.append(column)
        return column

    def _rank_groups(self) -> None:
        """Take the one text column that is named as the groups of which one is asked for."""
        texts = [columns for columns in self.requested if not of_measure(self.table, columns, None)]
        if self.group_by is not None or len(texts) != 1:
            raise NoPlanError
        self.requested.remove(texts[0])
        self.group_by = self.order_by = only(texts[0])

    def _apply(self, mark: Mark, plan: table_pb2.TablePlan) -> None:
        """Put the function into the plan, with the column that it is of."""
        plan.function = mark.function
        if self.group_by is not None:
            plan.group_by = self.group_by
        if mark.function == _COUNT:
            if self.requested:
                plan.function_column = only(self.requested[0])
            return
        if mark.function == _DIFFERENCE:
            # A difference is taken of two named rows only.
            named = [each.operator == _EQUAL and len(each.values) for each in self.conditions]
            if named != [2] or self.compared or self.group_by is not None:
                raise NoPlanError
        with_dates = mark.function in _EXTREMES
        # "average price of the pumps" names the rows by the column that does.
        naming = naming_column(self.table)
        requested = [columns for columns in self.requested if columns != (naming,)]
        if mark.function == _SUM and self.is_counted and any(each in self.inflected for each in requested):
            raise NoPlanError  # a number of "Locomotive" is its name, and not added up
        measured = [
            columns
            for named in requested
            if (columns := of_measure(self.table, named, None if with_dates else ""))
        ]
        if len(measured) != 1 or len(requested) != 1:
            raise NoPlanError(is_ambiguous=len(measured) > 1)
        plan.function_column = only(measured[0])
        column = self.table.columns[plan.function_column]
        if not with_dates and column.type != _NUMBER:
            raise NoPlanError
        if mark.function == _SUM and (is_calendar(column) or is_numbering(column)):
            raise NoPlanError  # years and numbers of rows do not add up

    def _shown(self) -> list[int]:
        """Return the columns to show: those that name the row, those asked for, those compared."""
        requested = [only(columns) for columns in self.requested]
        if not requested and not self.compared and not self._is_filter():
            requested = [self._other_of_two()]
        naming = naming_column(self.table)
        named = [condition.column for condition in self.conditions if condition.column not in self.compared]
        if not (self.conditions or self.superlative):
            raise NoPlanError
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
            raise NoPlanError
        return others[0]
