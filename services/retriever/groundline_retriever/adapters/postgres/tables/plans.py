"""SQL of plans: what they select, count and compute, with every value as a parameter."""

# ruff: noqa: S608 - what is put into SQL here are numbers of columns and parameters

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from groundline.v1 import table_pb2

from groundline_retriever.tables.domain import Bound, CheckedPlan, StoredTable, TextMatch

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


def statement_of(table: StoredTable, checked: CheckedPlan) -> PlanStatement:
    """Return the statement of a plan that was checked against the table."""
    arguments = _Arguments(table.table_id)
    rows = _rows(table, checked.plan.join, arguments)
    conditions = [
        f"({' OR '.join(_condition(each, table, arguments) for each in alternatives)})"
        for alternatives in checked.conditions
    ]
    if not checked.with_totals:
        conditions.append("NOT is_total")
    found = f"{rows} WHERE {' AND '.join(['table_id = $1', *conditions])}"
    limit = arguments.add(checked.limit)
    if checked.plan.function:
        groups = " AND ".join(_within(each, "value", arguments) for each in checked.group_bounds)
        is_joined = checked.plan.function_column >= table.width
        inner = _computed(checked, found, groups or "true", limit, "joined_" if is_joined else "")
    else:
        inner = _selected(checked, found, limit, is_joined=table.joined is not None)
    # Ties may be many.
    return PlanStatement(f"SELECT * FROM ({inner}) found LIMIT {MAX_ROWS:d}", arguments.values)


def repeated_key(table_id: int, column: int) -> PlanStatement:
    """Return the statement that tells whether several rows have the same cell in a column."""
    cell = f"lower(texts[{column + 1:d}])"
    return PlanStatement(
        f"SELECT EXISTS (SELECT 1 FROM document_table_rows WHERE table_id = $1 AND NOT is_total "
        f"AND {cell} <> '' GROUP BY {cell} HAVING count(*) > 1)",
        [table_id],
    )


def _rows(table: StoredTable, join: table_pb2.TableJoin, arguments: _Arguments) -> str:
    """Return the rows that a plan is run on: of the table, or with the cells of a joined one behind its
    own."""
    if table.joined is None:
        return "document_table_rows"
    width = len(table.joined.table.columns)
    own, other = f"o.texts[{join.column + 1:d}]", f"j.texts[{join.joined_column + 1:d}]"
    return f"""(
        SELECT o.table_id, o.row_index, o.row_number, o.start_offset, o.is_total,
            j.row_number AS joined_row_number, j.start_offset AS joined_start_offset,
            o.texts || coalesce(j.texts, array_fill(''::text, ARRAY[{width:d}])) AS texts,
            o.numbers || coalesce(j.numbers, array_fill(NULL::numeric, ARRAY[{width:d}])) AS numbers
        FROM document_table_rows o
        LEFT JOIN document_table_rows j ON j.table_id = {arguments.add(table.joined.table_id)}
            AND NOT j.is_total AND {own} <> '' AND lower({other}) = lower({own})
        WHERE o.table_id = $1
    ) joined"""


def _selected(checked: CheckedPlan, found: str, limit: str, *, is_joined: bool) -> str:
    plan = checked.plan
    texts = ", ".join(f"texts[{column + 1:d}]" for column in checked.columns)
    numbers = ", ".join(f"numbers[{column + 1:d}]" for column in checked.columns)
    order, ties = "row_index", "ONLY"
    if plan.HasField("order_by"):
        held = "texts" if checked.orders_texts else "numbers"
        order = f"{held}[{plan.order_by + 1:d}] {'DESC' if plan.is_descending else 'ASC'} NULLS LAST"
        ties = "WITH TIES"
    return f"""
        SELECT ARRAY[{texts}] AS texts, ARRAY[{numbers}] AS numbers,
            ARRAY[row_number{", joined_row_number" if is_joined else ""}] AS row_numbers,
            ARRAY[start_offset{", joined_start_offset" if is_joined else ""}] AS start_offsets,
            1 AS row_count, 0 AS missing_count, count(*) OVER () AS total
        FROM {found}
        ORDER BY {order} FETCH FIRST ({limit}::integer) ROWS {ties}
    """


def _computed(checked: CheckedPlan, found: str, groups: str, limit: str, place_of: str) -> str:
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
                coalesce((array_agg({place_of}row_number ORDER BY {order})
                    FILTER (WHERE {counted})){named}, '{{}}') AS row_numbers,
                coalesce((array_agg({place_of}start_offset ORDER BY {order})
                    FILTER (WHERE {counted})){named}, '{{}}') AS start_offsets,
                min(row_index) AS first_index
            FROM {found}
            {f"GROUP BY {group}" if plan.HasField("group_by") else ""}
        ) computed
        WHERE {groups}
        ORDER BY {ranked if by_value else "first_index"}
        FETCH FIRST ({limit}::integer) ROWS {"WITH TIES" if by_value else "ONLY"}
    """


def _condition(condition: Bound | TextMatch, table: StoredTable, arguments: _Arguments) -> str:
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
    of_table, column = "$1", condition.column
    if table.joined and column >= table.width:
        of_table, column = arguments.add(table.joined.table_id), column - table.width
    equal = (
        f"({text} = ANY({arguments.add(list(condition.texts))}::text[]) OR {text} IN (SELECT k.text "
        f"FROM document_table_keys k WHERE k.table_id = {of_table} AND k.column_index = {column:d} "
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
