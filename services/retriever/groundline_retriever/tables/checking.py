"""Plans checked against the columns that a table has."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from groundline.v1 import table_pb2
from groundline_contracts import default_of
from groundline_runtime.errors import FieldViolation, InvalidArgumentError
from groundline_tables.columns import moment_number
from groundline_tables.units import convert
from groundline_tables.values import boolean_of, date_of, folded_text, is_total, number_of, read_number

from groundline_retriever.tables.domain import Bound, CheckedPlan, TextMatch

_LIMIT: Final[int] = default_of(table_pb2.TablePlan, "limit")
_SECONDS_OF_A_DAY: Final = 86_400
_TEXT: Final = table_pb2.COLUMN_TYPE_TEXT
_NUMBER: Final = table_pb2.COLUMN_TYPE_NUMBER
_DATE: Final = table_pb2.COLUMN_TYPE_DATE
_EQUAL: Final = table_pb2.TABLE_OPERATOR_EQUAL
_NOT_EQUAL: Final = table_pb2.TABLE_OPERATOR_NOT_EQUAL
_CONTAINS: Final = table_pb2.TABLE_OPERATOR_CONTAINS
_OF_SEVERAL: Final = frozenset({_EQUAL, _NOT_EQUAL, _CONTAINS})
_OF_NUMBERS: Final = frozenset(
    {
        table_pb2.TABLE_FUNCTION_SUM,
        table_pb2.TABLE_FUNCTION_AVERAGE,
        table_pb2.TABLE_FUNCTION_DIFFERENCE,
    }
)
_OF_AN_ORDER: Final = frozenset({table_pb2.TABLE_FUNCTION_MINIMUM, table_pb2.TABLE_FUNCTION_MAXIMUM})


def check(plan: table_pb2.TablePlan, table: table_pb2.Table) -> CheckedPlan:
    """Return a plan with its conditions in the units of a table's columns. Raises InvalidArgumentError, which
    names every field that does not fit the table."""
    violations = list(_unfitting(plan, table))
    conditions: list[Sequence[Bound | TextMatch]] = []
    for place, condition in enumerate(plan.conditions):
        if condition.column >= len(table.columns):
            continue
        of_column = table.columns[condition.column].type
        if len(condition.values) > 1 and condition.operator not in _OF_SEVERAL:
            violations.append(
                FieldViolation(f"plan.conditions[{place}].values", "must be one for this operator")
            )
        if _takes_text(of_column, condition.operator):
            conditions.append([_text_match(condition)])
        elif of_column == _TEXT:
            violations.append(
                FieldViolation(
                    f"plan.conditions[{place}].operator", "must be one that takes texts: the column has such"
                )
            )
        else:
            field = f"plan.conditions[{place}].values"
            bounds = _bounds(condition, table.columns[condition.column], field, violations)
            # It is one of the values, or it is none of them.
            is_none = condition.operator == _NOT_EQUAL
            conditions += [[bound] for bound in bounds] if is_none else [bounds]
    group_bounds = _group_bounds(plan, table, violations)
    if violations:
        raise InvalidArgumentError(violations)
    columns = list(plan.columns) or [column.index for column in table.columns]
    return CheckedPlan(
        plan,
        conditions,
        () if plan.function else columns,
        plan.limit if plan.HasField("limit") else _LIMIT,
        plan.HasField("order_by") and table.columns[plan.order_by].type == _TEXT,
        any(is_total(value) for condition in plan.conditions for value in condition.values),
        group_bounds,
    )


def _unfitting(plan: table_pb2.TablePlan, table: table_pb2.Table) -> Iterable[FieldViolation]:
    """Yield the columns that the table lacks, or that have the wrong type for what is computed of them."""
    named = [(f"plan.conditions[{place}].column", each.column) for place, each in enumerate(plan.conditions)]
    named += [(f"plan.columns[{place}]", column) for place, column in enumerate(plan.columns)]
    named += [
        (f"plan.{name}", getattr(plan, name))
        for name in ("function_column", "group_by", "order_by")
        if plan.HasField(name)
    ]
    for field, column in named:
        if column >= len(table.columns):
            yield FieldViolation(field, f"must be below {len(table.columns)}: the table has as many columns")
    if plan.group_conditions and not plan.HasField("group_by"):
        yield FieldViolation("plan.group_conditions", "must be empty without group_by")
    if plan.HasField("function_column") and plan.function_column < len(table.columns):
        of_column = table.columns[plan.function_column].type
        if plan.function in _OF_NUMBERS and of_column != _NUMBER:
            yield FieldViolation("plan.function_column", "must be a column of numbers")
        if plan.function in _OF_AN_ORDER and of_column not in {_NUMBER, _DATE}:
            yield FieldViolation("plan.function_column", "must be a column of numbers or dates")


def _takes_text(
    of_column: table_pb2.ColumnType.ValueType, operator: table_pb2.TableOperator.ValueType
) -> bool:
    return operator == _CONTAINS or (of_column == _TEXT and operator in {_EQUAL, _NOT_EQUAL})


def _text_match(condition: table_pb2.TableCondition) -> TextMatch:
    is_part = condition.operator == _CONTAINS
    return TextMatch(
        condition.column,
        list(condition.values),
        () if is_part else [key for value in condition.values if (key := folded_text(value))],
        is_part,
        condition.operator == _NOT_EQUAL,
    )


def _bounds(
    condition: table_pb2.TableCondition,
    column: table_pb2.TableColumn,
    field: str,
    violations: list[FieldViolation],
) -> Sequence[Bound]:
    """Return the bounds of each value, adding to `violations` those of the field that are none of the
    column's type."""
    bounds = []
    for at, value in enumerate(condition.values):
        span = _span(value, column)
        if span is None:
            unit = f' in, or without, "{column.unit}" or a unit that can be converted' if column.unit else ""
            kind = table_pb2.ColumnType.Name(column.type).removeprefix("COLUMN_TYPE_").lower()
            violations.append(FieldViolation(f"{field}[{at}]", f"must be a {kind}{unit}"))
            continue
        bounds.append(_bound(condition, *span))
    return bounds


def _group_bounds(
    plan: table_pb2.TablePlan, table: table_pb2.Table, violations: list[FieldViolation]
) -> Sequence[Bound]:
    """Return the bounds of what is computed of a group: a number in the unit of its column, a date, or a
    count. Adds to `violations`."""
    computed = table_pb2.TableColumn(type=_NUMBER)
    if plan.function != table_pb2.TABLE_FUNCTION_COUNT and plan.function_column < len(table.columns):
        computed = table.columns[plan.function_column]
    bounds: list[Bound] = []
    for place, each in enumerate(plan.group_conditions):
        condition = table_pb2.TableCondition(operator=each.operator, values=[each.value])
        bounds += _bounds(condition, computed, f"plan.group_conditions[{place}].value", violations)
    return bounds


def _bound(condition: table_pb2.TableCondition, first: Decimal, last: Decimal) -> Bound:
    """Return the bound that a value makes which is anything from `first` to `last`."""
    match condition.operator:
        case table_pb2.TABLE_OPERATOR_LESS:
            return Bound(condition.column, most=first, is_below=True)
        case table_pb2.TABLE_OPERATOR_AT_MOST:
            return Bound(condition.column, most=last)
        case table_pb2.TABLE_OPERATOR_GREATER:
            return Bound(condition.column, least=last, is_above=True)
        case table_pb2.TABLE_OPERATOR_AT_LEAST:
            return Bound(condition.column, least=first)
        case operator:
            return Bound(condition.column, first, last, is_negated=operator == _NOT_EQUAL)


def _span(value: str, column: table_pb2.TableColumn) -> tuple[Decimal, Decimal] | None:
    """Return the number that a value is in a column, as the first and the last: a day has many seconds."""
    if column.type == _DATE:
        moment = date_of(value)
        if moment is None:
            return None
        first = moment_number(moment)
        return first, first + (0 if ":" in value else _SECONDS_OF_A_DAY - 1)
    if column.type == _NUMBER:
        written = read_number(value)
        number = number_of(written, ".") if written else None
        if written is None or number is None:
            return None
        if written.unit:
            number = convert(number, written.unit, column.unit) if column.unit else None
        return None if number is None else (number, number)
    said = boolean_of(value)
    return None if said is None else (Decimal(said), Decimal(said))
