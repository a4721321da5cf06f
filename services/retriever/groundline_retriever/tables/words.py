"""Plans and rows in words."""

from collections.abc import Mapping, Sequence
from typing import Final

from groundline.v1 import table_pb2
from groundline_tables.language import language_of

__all__ = ["explained", "in_words"]

MAX_NAMED_VALUES: Final = 5
MAX_NAMED_COLUMNS: Final = 10
MAX_CELL_CHARACTERS: Final = 300

_OPERATORS: Final[Mapping[int, str]] = {
    table_pb2.TABLE_OPERATOR_EQUAL: "is",
    table_pb2.TABLE_OPERATOR_NOT_EQUAL: "is not",
    table_pb2.TABLE_OPERATOR_LESS: "is less than",
    table_pb2.TABLE_OPERATOR_AT_MOST: "is at most",
    table_pb2.TABLE_OPERATOR_GREATER: "is more than",
    table_pb2.TABLE_OPERATOR_AT_LEAST: "is at least",
    table_pb2.TABLE_OPERATOR_CONTAINS: "contains",
}
_FUNCTIONS: Final[Mapping[int, str]] = {
    table_pb2.TABLE_FUNCTION_SUM: "sum of",
    table_pb2.TABLE_FUNCTION_AVERAGE: "average of",
    table_pb2.TABLE_FUNCTION_MINIMUM: "minimum of",
    table_pb2.TABLE_FUNCTION_MAXIMUM: "maximum of",
}


def explained(plan: table_pb2.TablePlan, table: table_pb2.Table) -> str:
    """Return a plan that fits the table, such as "sum of Amount where Year is 2024, by Region"."""

    def name(column: int) -> str:
        return table.columns[column].name or f"column {column + 1}"

    def condition(one: table_pb2.TableCondition) -> str:
        values = " or ".join(one.values[:MAX_NAMED_VALUES])
        more = " or others" if len(one.values) > MAX_NAMED_VALUES else ""
        return f"{name(one.column)} {_OPERATORS[one.operator]} {values}{more}"

    if plan.function == table_pb2.TABLE_FUNCTION_COUNT:
        of_column = f"different values of {name(plan.function_column)}"
        said = f"number of {of_column if plan.HasField('function_column') else 'rows'}"
    elif plan.function:
        said = f"{_FUNCTIONS[plan.function]} {name(plan.function_column)}"
    else:
        said = ", ".join(map(name, plan.columns[:MAX_NAMED_COLUMNS])) or "all columns"
    if plan.conditions:
        said += f" where {' and '.join(map(condition, plan.conditions))}"
    if plan.HasField("group_by"):
        said += f", by {name(plan.group_by)}"
    if plan.HasField("order_by"):
        of_groups = plan.HasField("group_by")
        end = "highest" if plan.is_descending else "lowest"
        said += f", the {end} first" if of_groups else f", the {end} {name(plan.order_by)} first"
    return said


def in_words(
    row: table_pb2.TableAnswerRow, columns: Sequence[table_pb2.TableAnswerColumn], language: str
) -> str:
    """Return a row of an answer in words of a language: its first cell, and the others with their columns'
    names; or what was computed, for which group, and how many rows it leaves out."""
    says = language_of(language).says
    cells = [" ".join(cell.text.split())[:MAX_CELL_CHARACTERS] or "–" for cell in row.cells]
    *_, last = columns
    if not last.function:
        head, *others = cells
        named = [f"{column.name} {cell}".strip() for column, cell in zip(columns[1:], others, strict=True)]
        return f"{head}: {'; '.join(named)}" if named else head
    *groups, value = cells
    unit = f" {last.unit}" if last.unit and row.cells[-1].HasField("number") else ""
    function = table_pb2.TableFunction.Name(last.function).removeprefix("TABLE_FUNCTION_").lower()
    computed = f"{says[function].format(column=last.name or says['rows'])} {value}{unit}"
    missing = f"; {says['missing'].format(count=row.missing_count)}" if row.missing_count else ""
    return ": ".join([*groups, computed]) + missing
