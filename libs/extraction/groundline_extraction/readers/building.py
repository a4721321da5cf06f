"""Builder of a document's Markdown text, block by block."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from groundline_extraction.readers.common import (
    PIECE_CHARACTERS,
    LineEdges,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    line_edges,
    one_line,
)
from groundline_extraction.tables import TableRow, TableRows

__all__ = ["PAGE_BREAK", "MarkdownBuilder", "TablePart", "escaped", "table_text"]

type TablePart = Literal["whole", "first", "next"]

PAGE_BREAK: Final = "\f"
"""Separator of pages, in a paragraph of its own, as in plain text: an offset's page is one more than the
breaks before it."""

_BETWEEN: Final = "\n\n"
# Characters that Markdown would take for a mark at the start of a line.
_MARK: Final = re.compile(r"^( {0,3})(#{1,6}(?=\s|$)|```|~~~|=+\s*$)", re.MULTILINE)
MAX_TABLE_CELLS: Final = 2_000_000


class MarkdownBuilder:
    """Builder of blocks with a blank line between them, and form feeds between pages; it records where
    headings begin."""

    def __init__(self, limits: ReaderLimits) -> None:
        self._limits = limits
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[tuple[int, str, int]] = []
        self._lines: list[LineEdges] = []
        self._tables: list[tuple[TableRows, list[TableRow]]] = []
        self._page = 1
        self._piece_start = 0

    @property
    def start(self) -> int:
        """Return where the next block begins."""
        return self._length + (len(_BETWEEN) if self._length else 0)

    @property
    def is_piece(self) -> bool:
        """Return whether enough was built for a piece."""
        return self._length - self._piece_start >= PIECE_CHARACTERS

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

    def table(self, rows: Sequence[Sequence[str]], *, part: TablePart = "whole") -> None:
        """Append a table whose first row is its head, or a part of a table that is too long to be held."""
        match part:
            case "whole":
                self.add(table_text(rows))
            case "first":
                self.add(_joined_rows(rows, with_head=True))
            case "next":
                self.add(_joined_rows(rows, with_head=False), between="\n")

    def begin_table(
        self, columns: Sequence[str], *, name: str, sheet: str, left: int = -1, has_points: bool = False
    ) -> None:
        """Begin the table of the rows that follow; see TableRows."""
        rows: list[TableRow] = []
        names = tuple(map(clean, columns))
        table = TableRows(len(self._tables), name, names, rows, clean(sheet), left, has_points=has_points)
        self._tables.append((table, rows))

    def row(self, row: TableRow) -> None:
        """Record a row of the table that was begun last, which the text shows."""
        self._tables[-1][1].append(row._replace(cells=tuple(map(clean, row.cells))))

    def page(self, number: int) -> None:
        """Begin a page, counted from 1; pages in between are empty."""
        if number > self._page:
            self._put(PAGE_BREAK * (number - self._page))
            self._page = number

    def line(self, start: int, left: float, top: float, right: float, bottom: float) -> None:
        """Record where a line, or a cell of a table, is on the current page, in shares of the page."""
        self._lines.append(line_edges(self._page, start, left, top, right, bottom))

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

    def read(self, *, title: str = "", metadata: Mapping[str, str | float] | None = None) -> Read:
        """Return what was built since the last piece."""
        text, start = "".join(self._parts), self._piece_start
        headings = [(level, heading, begin - start) for level, heading, begin in self._headings]
        self._parts, self._headings, self._piece_start = [], [], self._length
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
            tables=[table for table, _ in self._tables],
        )


def escaped(text: str) -> str:
    """Return text with its lines escaped that Markdown would take for markup."""
    return _MARK.sub(r"\1\\\2", text)


def table_text(rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose first row is its head; short rows are filled up. Columns and rows without
    any text are left out. Raises ReadError with DOCUMENT_TOO_LARGE."""
    cells = _cells(rows)
    width = max(map(len, cells), default=0)
    if width * len(cells) > MAX_TABLE_CELLS:
        raise ReadError("DOCUMENT_TOO_LARGE", f"a table of more than {MAX_TABLE_CELLS} cells")
    cells = [row + [""] * (width - len(row)) for row in cells]
    kept = [column for column in range(width) if any(row[column] for row in cells)]
    if not kept:
        return ""
    return _marked([[row[column] for column in kept] for row in cells], with_head=True)


def _joined_rows(rows: Iterable[Sequence[str]], *, with_head: bool) -> str:
    """Return the rows with all of their columns: only the end of the table shows which ones stay empty."""
    return _marked(_cells(rows), with_head=with_head)


def _cells(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)
    return [row for row in cells if any(row)]


def _marked(cells: Sequence[Sequence[str]], *, with_head: bool) -> str:
    lines = [f"| {' | '.join(row)} |" for row in cells]
    if with_head and cells:
        lines.insert(1, "|" + "---|" * len(cells[0]))
    return "\n".join(lines)
