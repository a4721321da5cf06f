"""JSON as records: each field on a line of its own, `name: value`, with the path of nested ones."""

import io
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, BinaryIO, Final

import ijson

from groundline_extraction.encoding import Utf8File, decoded_file, lines_of
from groundline_extraction.formats import JSON, JSON_LINES, PLAIN
from groundline_extraction.readers.common import (
    PIECE_CHARACTERS,
    Give,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    packed,
    whole,
)

MAX_DEPTH: Final = 100
MAX_WHOLE_BYTES: Final = 16 * 1024**2
"""Maximum size parsed by json, which names the line of a fault, and accepts NaN; larger files are parsed
piece by piece, by ijson."""

type Event = tuple[str, Any]
"""As ijson has it: start_map, map_key, end_map, start_array, end_array, or any other name and a scalar."""


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Return all of `read_pieces` at once."""
    return whole(read_pieces, data, hints, limits)


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give the records of JSON or JSON Lines, with a blank line between them; a file that only begins like
    them is plain text.

    The file is read twice, so that nothing is given of invalid JSON. Raises ReadError with INVALID_JSON,
    INVALID_ENCODING or DOCUMENT_TOO_LARGE.
    """
    other = JSON if hints.mime_type == JSON_LINES else JSON_LINES
    texts: Iterable[str]
    for mime_type in (hints.mime_type, other):
        try:
            deque(_events(file, mime_type, hints.charset), maxlen=0)
        except ValueError as error:
            if mime_type == hints.mime_type:
                first_error = str(error)[:200]
            continue
        texts = _lines(_events(file, mime_type, hints.charset))
        break
    else:
        if not hints.is_guess:
            raise ReadError("INVALID_JSON", f"not JSON: {first_error}")
        mime_type, texts = PLAIN, decoded_file(file, charset=hints.charset)
    for piece in packed(texts, limits):
        give(replace(piece, mime_type=mime_type))


def record_text(record: Any) -> str:
    """Return a JSON value field by field, without null and empty fields. Raises ReadError with
    INVALID_JSON."""
    return "".join(_lines(_walked(record)))


def _events(file: BinaryIO, mime_type: str, charset: str) -> Iterator[Event]:
    """Yield the parser's events of a list's elements, of JSON Lines, or of a single value. Raises
    ValueError."""
    texts = decoded_file(file, charset=charset)
    try:
        if mime_type == JSON_LINES:
            for line in lines_of(texts):
                if line.strip():
                    yield from _walked(json.loads(line))
        elif file.seek(0, io.SEEK_END) <= MAX_WHOLE_BYTES:
            yield from _elements(_walked(json.loads("".join(texts))))
        else:
            yield from _elements(ijson.basic_parse(Utf8File(texts)))
    except RecursionError:
        raise ValueError("nested too deep") from None
    except ijson.JSONError as error:
        raise ValueError(str(error).partition("\n")[0]) from None


def _walked(value: Any) -> Iterator[Event]:
    if isinstance(value, Mapping):
        yield "start_map", None
        for name, below in value.items():
            yield "map_key", str(name)
            yield from _walked(below)
        yield "end_map", None
    elif isinstance(value, list):
        yield "start_array", None
        for one in value:
            yield from _walked(one)
        yield "end_array", None
    else:
        yield "scalar", value


def _elements(events: Iterator[Event]) -> Iterator[Event]:
    """Yield the events without the brackets of a list that is the whole document."""
    first = next(events)
    if first[0] != "start_array":
        yield first
        yield from events
        return
    before = next(events)
    for event in events:
        yield before
        before = event


@dataclass(slots=True)
class _List:
    """A list that is being read. Scalars are kept until it is known whether others are among them."""

    path: str
    count: int = 0
    is_nested: bool = False
    scalars: list[str] = field(default_factory=list)
    size: int = 0


def _lines(events: Iterable[Event]) -> Iterator[str]:
    """Yield the text of records line by line, with a blank line between two unless both are scalars. Raises
    ReadError with INVALID_JSON."""
    between, is_scalar = "", False
    for text, begins_record, is_alone in _fields(events):
        if begins_record and between:
            between = "\n" if is_scalar and is_alone else "\n\n"
        yield between + text
        between, is_scalar = "\n", is_alone


def _fields(events: Iterable[Event]) -> Iterator[tuple[str, bool, bool]]:
    """Yield fields as lines, and whether each is the first of its record and the only one."""
    above: list[str | _List] = []  # paths of objects, and lists
    path = ""  # path of the next value
    is_first = True
    for event, value in events:
        lines: Iterable[str] = ()
        is_scalar = False
        match event:
            case "map_key":
                outer = above[-1]
                assert isinstance(outer, str), "keys are an object's"
                path = f"{outer}.{value}" if outer else str(value)
                continue
            case "start_map" | "start_array":
                if len(above) > MAX_DEPTH:
                    raise ReadError("INVALID_JSON", f"nested more than {MAX_DEPTH} deep")
                if above and isinstance(outer := above[-1], _List):
                    lines = list(_as_nested(outer))
                    path = f"{outer.path}[{outer.count}]"
                    outer.count += 1
                above.append(path if event == "start_map" else _List(path))
            case "end_map" | "end_array":
                ended = above.pop()
                if isinstance(ended, _List) and ended.scalars:
                    joint = ", ".join(filter(None, ended.scalars))
                    lines = [_line(ended.path, joint)] if joint else []
            case _:
                text, is_scalar = _scalar(value), True
                if above and isinstance(outer := above[-1], _List):
                    lines = _with_scalar(outer, text)
                elif text:
                    lines = [_line(path, text)]
        for line in lines:
            yield line, is_first, is_scalar and not above
            is_first = False
        if not above:
            path, is_first = "", True


def _with_scalar(outer: _List, text: str) -> list[str]:
    """Return the lines that are complete with an element of a list."""
    outer.count += 1
    if outer.is_nested:
        return [_line(f"{outer.path}[{outer.count - 1}]", text)] if text else []
    outer.scalars.append(text)
    outer.size += len(text)
    if outer.size < PIECE_CHARACTERS:
        return []
    # A list of scalars may fill a large file.
    line = _line(outer.path, ", ".join(filter(None, outer.scalars)))
    outer.scalars, outer.size = [], 0
    return [line]


def _as_nested(outer: _List) -> Iterator[str]:
    """Yield the scalars that came before the first element of a list that is not a scalar."""
    if not outer.is_nested:
        outer.is_nested = True
        begin = outer.count - len(outer.scalars)
        for position, text in enumerate(outer.scalars, begin):
            if text:
                yield _line(f"{outer.path}[{position}]", text)
        outer.scalars = []


def _line(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _scalar(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Decimal():
            return _scalar(float(value))
        case float() if value.is_integer():  # numbers of a protobuf Struct are all floats
            return str(int(value))
        case _:
            return str(value).strip()
