"""CSV and TSV as records: each row under the names of the first."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

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

__all__ = ["read", "read_pieces", "row_text"]


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
    for piece in packed(_texts(lines, delimiter), limits):
        give(piece)


def _texts(lines: Iterator[str], delimiter: str) -> Iterator[str]:
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        names = [name.strip() for name in next(filter(any, reader), [])]
        between = ""
        for text in filter(None, (row_text(names, row) for row in reader)):
            yield between + text
            between = "\n\n"
        if not between:
            yield " ".join(names)
    except csv.Error as error:
        raise ReadError("INVALID_TABLE", f"line {reader.line_num}: {str(error)[:200]}") from None


def row_text(names: Sequence[str], row: Sequence[str]) -> str:
    """Return the cells that are not empty, a line each, under their names."""
    cells = (cell.strip() for cell in row)
    return "\n".join(
        f"{names[column]}: {cell}" if column < len(names) and names[column] else cell
        for column, cell in enumerate(cells)
        if cell
    )
