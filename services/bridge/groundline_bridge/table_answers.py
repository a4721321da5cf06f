"""Answers of tables, as tools show them."""

from collections.abc import Sequence
from typing import Any, Final

from groundline.v1 import retriever_service_pb2, table_pb2

from groundline_bridge.contract import Shown, choices
from groundline_bridge.domain.fences import Fences, on_one_line

_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_COUNT: Final = {"type": "integer"}

TABLE: Final = Shown(
    table_pb2.Table,
    *("document_id", "table_index", "title", "uri", "name", "sheet", "page", "row_count"),
    collection="collection_id",
)
TABLE_COLUMN: Final = Shown(table_pb2.TableColumn, "index", "name", "unit")
TABLE_PROPERTIES: Final[dict[str, Any]] = {
    **TABLE.properties,
    "columns": {"type": "array", "items": {"type": "object", "properties": TABLE_COLUMN.properties}},
}
ROW_PROPERTIES: Final[dict[str, Any]] = {
    "cells": _TEXTS,
    "references": {**_TEXTS, "description": "Cells that it comes from."},
    "row_count": {**_COUNT, "description": "Rows that it was computed of."},
    "missing_count": {**_COUNT, "description": "Rows among them without a number."},
}


def answer_content(found: retriever_service_pb2.QueryTablesResponse) -> dict[str, Any]:
    """Return an answer as JSON; without a plan `table` is null and `tables` are those that could be asked."""
    return {
        "explanation": found.explanation,
        "table": _table(found.table) if found.HasField("plan") else None,
        "columns": [_heading(column) for column in found.columns],
        "rows": [
            {
                "cells": [cell.text for cell in row.cells],
                "references": [each.reference or f"row {each.row}" for each in row.sources],
                "row_count": row.row_count,
                "missing_count": row.missing_count,
            }
            for row in found.rows
        ],
        "has_more": found.has_more,
        "unknown_words": list(found.unknown_words),
        "tables": [_table(table) for table in found.tables],
    }


def answer_text(found: retriever_service_pb2.QueryTablesResponse) -> str:
    """Return an answer for a model to read, or the tables that it may plan for."""
    fences = Fences()
    if not found.HasField("plan"):
        listed = [_described(table, fences) for table in found.tables]
        unknown = ", ".join(map(on_one_line, found.unknown_words))
        said = f" These words mean nothing in the tables: {unknown}." if unknown else ""
        return "\n\n".join([f"No plan could be made of the question.{said}", *listed])
    heads = " | ".join(map(on_one_line, map(_heading, found.columns)))
    rows = [
        f"{' | '.join(on_one_line(cell.text) for cell in row.cells)}  [{_places(row.sources)}]"
        for row in found.rows
    ]
    missing = sum(row.missing_count for row in found.rows)
    notes = [f"Rows without a number that were left out: {missing}."] if missing else []
    notes += ["There are more rows."] if found.has_more else []
    table = fences.around(
        "table",
        "\n".join([heads, *rows]),
        title=found.table.title,
        uri=found.table.uri,
        name=found.table.name,
    )
    return "\n".join([f"Computed: {on_one_line(found.explanation)}.", table, *notes])


def _described(table: table_pb2.Table, fences: Fences) -> str:
    kinds = choices(table_pb2.ColumnType.DESCRIPTOR)
    columns = [
        f"{column.index}: {on_one_line(column.name)} ({kinds[column.type - 1]}{_unit(column.unit)})"
        for column in table.columns
    ]
    named = TABLE.of(table)
    return fences.around(
        "table", "\n".join(columns), **{name: named[name] for name in ("document_id", "table_index", "title")}
    )


def _table(table: table_pb2.Table) -> dict[str, Any]:
    return TABLE.of(table) | {"columns": [TABLE_COLUMN.of(column) for column in table.columns]}


def _heading(column: table_pb2.TableAnswerColumn) -> str:
    functions = choices(table_pb2.TableFunction.DESCRIPTOR)
    of_function = f"{functions[column.function - 1]} of " if column.function else ""
    return f"{of_function}{column.name or 'rows'}{_unit(column.unit)}"


def _unit(unit: str) -> str:
    return f", {unit}" if unit else ""


def _places(sources: Sequence[table_pb2.CellReference]) -> str:
    return ", ".join(each.reference or f"row {each.row}" for each in sources)
