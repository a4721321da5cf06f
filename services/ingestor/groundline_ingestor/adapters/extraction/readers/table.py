"""CSV and TSV as records: each row under the names of the first."""

import csv
from collections.abc import Sequence

from groundline_ingestor.adapters.extraction.encoding import decoded
from groundline_ingestor.adapters.extraction.formats import TSV
from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, ReadError
from groundline_ingestor.adapters.extraction.tables import best_delimiter

__all__ = ["read", "row_text"]


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """The rows, a blank line between them; a row that is longer than the first keeps its cells.

    Raises ReadError with INVALID_TABLE or INVALID_ENCODING.
    """
    text = decoded(data, charset=hints.charset)
    delimiter = "\t" if hints.mime_type == TSV else best_delimiter(text)
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    try:
        names = [name.strip() for name in next(filter(any, reader), [])]
        return Read("\n\n".join(filter(None, (row_text(names, row) for row in reader))) or " ".join(names))
    except csv.Error as error:
        raise ReadError("INVALID_TABLE", f"line {reader.line_num}: {str(error)[:200]}") from None


def row_text(names: Sequence[str], row: Sequence[str]) -> str:
    """The cells that are not empty, a line each, under their names."""
    cells = (cell.strip() for cell in row)
    return "\n".join(
        f"{names[column]}: {cell}" if column < len(names) and names[column] else cell
        for column, cell in enumerate(cells)
        if cell
    )
