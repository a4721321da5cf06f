"""Tables as readers find them: their columns, and where each row stands in the text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

PAGE_BREAK: Final = "\f"
"""Separator of pages in an extracted text, as in plain text files."""

TABLE: Final = re.compile(r"^(\|[^\n]*\n)\|(?:[ :]*-+[ :]*\|)+[ \t]*\n(?:\|[^\n]*(?:\n|\Z))*", re.MULTILINE)
"""A Markdown table: its first row, the line under it, and the rows."""

_ROW: Final = re.compile(r"^\|[^\n]*", re.MULTILINE)
# A number, with its unit or without.
_NUMBER: Final = re.compile(r"[-+\u2212]?\d[\d.,\u2019' ]*(?:\s?[^\W\d]{1,4}|\s?[%€$£])?$")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_MOST_BETWEEN: Final = 100
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


def markdown_tables(text: str) -> Iterator[tuple[int, TableRows]]:
    """Yield the tables of a Markdown text, without their indexes and names, and where each begins. The row of
    the columns' names is row 1; rows begin where they do in the text."""
    for found in TABLE.finditer(text):
        head, _, *body = _ROW.finditer(text, found.start(), found.end())
        columns = tuple(_cells(head[0]))
        rows = [
            TableRow(number, row.start(), tuple(_cells(row[0])))
            for number, row in enumerate(body, 2)
            if any(_cells(row[0]))
        ]
        yield found.start(), TableRows(0, "", columns, rows)


class PagedTables:
    """The last table of a text that is read in parts, by which one that goes on over a page is known."""

    def __init__(self) -> None:
        self._table: TableRows | None = None
        self._since = ""

    def pass_text(self, text: str) -> None:
        """Take text that follows, without a table."""
        if self._table is not None and not (self._since + text).strip("\n\f "):
            self._since = (self._since + text)[:_MOST_BETWEEN]
        else:
            self._table = None

    def continued(self, start: int, table: TableRows) -> TableRows | None:
        """Return the table's rows as more of the table before, whose index it has; None if it is another one.
        They follow each other over one page break, with the same names above, or with a row of its kind."""
        before, self._table = self._table, None
        if before is None or self._since.count(PAGE_BREAK) != 1:
            return None
        rows = list(table.rows)
        if table.columns != before.columns:
            if not _is_row_like(table.columns, before.rows[-1].cells):
                return None
            rows.insert(0, TableRow(0, start, table.columns))
        number = before.rows[-1].number
        return replace(before, rows=[row._replace(number=at) for at, row in enumerate(rows, number + 1)])

    def end(self, table: TableRows) -> None:
        """Remember the rows that were read last, of which there is at least one."""
        self._table, self._since = table, ""


def _is_row_like(row: Sequence[str], other: Sequence[str]) -> bool:
    """Tell whether a row has numbers where another row of a table has them, and one that is not a year: names
    of columns may be years."""
    pairs = [pair for pair in zip(row, other, strict=False) if all(pair)]
    kinds = [(_NUMBER.match(cell) is not None, _NUMBER.match(above) is not None) for cell, above in pairs]
    return (
        len(row) == len(other)
        and all(one == two for one, two in kinds)
        and any(
            is_number and not _YEAR.fullmatch(cell)
            for (is_number, _), (cell, _) in zip(kinds, pairs, strict=True)
        )
    )


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
