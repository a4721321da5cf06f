"""DOC, the format of Word 97 to 2003, as Markdown: headings, lists, tables, notes, comments, headers.

The text is in pieces that a table lists (MS-DOC 2.4.1); properties of paragraphs and characters stand on
pages of 512 bytes. Numbers of lists are computed by Word and not stored: items stand with a dash.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groundline_extraction.readers.building import MarkdownBuilder, escaped
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError, clean, parsing
from groundline_extraction.readers.compound import CompoundFile, title_of
from groundline_extraction.readers.grids import spread
from groundline_extraction.readers.office.docx import MAX_CELLS

PAGE_BYTES: Final = 512
MAX_COLUMNS: Final = 200

_WORD_97: Final = 193
_ENCRYPTED: Final = 0x0100
_TABLE_1: Final = 0x0200
# Offsets in the header: of a part's length in characters, of a structure's offset and length.
_LENGTHS: Final = 0x4C
_STYLED_CHARACTERS, _STYLED_PARAGRAPHS, _PIECES = 0xFA, 0x102, 0x1A2
# Properties (MS-DOC 2.6): of paragraphs, of characters, of rows.
_OUTLINE_LEVEL, _LIST, _LIST_LEVEL = 0x2640, 0x460B, 0x260A
_IN_TABLE, _ROW_END, _ROW = 0x2416, 0x2417, 0xD608
_DELETED, _HIDDEN = 0x0800, 0x083C
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
_NEAR: Final = 40
"""Distance below which two edges of cells are one, in twentieths of a point."""
_TEXT_WITHIN_WORD: Final = str.maketrans(
    {"\x0b": "\n", "\x0e": "\n", "\x1e": "-", "\x1f": "", "\xa0": " ", "\x0c": "", "\0": ""}
    | dict.fromkeys("\x01\x02\x03\x04\x05\x06\x08", "")
)

type Properties = Mapping[int, bytes]


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read the body, then notes, comments, text boxes, headers and footers. Raises ReadError with
    ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT, DOCUMENT_TOO_LARGE or UNSUPPORTED_TYPE (of Word 6 or 95)."""
    with parsing("a sound document"):
        return _Document(CompoundFile(data), limits).read()


@dataclass(slots=True)
class _Row:
    texts: list[str] = field(default_factory=list)
    edges: Sequence[int] = ()
    merged: Sequence[bool] = ()
    """Whether each cell continues the one above."""


class _Document:
    def __init__(self, file: CompoundFile, limits: ReaderLimits) -> None:
        self._limits = limits
        self._main = file.read("WordDocument")
        mark, version = struct.unpack_from("<HH", self._main)
        [flags] = struct.unpack_from("<H", self._main, 0x0A)
        if flags & _ENCRYPTED:
            raise ReadError("ENCRYPTED_DOCUMENT", "the document needs a password")
        if mark != 0xA5EC or version < _WORD_97:
            raise ReadError(
                "UNSUPPORTED_TYPE", "a document of Word 6 or 95; save it as DOCX, by LibreOffice or Word"
            )
        self._table = file.read("1Table" if flags & _TABLE_1 else "0Table")
        self._title = title_of(file)
        self._paragraphs = _Pages(self._main, self._structure(_STYLED_PARAGRAPHS), is_paragraphs=True)
        self._pieces: list[tuple[int, int, int]] = []
        """First character, offset in the file, and bytes of a character."""
        self._text = "".join(self._texts())
        self._builder = MarkdownBuilder(limits)

    def read(self) -> Read:
        body, notes, headers, _, comments, ends, boxes, _ = struct.unpack_from("<8I", self._main, _LENGTHS)
        self._body(0, body)
        begin = body
        around: dict[str, None] = {}
        for name, size in (
            ("note", notes),
            ("header", headers),
            ("comment", comments),
            ("note", ends),
            ("box", boxes),
        ):
            for line in _without_fields(self._text[begin : begin + size]).split("\r"):
                text = _plain(line)
                # The first of each header is a line between text and notes.
                if not text or (name == "header" and not any(map(str.isalpha, text))):
                    continue
                if name == "header":
                    around[text] = None
                else:
                    self._builder.paragraph(f"[Comment: {text}]" if name == "comment" else text)
            begin += size
        for text in around:
            self._builder.paragraph(text)
        return self._builder.read(title=self._title)

    def _structure(self, at: int) -> bytes:
        offset, size = struct.unpack_from("<II", self._main, at)
        return self._table[offset : offset + size]

    def _texts(self) -> Iterator[str]:
        """Yield the pieces of the text, with NUL for what is deleted or hidden."""
        removed = _Pages(self._main, self._structure(_STYLED_CHARACTERS), is_paragraphs=False).removed()
        table = self._structure(_PIECES)
        at = 0
        while table[at] == 1:  # properties that pieces refer to
            at += 3 + struct.unpack_from("<H", table, at + 1)[0]
        [size] = struct.unpack_from("<I", table, at + 1)
        count = (size - 4) // 12
        ends = struct.unpack_from(f"<{count + 1}I", table, at + 5)
        if ends[-1] > self._limits.max_unpacked_bytes:
            raise ReadError("DOCUMENT_TOO_LARGE", f"{ends[-1]} characters")
        for number in range(count):
            [where] = struct.unpack_from("<I", table, at + 5 + 4 * (count + 1) + 8 * number + 2)
            length = ends[number + 1] - ends[number]
            width = 1 if where & 0x40000000 else 2
            offset = (where & 0x3FFFFFFF) // (2 if width == 1 else 1)
            data = self._main[offset : offset + length * width]
            if length < 0 or len(data) < length * width:
                raise ReadError("CORRUPT_DOCUMENT", "a piece of its text is missing")
            self._pieces.append((ends[number], offset, width))
            text = data.decode("cp1252" if width == 1 else "utf-16-le", "replace")
            if width == 2 and len(text) < length:  # of surrogate pairs, so that offsets are those of the file
                text = "".join(map(chr, struct.unpack(f"<{length}H", data)))
            yield _blanked(text, offset, width, removed)

    def _properties_at(self, character: int) -> tuple[int, Properties]:
        first, offset, width = self._pieces[bisect_right(self._pieces, (character, 1 << 32, 0)) - 1]
        return self._paragraphs.at(offset + (character - first) * width)

    def _body(self, begin: int, end: int) -> None:
        rows: list[_Row] = []
        cell: list[str] = []
        is_in_list = False
        while begin < end:
            ends = (self._text.find(mark, begin, end) for mark in "\r\x07\x0c")
            stop = min((one for one in ends if one >= 0), default=end - 1)
            style, properties = self._properties_at(stop)
            text = self._paragraph(begin, stop)
            is_cell, begin = self._text[stop] == "\x07", stop + 1
            if properties.get(_ROW_END, b"\0")[0]:
                rows[-1:] = [_row(rows[-1], properties.get(_ROW, b""))] if rows else []
                rows.append(_Row())
                cell = []
            elif properties.get(_IN_TABLE, b"\0")[0] or is_cell:
                cell.append(text)
                if is_cell:
                    rows = rows or [_Row()]
                    rows[-1].texts.append(" ".join(filter(None, cell)))
                    cell = []
            else:
                self._end_table(rows)
                rows = []
                is_in_list = self._block(text, style, properties, is_in_list=is_in_list)
        self._end_table(rows)

    def _paragraph(self, begin: int, end: int) -> str:
        return _plain(_without_fields(self._text[begin:end]))

    def _block(self, text: str, style: int, properties: Properties, *, is_in_list: bool) -> bool:
        """Write a paragraph, and return whether it is an item of a list."""
        level = properties.get(_OUTLINE_LEVEL, b"\x09")[0] + 1
        level = level if level < 10 else style if 1 <= style <= 9 else 0
        is_item = any(properties.get(_LIST, b"")) and bool(text)
        if level:
            self._builder.heading(level, text)
        elif is_item:
            depth = min(properties.get(_LIST_LEVEL, b"\0")[0], 8)
            item = f"{'  ' * depth}- {escaped(text)}"
            self._builder.add(item, between="\n" if is_in_list else "\n\n")
        else:
            self._builder.paragraph(text)
        return is_item and not level

    def _end_table(self, rows: Sequence[_Row]) -> None:
        rows = [row for row in rows if row.texts]
        if rows:
            self._builder.table(list(spread(_spans(rows), MAX_CELLS)))


class _Pages:
    """Properties of paragraphs or characters, by their offsets in the file (MS-DOC 2.9.33 and 2.9.44)."""

    def __init__(self, main: bytes, table: bytes, *, is_paragraphs: bool) -> None:
        self._is_paragraphs = is_paragraphs
        count = max(0, (len(table) - 4) // 8)
        numbers = struct.unpack_from(f"<{count}I", table, 4 * (count + 1)) if count else ()
        if count > len(main) // PAGE_BYTES:
            raise ReadError("CORRUPT_DOCUMENT", "more pages of properties than it has room for")
        self._runs: list[tuple[int, int, bytes]] = []
        """Begin, end and properties."""
        for number in numbers:
            at = (number & 0x3FFFFF) * PAGE_BYTES
            self._runs += self._page(main[at : at + PAGE_BYTES])
        self._runs.sort(key=lambda run: run[0])
        self._begins = [begin for begin, _, _ in self._runs]

    def _page(self, page: bytes) -> Iterator[tuple[int, int, bytes]]:
        count = page[-1]
        step = 13 if self._is_paragraphs else 1
        offsets = struct.unpack_from(f"<{count + 1}I", page)
        for number in range(count):
            at = 2 * page[4 * (count + 1) + step * number]
            size = page[at] if at else 0
            if self._is_paragraphs and at:
                at, size = (at + 1, 2 * page[at + 1]) if not size else (at, 2 * size - 1)
            yield offsets[number], offsets[number + 1], page[at + 1 : at + 1 + size] if at else b""

    def at(self, offset: int) -> tuple[int, Properties]:
        """Return the style of the paragraph there, and its own properties."""
        found = bisect_right(self._begins, offset) - 1
        if found < 0 or len(properties := self._runs[found][2]) < 2:
            return 0, {}
        return struct.unpack_from("<H", properties)[0], _properties(properties[2:])

    def removed(self) -> Sequence[tuple[int, int]]:
        """Return begin and end of what is deleted or hidden."""
        return [
            (begin, end)
            for begin, end, data in self._runs
            if any(_properties(data).get(kind, b"\0")[0] & 1 for kind in (_DELETED, _HIDDEN))
        ]


def _properties(data: bytes) -> Properties:
    found: dict[int, bytes] = {}
    at = 0
    while at + 2 < len(data):
        kind = int.from_bytes(data[at : at + 2], "little")
        at += 2
        size = _SIZES.get(kind >> 13, 0)
        if kind == _ROW:
            size = int.from_bytes(data[at : at + 2], "little") + 1
        elif kind >> 13 == 6:
            size = data[at] + 1
        found[kind] = data[at : at + size] or b"\0"
        at += size
    return found


def _row(row: _Row, definition: bytes) -> _Row:
    """Return a row with the edges of its cells (MS-DOC 2.9.301)."""
    if len(definition) < 3:
        return row
    count = definition[2]
    edges = struct.unpack_from(f"<{count + 1}h", definition, 3)
    at = 3 + 2 * (count + 1)
    flags = [definition[start : start + 2] for start in range(at, min(at + 20 * count, len(definition)), 20)]
    merged = [len(one) == 2 and one[0] & 0x60 == 0x20 for one in flags]
    return _Row(row.texts[:count], edges, [*merged, *[False] * (count - len(merged))])


def _spans(rows: Sequence[_Row]) -> Iterator[list[tuple[str, int, int]]]:
    """Yield the cells of each row with the columns that they span; one that continues the cell above has its
    text."""
    columns: list[int] = []
    for edge in sorted({edge for row in rows for edge in row.edges}):
        if not columns or edge - columns[-1] >= _NEAR:
            columns.append(edge)
    above: dict[int, str] = {}
    for row in rows:
        cells = []
        for number, text in enumerate(row.texts[:MAX_COLUMNS]):
            left = row.edges[number] if row.edges else number
            text = above.get(left, text) if row.merged and row.merged[number] else text
            above[left] = text
            span = 1
            if row.edges:
                begin, end = (bisect_right(columns, row.edges[number + one]) for one in (0, 1))
                span = min(max(1, end - begin), MAX_COLUMNS)
            cells.append((text, span, 1))
        yield cells


def _blanked(text: str, offset: int, width: int, removed: Sequence[tuple[int, int]]) -> str:
    end = offset + len(text) * width
    at = max(0, bisect_right(removed, (offset, 0)) - 1)
    parts: list[str] = []
    done = 0
    for begin, stop in removed[at:]:
        if begin >= end:
            break
        first, last = max(0, (begin - offset) // width), min(len(text), (stop - offset) // width)
        if last > max(first, done):
            first = max(first, done)
            parts += [text[done:first], "\0" * (last - first)]
            done = last
    return "".join(parts) + text[done:]


def _without_fields(text: str) -> str:
    """Return text with the results of fields, without their instructions."""
    if "\x13" not in text:
        return text.translate({0x14: None, 0x15: None})
    shown: list[str] = []
    hidden: list[bool] = []
    for character in text:
        match character:
            case "\x13":
                hidden.append(True)
            case "\x14" if hidden:
                hidden[-1] = False
            case "\x15" if hidden:
                hidden.pop()
            case _ if not any(hidden):
                shown.append(character)
    return "".join(shown)


def _plain(text: str) -> str:
    text = clean(text.translate(_TEXT_WITHIN_WORD))
    return "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()
