"""Text of a document, its headings and its chunks."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from groundline_extraction.tables import TABLE
from groundline_extraction.texts import PAGE_BREAK, Heading, last_part
from numpy.typing import NDArray

MAX_TABLE_HEAD_CHARACTERS: Final = 1000

# The rest of one, from within a row or from the next.
_ROWS: Final = re.compile(r"[^\n]*(?:\n\|[^\n]*)*(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Section:
    """A cut of an extracted text: `extracted[start:end] == text`, in code points.

    What comes before `own_start` repeats the end of the chunk above, from before a heading. `siblings_before`
    and `siblings_after` count the other chunks of its parent, where that was cut into several.
    """

    text: str
    start: int
    end: int
    lead: int = 0
    siblings_before: int = 0
    siblings_after: int = 0

    @property
    def own_start(self) -> int:
        return self.start + self.lead


class Series[T](Protocol):
    """Values that can be iterated again and again; not necessarily in memory."""

    def __iter__(self) -> Iterator[T]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A section with its context, the text of both that BM25 indexes, and the pages of its text, from 1; 0 if
    the document has no pages."""

    section: Section
    context: str
    lexical_text: str
    signature: bytes
    """Signature of the section's text, or its parent's; see groundline_signatures."""
    page: int = 0
    last_page: int = 0

    @property
    def page_metadata(self) -> dict[str, int | list[int]]:
        """Pages as a chunk's metadata has them: "page" to sort by, "pages" to be filtered by."""
        if self.last_page <= self.page:
            return {"page": self.page} if self.page else {}
        return {
            "page": self.page,
            "lastPage": self.last_page,
            "pages": list(range(self.page, self.last_page + 1)),
        }

    @property
    def embedded_text(self) -> str:
        return f"{self.context}\n\n{self.section.text}" if self.context else self.section.text


type Vectors = NDArray[np.float32] | NDArray[np.float16]


def pages_of(text: str, sections: Iterable[Section], before: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the first and the last page of the text of each section, in order: form feeds divide pages.
    `before`: pages above it."""
    page, at = before + 1, 0
    for section in sections:
        begin = section.start + len(section.text) - len(section.text.lstrip())
        # The next section may begin above the end of blanks that this one begins with.
        page += text.count(PAGE_BREAK, at, begin) - text.count(PAGE_BREAK, begin, at)
        at = begin
        yield page, page + section.text.strip().count(PAGE_BREAK)


def table_heads_at(text: str, positions: Sequence[int], above: str = "") -> Iterator[str]:
    """Yield for each position, in order, the first row of the Markdown table that it is within, empty if it
    is within none or in that row. `above`: the first row of the table that the text begins within."""
    begun = _ROWS.match(text) if above else None
    begin = begun.end() if begun else 0
    tables = TABLE.finditer(text, begin)
    table = next(tables, None)
    for position in positions:
        while table is not None and table.end() <= position:
            table = next(tables, None)
        if position < begin:
            yield above
            continue
        is_within = table is not None and table.end(1) <= position
        yield _head(table) if table is not None and is_within else ""


def open_table_head(text: str, above: str = "") -> str:
    """Return the first row of the Markdown table that a text ends within, as far as the text shows it."""
    begun = _ROWS.match(text) if above else None
    begin = begun.end() if begun else 0
    if begun and begin == len(text):
        return above
    last = next((table for table in TABLE.finditer(text, begin) if table.end() == len(text)), None)
    return _head(last) if last is not None else ""


def _head(table: re.Match[str]) -> str:
    return table[1].strip()[:MAX_TABLE_HEAD_CHARACTERS]


def heading_trails(headings: Sequence[Heading], positions: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """Yield for each position the titles of the headings that enclose it, outermost first.

    A heading that begins at an offset belongs to the text there and is not part of its own trail, but ends
    the sections before it that it does not sit in. Headings and offsets are in the order of the text.
    """
    trail: list[Heading] = []
    following = iter(headings)
    heading = next(following, None)
    for position in positions:
        while heading is not None and heading.start <= position:
            while trail and trail[-1].level >= heading.level:
                trail.pop()
            trail.append(heading)
            heading = next(following, None)
        yield tuple(above.title for above in trail if above.start < position)


def enclosing(headings: Iterable[Heading]) -> tuple[Heading, ...]:
    """Return those of the headings, in the order of the text, whose sections go on behind the last."""
    trail: list[Heading] = []
    for heading in headings:
        while trail and trail[-1].level >= heading.level:
            trail.pop()
        trail.append(heading)
    return tuple(trail)


def structural_context(title: str, uri: str, trail: Sequence[str]) -> str:
    """Return title, uri and trail of headings, a line each, without repetitions.

    `uri` is "" for a document that was handed in without one.
    """
    names_itself = title == last_part(uri) or trail[:1] == (title,)
    return "\n".join(part for part in ("" if names_itself else title, uri, " > ".join(trail)) if part)
