"""SQL of plans: what they select, count and compute, with every value as a parameter."""

# ruff: noqa: S608 - what is put into SQL here are numbers of columns and parameters

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from groundline.v1 import table_pb2

from groundline_retriever.tables.domain import Bound, CheckedPlan, TextMatch

__all__ = ["PlanStatement", "statement_of"]

NAMED_ROWS: Final = 50
"""Maximum rows that are named of those that a value was computed of, as the contract says."""

MAX_ROWS: Final = 1000
"""Maximum rows of an answer, as the contract says."""

_COMPUTED: Final = {
    table_pb2.TABLE_FUNCTION_SUM: "sum(numbers[{column}])",
    table_pb2.TABLE_FUNCTION_AVERAGE: "avg(numbers[{column}])",
    table_pb2.TABLE_FUNCTION_MINIMUM: "min(numbers[{column}])",
    table_pb2.TABLE_FUNCTION_MAXIMUM: "max(numbers[{column}])",
    table_pb2.TABLE_FUNCTION_DIFFERENCE: (
        "CASE WHEN count(numbers[{column}]) > 1 THEN max(numbers[{column}]) - min(numbers[{column}]) END"
    ),
}


class PlanStatement(NamedTuple):
    """A statement and its arguments; it returns texts, numbers, row_numbers, start_offsets, row_count,
    missing_count and, of all rows, `total`."""

    text: str
    arguments: Sequence[Any]


class _Arguments:
    def __init__(self, *values: Any) -> None:
        self.values = list(values)

    def add(self, value: Any) -> str:
        """Return the parameter of a value."""
        self.values.append(value)
        return f"${len(self.values):d}"


def statement_of(table_id: int, checked: CheckedPlan) -> PlanStatement:
    """Return the statement of a plan that was checked against the table."""
    arguments = _Arguments(table_id)
    conditions = [
        f"({' OR '.join(_condition(each, arguments) for each in alternatives)})"
        for alternatives in checked.conditions
    ]
    if not checked.with_totals:
        conditions.append("NOT is_total")
    where = " AND ".join(["table_id = $1", *conditions])
    limit = arguments.add(checked.limit)
    if checked.plan.function:
        groups = " AND ".join(_within(each, "value", arguments) for each in checked.group_bounds)
        inner = _computed(checked, where, groups or "true", limit)
    else:
        inner = _selected(checked, where, limit)
    # Ties may be many.
    return PlanStatement(f"SELECT * FROM ({inner}) found LIMIT {MAX_ROWS:d}", arguments.values)


def _selected(checked: CheckedPlan, where: str, limit: str) -> str:
    plan = checked.plan
    texts = ", ".join(f"texts[{column + 1:d}]" for column in checked.columns)
    numbers = ", ".join(f"numbers[{column + 1:d}]" for column in checked.columns)
    order, ties = "row_index", "ONLY"
    if plan.HasField("order_by"):
        held = "texts" if checked.orders_texts else "numbers"
        order = f"{held}[{plan.order_by + 1:d}] {'DESC' if plan.is_descending else 'ASC'} NULLS LAST"
        ties = "WITH TIES"
    return f"""
        SELECT ARRAY[{texts}] AS texts, ARRAY[{numbers}] AS numbers, ARRAY[row_number] AS row_numbers,
            ARRAY[start_offset] AS start_offsets, 1 AS row_count, 0 AS missing_count,
            count(*) OVER () AS total
        FROM document_table_rows WHERE {where}
        ORDER BY {order} FETCH FIRST ({limit}::integer) ROWS {ties}
    """


def _computed(checked: CheckedPlan, where: str, groups: str, limit: str) -> str:
    plan = checked.plan
    place = plan.function_column + 1
    counted = f"numbers[{place:d}] IS NOT NULL"
    order = "row_index"
    if plan.function == table_pb2.TABLE_FUNCTION_COUNT:
        counted, missing = "true", "0"
        value = "count(*)"
        if plan.HasField("function_column"):
            counted = f"texts[{place:d}] <> ''"
            value = f"count(DISTINCT texts[{place:d}]) FILTER (WHERE {counted})"
    else:
        value = _COMPUTED[plan.function].format(column=place)
        missing = f"count(*) FILTER (WHERE NOT {counted})"
        # The rows with the value itself come first.
        direction = {table_pb2.TABLE_FUNCTION_MINIMUM: "ASC", table_pb2.TABLE_FUNCTION_MAXIMUM: "DESC"}
        if plan.function in direction:
            order = f"numbers[{place:d}] {direction[plan.function]}, row_index"
    named = f"[1:{NAMED_ROWS:d}]"
    group = f"texts[{plan.group_by + 1:d}]" if plan.HasField("group_by") else "''"
    ranked = f"value {'DESC' if plan.is_descending else 'ASC'} NULLS LAST"
    by_value = plan.HasField("order_by")
    return f"""
        SELECT ARRAY[label] AS texts, ARRAY[value] AS numbers, row_numbers, start_offsets,
            row_count, missing_count, count(*) OVER () AS total
        FROM (
            SELECT {group} AS label, {value} AS value, count(*) AS row_count, {missing} AS missing_count,
                coalesce((array_agg(row_number ORDER BY {order}) FILTER (WHERE {counted})){named}, '{{}}')
                    AS row_numbers,
                coalesce((array_agg(start_offset ORDER BY {order}) FILTER (WHERE {counted})){named}, '{{}}')
                    AS start_offsets,
                min(row_index) AS first_index
            FROM document_table_rows WHERE {where}
            {f"GROUP BY {group}" if plan.HasField("group_by") else ""}
        ) computed
        WHERE {groups}
        ORDER BY {ranked if by_value else "first_index"}
        FETCH FIRST ({limit}::integer) ROWS {"WITH TIES" if by_value else "ONLY"}
    """


def _condition(condition: Bound | TextMatch, arguments: _Arguments) -> str:
    if isinstance(condition, Bound):
        return _within(condition, f"numbers[{condition.column + 1:d}]", arguments)
    text = f"texts[{condition.column + 1:d}]"
    if condition.is_part:
        # The pattern's own marks in a value are text.
        escaped = [
            each.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") for each in condition.texts
        ]
        patterns = [f"%{each}%" for each in escaped]
        return f"({text} <> '' AND {text} ILIKE ANY({arguments.add(patterns)}::text[]))"
    equal = (
        f"({text} = ANY({arguments.add(list(condition.texts))}::text[]) OR {text} IN (SELECT k.text "
        f"FROM document_table_keys k WHERE k.table_id = $1 AND k.column_index = {condition.column:d} "
        f"AND k.key = ANY({arguments.add(list(condition.keys))}::text[])))"
    )
    return f"({text} <> '' AND NOT {equal})" if condition.is_negated else equal


def _within(bound: Bound, number: str, arguments: _Arguments) -> str:
    parts = []
    if bound.least is not None:
        parts.append(f"{number} {'>' if bound.is_above else '>='} {arguments.add(bound.least)}::numeric")
    if bound.most is not None:
        parts.append(f"{number} {'<' if bound.is_below else '<='} {arguments.add(bound.most)}::numeric")
    within = " AND ".join(parts)
    return f"({number} IS NOT NULL AND NOT ({within}))" if bound.is_negated else f"({within})"
