"""Tables ready to be stored: their columns, and rows with their numbers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from groundline.v1 import table_pb2
from groundline_extraction.tables import TableRow, TableRows
from groundline_tables.columns import MAX_COLUMNS, Column, ColumnEvidence, columns_of
from groundline_tables.values import DecimalMark, folded_text, is_blank, is_total

MAX_ROWS: Final = 1_000_000
"""Maximum rows of a table, as the contract says."""

MAX_KEY_CHARACTERS: Final = 60
"""Maximum characters of a cell that a question is looked up by."""

_INTEGER_DIGITS: Final = 12

_LAST_ROWS: Final = 3
"""Rows at the end of a table that may be totals with a longer name."""

_SUMMED_ROWS: Final = 3


@dataclass(slots=True)
class FoundTable:
    """A table of a document; see TableRows."""

    index: int
    name: str
    sheet: str
    left: int
    page: int
    columns: list[Column] = field(default_factory=list)
    row_count: int = 0
    is_cut: bool = False


class StoredRow(NamedTuple):
    """A row of the table of an index: its cells as they are shown, their numbers, and `keys`: the cells that
    a question may name it by, as texts are compared, each with its column and itself."""

    table_index: int
    number: int
    start: int
    texts: list[str]
    numbers: list[Decimal | None]
    is_total: bool
    keys: list[tuple[str, int, str]]


def found_tables(parts: Iterable[TableRows], of_language: DecimalMark) -> dict[int, FoundTable]:
    """Return the tables of a document by their index, of all of its rows; one with more columns than a table
    may have, or without a name for any, is none. `of_language`: the mark before decimals of its language."""
    tables: dict[int, FoundTable] = {}
    evidence: dict[int, list[ColumnEvidence]] = {}
    heads: dict[int, TableRows] = {}
    for part in parts:
        if not any(part.columns) or len(part.columns) > MAX_COLUMNS:
            continue
        if part.index not in tables:
            tables[part.index] = FoundTable(part.index, part.name, part.sheet, part.left, part.page)
            evidence[part.index] = [ColumnEvidence() for _ in part.columns]
            heads[part.index] = part
        table = tables[part.index]
        for row in part.rows:
            if table.row_count == MAX_ROWS:
                table.is_cut = True
                break
            table.row_count += 1
            for cell, each in zip(row.cells, evidence[part.index], strict=False):
                each.add(cell)
    for index, table in tables.items():
        head = heads[index]
        mark: DecimalMark = "." if head.has_points else ""
        table.columns = columns_of(head.columns, evidence[index], mark, of_language)
    return tables


def stored_rows(parts: Iterable[TableRows], tables: Mapping[int, FoundTable]) -> Iterator[StoredRow]:
    """Yield the rows of tables that `found_tables` returned, from the same parts."""
    seen: dict[int, _Sums] = {}
    for part in parts:
        if (table := tables.get(part.index)) is None:
            continue
        width = len(table.columns)
        sums = seen.setdefault(part.index, _Sums(table))
        for row in part.rows:
            if sums.row_count == table.row_count:
                break
            texts = [*row.cells[:width], *[""] * (width - len(row.cells))]
            numbers = [_number(column, at, row) for at, column in enumerate(table.columns)]
            yield StoredRow(
                part.index,
                row.number,
                row.start,
                texts,
                numbers,
                sums.is_total(texts, numbers),
                list(_keys(table.columns, texts, numbers)),
            )


class _Sums:
    """Sums of a table's columns, row by row, by which its totals are known."""

    def __init__(self, table: FoundTable) -> None:
        self._table = table
        self._sums = [Decimal(0)] * len(table.columns)
        self._counts = [0] * len(table.columns)
        self.row_count = 0

    def is_total(self, texts: list[str], numbers: list[Decimal | None]) -> bool:
        """Take the next row; tell whether it is a total of those above: by its name, or, at the end of the
        table, by a name that begins so ("Total albums") or by two columns that add up."""
        self.row_count += 1
        first = next((text for text in texts if not is_blank(text)), "")
        is_last = self.row_count > self._table.row_count - _LAST_ROWS
        found = (
            is_total(first)
            or (is_last and is_total(folded_text(first).partition(" ")[0]))
            or (self.row_count == self._table.row_count and self._adds_up(numbers))
        )
        if not found:
            for at, number in enumerate(numbers):
                if number is not None:
                    self._sums[at] += number
                    self._counts[at] += 1
        return found

    def _adds_up(self, numbers: list[Decimal | None]) -> bool:
        compared = [
            number == self._sums[at]
            for at, number in enumerate(numbers)
            if number
            and self._counts[at] >= _SUMMED_ROWS
            and self._table.columns[at].type == table_pb2.COLUMN_TYPE_NUMBER
        ]
        return len(compared) > 1 and all(compared)


def _number(column: Column, at: int, row: TableRow) -> Decimal | None:
    exact = row.numbers.get(at)
    if at >= len(row.cells) or exact == "":
        return None
    return column.number(row.cells[at], exact or "")


def _keys(
    columns: list[Column], texts: list[str], numbers: list[Decimal | None]
) -> Iterator[tuple[str, int, str]]:
    """Yield the cells that are names or whole numbers, such as years."""
    for at, (column, text, number) in enumerate(zip(columns, texts, numbers, strict=True)):
        if column.type == table_pb2.COLUMN_TYPE_NUMBER:
            is_code = text.isdecimal() and len(text) <= _INTEGER_DIGITS and number is not None
        else:
            is_code = len(text) <= MAX_KEY_CHARACTERS and not is_blank(text)
        if is_code and (key := folded_text(text)):
            yield key, at, text
