"""Builder of a document's Markdown text, block by block."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final, Literal

from groundline_extraction.readers.common import (
    PIECE_CHARACTERS,
    LineEdges,
    PicturePart,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    line_edges,
    one_line,
)
from groundline_extraction.readers.grids import GridRow, Head, head_of
from groundline_extraction.tables import TableRow, TableRows, rows_between

type TablePart = Literal["whole", "first", "next"]

PAGE_BREAK: Final = "\f"
"""Separator of pages, in a paragraph of its own, as in plain text: an offset's page is one more than the
breaks before it."""

_BETWEEN: Final = "\n\n"
# Characters that Markdown would take for a mark at the start of a line.
_MARK: Final = re.compile(r"^( {0,3})(#{1,6}(?=\s|$)|```|~~~|=+\s*$)", re.MULTILINE)
MAX_TABLE_CELLS: Final = 2_000_000
MAX_PICTURES: Final = 100
"""Maximum pictures of one document that are told; further ones are left out."""


class MarkdownBuilder:
    """Builder of blocks with a blank line between them, and form feeds between pages; it records where
    headings begin."""

    def __init__(self, limits: ReaderLimits, *, with_pictures: bool = False) -> None:
        self._limits = limits
        self._with_pictures = with_pictures
        self._pictures: list[PicturePart] = []
        self._known_pictures: set[bytes] = set()
        self._known_files: set[bytes] = set()
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[tuple[int, str, int]] = []
        self._lines: list[LineEdges] = []
        self._tables: list[tuple[TableRows, list[TableRow]]] = []
        self._table_count = self._table_rows = 0
        self._table_end = -1
        self._last_heading = ""
        self._page = 1
        self._has_pages = False
        self._piece_start = 0

    @property
    def start(self) -> int:
        """Return where the next block begins."""
        return self._length + (len(_BETWEEN) if self._length else 0)

    @property
    def is_piece(self) -> bool:
        """Return whether enough was built for a piece."""
        return bool(self._pictures) or self._length - self._piece_start >= PIECE_CHARACTERS

    @property
    def takes_pictures(self) -> bool:
        """Return whether a further picture is wanted."""
        return self._with_pictures and len(self._known_pictures) < MAX_PICTURES

    def takes_file(self, data: bytes) -> bool:
        """Return whether a picture's file is wanted, and was not asked for before."""
        if not self.takes_pictures or (digest := hashlib.sha256(data).digest()) in self._known_files:
            return False
        self._known_files.add(digest)
        return True

    def add(self, block: str, *, between: str = _BETWEEN) -> None:
        """Append a block of Markdown unless it is blank. `between` stands before it: a line end if it
        continues a list or a table. Raises ReadError with DOCUMENT_TOO_LARGE."""
        block = clean(block).strip("\n").rstrip()
        if not block.strip():
            return
        self._put(block, between)
        if self._length > self._limits.max_unpacked_bytes:
            most = self._limits.max_unpacked_bytes
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {most} characters of text")

    def _put(self, part: str, between: str = _BETWEEN) -> None:
        if self._length:
            self._parts.append(between)
            self._length += len(between)
        self._parts.append(part)
        self._length += len(part)

    def heading(self, level: int, title: str) -> None:
        title = one_line(title)
        if title:
            level = min(max(level, 1), 6)
            self._headings.append((level, title, self.start))
            self._last_heading = title
            self.add(f"{'#' * level} {title}")

    def outline(self, level: int, title: str, start: int) -> None:
        """Append a heading that the text does not show."""
        self._headings.append((min(level, 6), one_line(title), start))

    def paragraph(self, text: str) -> None:
        self.add(escaped(text))

    def code(self, text: str, language: str = "") -> None:
        fence = "~~~" if "```" in text else "```"
        if text.strip():
            self.add(f"{fence}{language}\n{text.strip(chr(10)).rstrip()}\n{fence}")

    def table(self, rows: Sequence[GridRow], *, part: TablePart = "whole", has_head: bool = True) -> None:
        """Append a table and its rows, or a part of a table that is too long to be held. The columns of one
        without a head have no names."""
        rows = [row._replace(cells=_cleaned(row.cells)) for row in rows]
        rows = _without_blanks(rows) if part == "whole" else [row for row in rows if any(row.cells)]
        if rows and not has_head:
            rows = [GridRow([""] * len(rows[0].cells)), *rows]
        lines = list(_lines(rows, with_head=part != "next"))
        between = "\n" if part == "next" else _BETWEEN
        begin = self._length + (len(between) if self._length else 0)
        is_next = part == "next"
        is_known = not is_next or self._table_end == self._length
        self.add("\n".join(lines), between=between)
        if rows and is_known:
            starts = list(accumulate((len(line) + 1 for line in lines[:-1]), initial=begin))
            self._add_rows(rows, starts if is_next else [starts[0], *starts[2:]], is_next=is_next)

    def _add_rows(self, rows: Sequence[GridRow], starts: Sequence[int], *, is_next: bool) -> None:
        """Record the rows of a table, or more of the last one, by where they begin in the text."""
        head = Head("", self._tables[-1][0].columns, 0) if is_next else head_of(rows)
        before = self._table_rows if is_next else 0
        self._table_rows = before + len(rows)
        found = [
            TableRow(before + number, start, tuple(row.cells), row.copies)
            for number, start, row in zip(range(1, len(rows) + 1), starts, rows, strict=True)
            if number > head.height and not row.is_one_cell(len(head.names))
        ]
        if found and not is_next:
            self.begin_table(head.names, name=one_line(head.title) or self._last_heading, sheet="")
        if found:
            self._tables[-1][1].extend(found)
        if found or is_next:
            self._table_end = self._length

    def begin_table(
        self, columns: Sequence[str], *, name: str, sheet: str, left: int = -1, has_points: bool = False
    ) -> None:
        """Begin the table of the rows that follow; see TableRows."""
        rows: list[TableRow] = []
        names = tuple(map(clean, columns))
        page = self._page if self._has_pages else 0
        table = TableRows(self._table_count, name, names, rows, clean(sheet), left, page, has_points)
        self._tables.append((table, rows))
        self._table_count += 1

    def row(self, row: TableRow) -> None:
        """Record a row of the table that was begun last, which the text shows."""
        self._tables[-1][1].append(row._replace(cells=tuple(map(clean, row.cells))))

    def page(self, number: int) -> None:
        """Begin a page, counted from 1; pages in between are empty."""
        self._has_pages = True
        if number > self._page:
            self._put(PAGE_BREAK * (number - self._page))
            self._page = number

    def line(self, start: int, left: float, top: float, right: float, bottom: float) -> None:
        """Record where a line, or a cell of a table, is on the current page, in shares of the page."""
        self._lines.append(line_edges(self._page, start, left, top, right, bottom))

    def picture(self, data: bytes, edges: Sequence[float] = ()) -> None:
        """Record a picture, if it is new, behind what was built; its edges are in shares of the current page.
        b"" is none."""
        digest = hashlib.sha256(data).digest()
        if data and self.takes_pictures and digest not in self._known_pictures:
            self._known_pictures.add(digest)
            place = line_edges(self._page, 0, *edges) if edges else None
            self._pictures.append(PicturePart(self._length, data, place))

    def include(self, read: Read, *, below: int = 0) -> None:
        """Append all that another reader has read, with its headings moved down by some levels."""
        start = self.start
        # Pages of an included document are not this document's.
        text = read.text.replace(PAGE_BREAK, " ").strip()
        text = text if read.markdown else escaped(text)
        if not text:
            return
        shift = start - (len(read.text) - len(read.text.lstrip(f"{PAGE_BREAK} \n")))
        self.add(text)
        if read.markdown:
            self._headings += [
                (min(level + below, 6), title, max(start, at + shift)) for level, title, at in read.headings
            ]
            self._last_heading = read.headings[-1][1] if read.headings else self._last_heading
            for table in rows_between(read.tables, -shift, len(read.text) + 1):
                self.begin_table(table.columns, name=table.name, sheet=table.sheet, left=table.left)
                self._tables[-1][1].extend(table.rows)

    def read(self, *, title: str = "", metadata: Mapping[str, str | float] | None = None) -> Read:
        """Return what was built since the last piece."""
        text, start = "".join(self._parts), self._piece_start
        headings = [(level, heading, begin - start) for level, heading, begin in self._headings]
        tables: Sequence[TableRows] = [table for table, _ in self._tables]
        if start:
            tables = rows_between(tables, start, self._length + 1)
        rows: list[TableRow] = []
        # The last table may go on, with its index again.
        self._tables = [(replace(table, rows=rows), rows) for table, _ in self._tables[-1:]]
        self._parts, self._headings, self._piece_start = [], [], self._length
        pictures, self._pictures = self._pictures, []
        return Read(
            text,
            markdown=True,
            title=one_line(title),
            headings=sorted(headings, key=lambda heading: heading[2]),
            metadata={
                name: one_line(value) if isinstance(value, str) else value
                for name, value in (metadata or {}).items()
                if value
            },
            lines=self._lines,
            tables=tables,
            pictures=pictures,
        )


def escaped(text: str) -> str:
    """Return text with its lines escaped that Markdown would take for markup."""
    return _MARK.sub(r"\1\\\2", text)


def table_text(rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose first row is its head; short rows are filled up. Columns and rows without
    any text are left out. Raises ReadError with DOCUMENT_TOO_LARGE."""
    grid = _without_blanks([GridRow(_cleaned(row)) for row in rows])
    return "\n".join(_lines(grid, with_head=True))


def _cleaned(cells: Iterable[str]) -> list[str]:
    return [" ".join(clean(cell).split()) for cell in cells]


def _without_blanks(rows: Iterable[GridRow]) -> list[GridRow]:
    """Return the rows with as many cells each, without rows and columns that have no text."""
    rows = [row for row in rows if any(row.cells)]
    width = max((len(row.cells) for row in rows), default=0)
    if width * len(rows) > MAX_TABLE_CELLS:
        raise ReadError("DOCUMENT_TOO_LARGE", f"a table of more than {MAX_TABLE_CELLS} cells")
    cells = [[*row.cells, *[""] * (width - len(row.cells))] for row in rows]
    kept = [column for column in range(width) if any(row[column] for row in cells)]
    return [
        GridRow(
            [texts[column] for column in kept],
            frozenset(at for at, column in enumerate(kept) if column in row.left),
            frozenset(at for at, column in enumerate(kept) if column in row.above),
            row.is_head,
        )
        for row, texts in zip(rows, cells, strict=True)
    ]


def _lines(rows: Iterable[GridRow], *, with_head: bool) -> Iterator[str]:
    """Yield the lines of a Markdown table, or of a part of one."""
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '\\|') for cell in row.cells)} |"
        if with_head:
            yield "|" + "---|" * len(row.cells)
        with_head = False
