"""Segments of long texts that can be worked on one by one: cut where a reader would pause."""

import json
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from groundline.v1 import passage_pb2

from groundline_extraction.readers.common import LineEdges
from groundline_extraction.spooling import Spool
from groundline_extraction.tables import PagedTables, TableRows, markdown_tables, read_rows
from groundline_extraction.texts import PAGE_BREAK, Heading, TextSegment

SEGMENT_CHARACTERS: Final = 1 << 20
"""Maximum characters of a segment; with its chunks and vectors it takes some ten times that in memory."""

_SECTION: Final = re.compile(r"^(?=#{1,6}[ \t])", re.MULTILINE)
# An indented line continues a list or a function above.
_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n(?=\S)")
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


class HeadedCutter:
    """Cutter of a text that comes in pieces of any size into segments with their headings.

    A cut is made in the second half of a segment's maximum: before the last Markdown heading, else paragraph,
    line or word there; in Markdown not within a code fence.
    """

    def __init__(
        self,
        *,
        is_markdown: bool,
        read_headings: Callable[[str, int], Iterable[Heading]],
        characters: int = SEGMENT_CHARACTERS,
        has_pages: bool = False,
    ) -> None:
        """Take the parameters. `read_headings` finds those of a segment, given its text and its start in the
        whole text, in which they count; `characters` is the maximum of a segment; `has_pages`: it has pages,
        even if no break is in it."""
        self._characters = characters
        self._is_markdown = is_markdown
        self._read_headings = read_headings
        self.lines: Sequence[LineEdges] = ()
        """Lines of the whole text, to be told with its last segment."""
        self.rows: list[TableRows] = []
        """Rows that were read, to be told with the next segment."""
        self._has_rows = False
        self._tables = 0
        self._paged = PagedTables()
        self._page = 1
        self._has_pages = has_pages
        self._text = ""
        self._start = 0

    def feed(self, piece: str) -> Iterator[TextSegment]:
        """Add a piece, and yield the segments that are complete."""
        most = self._characters
        for begin in range(0, len(piece), most):
            self._text += piece[begin : begin + most]
            while len(self._text) > most:
                yield self._taken(_cut(self._text[:most], self._is_markdown))

    def end(self) -> Iterator[TextSegment]:
        """Yield the last segment, if any text is left."""
        if self._text:
            yield replace(self._taken(len(self._text)), pages=tuple(page_lines(self.lines)))

    def _taken(self, end: int) -> TextSegment:
        text, start = self._text[:end], self._start
        self._text, self._start = self._text[end:], start + end
        headings = tuple(self._read_headings(text, start))
        return TextSegment(text, start, headings, tables=tuple(self._taken_rows(text, start, headings)))

    def _taken_rows(self, text: str, start: int, headings: Sequence[Heading]) -> Iterator[TableRows]:
        """Yield the rows that a reader gave, else the Markdown tables of a segment."""
        self._has_rows = self._has_rows or bool(self.rows)
        rows, self.rows = self.rows, []
        yield from rows
        if not self._is_markdown or self._has_rows:
            return
        fences = _fenced(text)
        at = above = after = 0
        for begin, table in markdown_tables(text):
            self._page += text.count(PAGE_BREAK, at, begin)
            at = begin
            while above < len(headings) and headings[above].start <= start + begin:
                above += 1
            if any(first < begin < last for first, last in fences):
                continue
            self._paged.pass_text(text[after:begin])
            found = self._paged.continued(begin, table)
            if found is None and table.rows:
                found = replace(
                    table,
                    index=self._tables,
                    name=headings[above - 1].title if above else "",
                    page=self._page if self._has_pages or self._page > 1 else 0,
                )
                self._tables += 1
            if found is not None and found.rows:
                self._paged.end(found)
                end = text.find("\n", found.rows[-1].start)
                after = len(text) if end < 0 else end
                yield replace(found, rows=[row._replace(start=row.start + start) for row in found.rows])
        self._paged.pass_text(text[after:])
        self._page += text.count(PAGE_BREAK, at)


def known_headings(headings: deque[Heading]) -> Callable[[str, int], Iterator[Heading]]:
    """Return a function that gives out known headings, in order, to the segments they are in."""

    def within(text: str, start: int) -> Iterator[Heading]:
        while headings and headings[0].start < start + len(text):
            yield headings.popleft()

    return within


def page_lines(lines: Sequence[LineEdges]) -> Iterator[passage_pb2.PageLines]:
    """Yield the lines of each page, as differences from one to the next."""
    for number, group in groupby(lines, key=lambda line: line.page):
        page = passage_pb2.PageLines(page=number)
        before = left = right = top = 0
        for line in group:
            page.starts.append(line.start - before)
            page.lefts.append(line.left - left)
            page.rights.append(line.right - right)
            page.tops.append(line.top - top)
            page.heights.append(line.bottom - line.top)
            before, left, right, top = line.start, line.left, line.right, line.top
        yield page


def kept_segments(directory: Path | None) -> Spool[TextSegment]:
    """Return a spool of segments, which can be gone through again; a single one stays in memory."""
    return Spool(_dumped, _loaded, directory=directory)


def _dumped(segment: TextSegment) -> bytes:
    headings = [[heading.level, heading.title, heading.start] for heading in segment.headings]
    pages = [page.SerializeToString().decode("latin-1") for page in segment.pages]
    tables = [asdict(table) for table in segment.tables]
    values = [segment.text, segment.start, headings, pages, tables]
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _loaded(data: bytes) -> TextSegment:
    text, start, headings, pages, tables = json.loads(data.decode("utf-8", "surrogatepass"))
    return TextSegment(
        text,
        start,
        tuple(Heading(*heading) for heading in headings),
        tuple(passage_pb2.PageLines.FromString(page.encode("latin-1")) for page in pages),
        tuple(map(read_rows, tables)),
    )


def _cut(text: str, is_markdown: bool) -> int:
    """Return where the first segment of a text ends that is too long for one."""
    middle = len(text) // 2
    fences = _fenced(text) if is_markdown else []
    begins = [begin for begin, _ in fences]

    def last(places: Iterable[int]) -> int:
        for at in reversed(list(places)):
            before = bisect_left(begins, at) - 1
            if before < 0 or fences[before][1] <= at:
                return at
        return 0

    if is_markdown and (section := last(match.start() for match in _SECTION.finditer(text, middle))):
        return section
    if paragraph := last(match.end() for match in _PARAGRAPH.finditer(text, middle)):
        return paragraph
    for boundary in ("\n", " "):
        if (at := text.rfind(boundary, middle)) >= 0:
            return at + 1
    return len(text)


def _fenced(text: str) -> list[tuple[int, int]]:
    """Return begin and end of code fences; one that is not closed goes to the end."""
    fences: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for match in _FENCE.finditer(text):
        mark = match[1]
        if opened is None:
            opened = match.start(), mark
        elif mark.startswith(opened[1]):
            fences.append((opened[0], match.end()))
            opened = None
    if opened is not None:
        fences.append((opened[0], len(text)))
    return fences
