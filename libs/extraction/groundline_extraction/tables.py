"""Tables as readers find them: their columns, and where each row stands in the text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

__all__ = ["TABLE", "TableRow", "TableRows", "markdown_tables", "read_rows", "rows_between"]

TABLE: Final = re.compile(r"^(\|[^\n]*\n)\|(?:[ :]*-+[ :]*\|)+[ \t]*\n(?:\|[^\n]*(?:\n|\Z))*", re.MULTILINE)
"""A Markdown table: its first row, the line under it, and the rows."""

_ROW: Final = re.compile(r"^\|[^\n]*", re.MULTILINE)
_BETWEEN_CELLS: Final = re.compile(r"(?<!\\)\|")
_LINK: Final = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
# Marks around a whole cell.
_MARKS: Final = re.compile(r"^(\*{1,3}|_{1,3}|`+|~~)(.+)\1$")


class TableRow(NamedTuple):
    """A row: its number in its sheet or table, from 1, where it begins in the text, and its cells as they are
    shown. `numbers`: by column, the exact number of a cell that shows a rounded one; "" for a cell that only
    repeats a merged one."""

    number: int
    start: int
    cells: tuple[str, ...]
    numbers: Mapping[int, str] = {}


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table in their order; a long table comes in several, with one `index`.

    `name`: what stands above it; `sheet`: the sheet that it is on; `left`: its first column there, from 0, -1
    where cells have no references; `page` from 1, 0 without pages; `has_points`: points stand before
    decimals, whatever the language.
    """

    index: int
    name: str
    columns: tuple[str, ...]
    rows: Sequence[TableRow]
    sheet: str = ""
    left: int = -1
    page: int = 0
    has_points: bool = False


def read_rows(values: Mapping[str, Any]) -> TableRows:
    """Return a table from its JSON."""
    rows = [
        TableRow(number, start, tuple(cells), {int(column): exact for column, exact in numbers.items()})
        for number, start, cells, numbers in values["rows"]
    ]
    return TableRows(**{**values, "columns": tuple(values["columns"]), "rows": rows})


def rows_between(tables: Sequence[TableRows], start: int, end: int) -> tuple[TableRows, ...]:
    """Return those rows of tables that begin within a part of the text, counted from its start."""
    found = []
    for table in tables:
        rows = [row._replace(start=row.start - start) for row in table.rows if start <= row.start < end]
        if rows:
            found.append(replace(table, rows=rows))
    return tuple(found)


def markdown_tables(text: str) -> Iterator[TableRows]:
    """Yield the tables of a Markdown text without their indexes and names. The row of the columns' names is
    row 1; rows begin where they do in the text."""
    for found in TABLE.finditer(text):
        head, _, *body = _ROW.finditer(text, found.start(), found.end())
        columns = tuple(_cells(head[0]))
        rows = [
            TableRow(number, row.start(), tuple(_cells(row[0])))
            for number, row in enumerate(body, 2)
            if any(_cells(row[0]))
        ]
        if rows:
            yield TableRows(0, "", columns, rows)


def _cells(row: str) -> list[str]:
    cells = _BETWEEN_CELLS.split(row.strip().removeprefix("|"))
    if not cells[-1].strip():
        cells.pop()
    return [_plain(cell) for cell in cells]


def _plain(cell: str) -> str:
    cell = _LINK.sub(r"\1", cell.replace("\\|", "|")).strip()
    while found := _MARKS.match(cell):
        cell = found[2].strip()
    return cell
