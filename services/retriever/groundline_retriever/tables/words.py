"""Plans and rows in words."""

from collections.abc import Mapping, Sequence
from typing import Final

from groundline.v1 import table_pb2
from groundline_tables.language import language_of

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


def explained(plan: table_pb2.TablePlan, table: table_pb2.Table, joined: str = "") -> str:
    """Return a plan that fits the table, such as "sum of Amount where Year is 2024, by Region"; `joined`
    names the other table, if there is one."""

    def name(column: int) -> str:
        return table.columns[column].name or f"column {column + 1}"

    def condition(one: table_pb2.TableCondition) -> str:
        values = " or ".join(one.values[:MAX_NAMED_VALUES])
        more = " or others" if len(one.values) > MAX_NAMED_VALUES else ""
        return f"{name(one.column)} {_OPERATORS[one.operator]} {values}{more}"

    if plan.function:
        column = name(plan.function_column) if plan.HasField("function_column") else ""
        is_of_values = plan.function == table_pb2.TABLE_FUNCTION_COUNT and column
        said = _computed(
            plan.function, f"different values of {column}" if is_of_values else column, "english"
        )
    else:
        said = ", ".join(map(name, plan.columns[:MAX_NAMED_COLUMNS])) or "all columns"
    if plan.conditions:
        said += f" where {' and '.join(map(condition, plan.conditions))}"
    if plan.HasField("group_by"):
        said += f", by {name(plan.group_by)}"
    if plan.group_conditions:
        groups = (f"{_OPERATORS[each.operator]} {each.value}" for each in plan.group_conditions)
        said += f", where that {' and '.join(groups)}"
    if plan.HasField("order_by"):
        of_groups = plan.HasField("group_by")
        end = "highest" if plan.is_descending else "lowest"
        said += f", the {end} first" if of_groups else f", the {end} {name(plan.order_by)} first"
    return f"{said}, joined with {joined} by {name(plan.join.column)}" if joined else said


def in_words(
    row: table_pb2.TableAnswerRow, columns: Sequence[table_pb2.TableAnswerColumn], language: str
) -> str:
    """Return a row of an answer in words of a language: its first cell, and the others with their columns'
    names; or what was computed, for which group, and how many rows it leaves out."""
    cells = [" ".join(cell.text.split())[:MAX_CELL_CHARACTERS] or "–" for cell in row.cells]
    *_, last = columns
    if not last.function:
        head, *others = cells
        named = [f"{column.name} {cell}".strip() for column, cell in zip(columns[1:], others, strict=True)]
        return f"{head}: {'; '.join(named)}" if named else head
    *groups, value = cells
    unit = f" {last.unit}" if last.unit and row.cells[-1].HasField("number") else ""
    said = ": ".join([*groups, _computed(last.function, last.name, language), f"{value}{unit}"])
    missing = language_of(language).says["missing"].format(count=row.missing_count)
    return f"{said}; {missing}" if row.missing_count else said


def _computed(function: table_pb2.TableFunction.ValueType, column: str, language: str) -> str:
    """Return a function of a column in words of a language; of the rows if the column is ""."""
    says = language_of(language).says
    name = table_pb2.TableFunction.Name(function).removeprefix("TABLE_FUNCTION_").lower()
    return says[name].format(column=column or says["rows"])
