"""JSON as records: each field on a line of its own, `name: value`, with the path of nested ones."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundline_ingestor.adapters.extraction.encoding import decoded
from groundline_ingestor.adapters.extraction.formats import JSON, JSON_LINES, PLAIN
from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, ReadError

__all__ = ["read", "record_text"]

MAX_DEPTH: Final = 100

_BETWEEN_RECORDS: Final = "\n\n"


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """The records of JSON or JSON Lines, a blank line between them; what only begins as such is plain text.

    Raises ReadError with INVALID_JSON, INVALID_TEXT or INVALID_ENCODING.
    """
    text = decoded(data, charset=hints.charset)
    other = JSON if hints.mime_type == JSON_LINES else JSON_LINES
    for mime_type in (hints.mime_type, other):
        try:
            values = _values(text, mime_type)
        except ValueError as error:
            if mime_type == hints.mime_type:
                first_error = str(error)[:200]
            continue
        return Read(_text(values), mime_type=mime_type)
    if hints.is_guess:
        return Read(text, mime_type=PLAIN)
    raise ReadError("INVALID_JSON", f"not JSON: {first_error}")


def record_text(record: Any) -> str:
    """A JSON value field by field; null and empty fields say nothing and are left out.

    Raises ReadError with INVALID_JSON, INVALID_TEXT.
    """
    return "\n".join(f"{path}: {value}" if path else value for path, value in _fields(record, "", 0))


def _values(text: str, mime_type: str) -> list[Any]:
    """The elements of a list, the lines of JSON Lines, or the one value there is. Raises ValueError."""
    try:
        if mime_type == JSON_LINES:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value if isinstance(value, list) else [value]


def _text(values: list[Any]) -> str:
    if not any(isinstance(value, Mapping | list) for value in values):
        return "\n".join(filter(None, map(record_text, values)))
    return _BETWEEN_RECORDS.join(filter(None, map(record_text, values)))


def _fields(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH:
        raise ReadError("INVALID_JSON", f"nested more than {MAX_DEPTH} deep")
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
