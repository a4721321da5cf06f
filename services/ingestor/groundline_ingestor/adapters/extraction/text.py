"""Records as text: each field on a line of its own, `name: value`, with the path of nested ones."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundline_ingestor.adapters.extraction.types import failure, json_values, table_dialect

__all__ = ["json_text", "record_text", "table_text"]

MAX_DEPTH: Final = 100

_BETWEEN_RECORDS: Final = "\n\n"


def record_text(record: Any) -> str:
    """A JSON value field by field; null and empty fields say nothing and are left out."""
    return "\n".join(f"{path}: {value}" if path else value for path, value in _fields(record, "", 0))


def json_text(text: str, mime_type: str) -> str:
    """The records of a JSON text, a blank line between them. Raises IngestionError with INVALID_JSON."""
    try:
        values = json_values(text, mime_type)
    except ValueError as error:
        raise failure("INVALID_JSON", f"not JSON: {str(error)[:200]}") from None
    if not any(isinstance(value, Mapping | list) for value in values):
        return "\n".join(filter(None, map(record_text, values)))
    return _BETWEEN_RECORDS.join(filter(None, map(record_text, values)))


def table_text(text: str, mime_type: str) -> str:
    """The rows of a table under the names of its first row, a blank line between them.

    Raises IngestionError with INVALID_TABLE.
    """
    reader = csv.reader(text.splitlines(keepends=True), delimiter=table_dialect(text, mime_type) or ",")
    try:
        names = [name.strip() for name in next(reader, [])]
        return _BETWEEN_RECORDS.join(filter(None, (_row_text(names, row) for row in reader)))
    except csv.Error as error:
        raise failure("INVALID_TABLE", f"line {reader.line_num}: {str(error)[:200]}") from None


def _row_text(names: Sequence[str], row: Sequence[str]) -> str:
    cells = (cell.strip() for cell in row)
    return "\n".join(
        f"{names[column]}: {cell}" if column < len(names) and names[column] else cell
        for column, cell in enumerate(cells)
        if cell
    )


def _fields(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH:
        raise failure("INVALID_JSON", f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _fields(below, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list):
        if any(isinstance(one, Mapping | list) for one in value):
            for position, one in enumerate(value):
                yield from _fields(one, f"{path}[{position}]", depth + 1)
        elif joined := ", ".join(filter(None, map(_scalar, value))):
            yield path, joined
    elif text := _scalar(value):
        yield path, text


def _scalar(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():  # numbers of a protobuf Struct are all floats
            return str(int(value))
        case _:
            return str(value).strip()
