"""CSV and TSV as records: each row under the names of the first, or of the first below titles."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from typing import BinaryIO, Final

from groundline_extraction.encoding import decoded_file, lines_of
from groundline_extraction.formats import TSV
from groundline_extraction.readers.common import (
    Give,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    packed,
    whole,
)
from groundline_extraction.readers.data.delimiters import best_delimiter, stated_delimiter
from groundline_extraction.readers.grids import is_head_above
from groundline_extraction.tables import TableRow, TableRows

MAX_TITLES: Final = 5
"""Maximum rows above the names of the columns."""


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Return all of `read_pieces` at once."""
    return whole(read_pieces, data, hints, limits)


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give the rows, with a blank line between them; a row longer than the first keeps its cells. Raises
    ReadError with INVALID_TABLE, INVALID_ENCODING or DOCUMENT_TOO_LARGE."""
    parts = decoded_file(file, charset=hints.charset)
    first = next(parts, "")
    lines = lines_of(chain([first], parts))
    line = next(lines, "")
    delimiter = stated_delimiter(line)
    if delimiter is None:
        lines = chain([line], lines)
        delimiter = "\t" if hints.mime_type == TSV else best_delimiter(first)
    records = _Records()
    for piece in packed(records.texts(lines, delimiter), limits):
        rows = records.taken()
        table = TableRows(0, "", tuple(records.names), rows, left=0)
        give(replace(piece, tables=[table] if rows else []))


class _Records:
    """Rows of a file as text and as a table; the first one with a cell names the columns, unless titles stand
    above the names."""

    def __init__(self) -> None:
        self.names: Sequence[str] = ()
        self._rows: list[TableRow] = []
        self._position = 0

    def taken(self) -> Sequence[TableRow]:
        """Return the rows of the texts that were given since the last call."""
        rows, self._rows, self._position = self._rows, [], 0
        return rows

    def texts(self, lines: Iterator[str], delimiter: str) -> Iterator[str]:
        """Yield the rows as text, with a blank line between them. Raises ReadError with INVALID_TABLE."""
        reader = csv.reader(lines, delimiter=delimiter)
        try:
            numbered = ((number, row) for number, row in enumerate(reader, 1) if any(row))
            first = list(islice(numbered, MAX_TITLES + 2))
            titles = _titles([row for _, row in first])
            self.names = [name.strip() for name in first[titles][1]] if first else []
            between = ""
            for index, (number, row) in enumerate(chain(first[:titles], first[titles + 1 :], numbered)):
                is_title = index < titles
                if text := " ".join(filter(None, row)) if is_title else row_text(self.names, row):
                    start = self._position + len(between)
                    if not is_title:
                        self._rows.append(TableRow(number, start, tuple(cell.strip() for cell in row)))
                    self._position = start + len(text)
                    yield between + text
                    between = "\n\n"
            if not between:
                yield " ".join(self.names)
        except csv.Error as error:
            raise ReadError("INVALID_TABLE", f"line {reader.line_num}: {str(error)[:200]}") from None


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows stand above the names of the columns: rows of another width or with numbers, where
    a row of different names has one with numbers below it."""
    for count, (row, below) in enumerate(pairwise(rows)):
        if len(set(row)) == len(row) == len(below) > 1 and is_head_above(row, below):
            is_known = any(len(above) == len(row) and is_head_above(above, below) for above in rows[:count])
            return 0 if is_known else count
    return 0


def row_text(names: Sequence[str], row: Sequence[str]) -> str:
    """Return the cells that are not empty, a line each, under their names."""
    cells = (cell.strip() for cell in row)
    return "\n".join(
        f"{names[column]}: {cell}" if column < len(names) and names[column] else cell
        for column, cell in enumerate(cells)
        if cell
    )
