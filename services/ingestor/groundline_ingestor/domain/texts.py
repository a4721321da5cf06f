"""A document's text, its headings and its chunks."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MEMBER_MARK",
    "PAGE_BREAK",
    "DocumentText",
    "ExtractedText",
    "Heading",
    "PreparedChunk",
    "Section",
    "Series",
    "TextSegment",
    "Vectors",
    "contextualized",
    "enclosing",
    "has_pages",
    "heading_trails",
    "last_part",
    "open_table_head",
    "pages_at",
    "structural_context",
    "table_heads_at",
]


PAGE_BREAK: Final = "\f"
"""Stands between pages of an extracted text, as in plain text files."""

MAX_TABLE_HEAD_CHARACTERS: Final = 1000

# Its first row, the line under it, and the rows.
_TABLE: Final = re.compile(r"^(\|[^\n]*\n)\|(?:[ :]*-+[ :]*\|)+[ \t]*\n(?:\|[^\n]*(?:\n|\Z))*", re.MULTILINE)
# What is left of one, from within a row or from the next.
_ROWS: Final = re.compile(r"[^\n]*(?:\n\|[^\n]*)*(?:\n|\Z)")
_PAGED: Final = frozenset(
    {
        "application/pdf",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.oasis.opendocument.presentation",
        "image/tiff",
    }
)


@dataclass(frozen=True)
class Section:
    """A cut of an extracted text: `extracted[start:end] == text`, in code points.

    What comes before `own_start` repeats the end of the chunk above, from before a heading. Of a parent that
    was cut into several chunks, so many come before this one and after it.
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


@dataclass(frozen=True)
class Heading:
    """A heading of an extracted text: its level from 1, its plain title, and where it begins, in code
    points."""

    level: int
    title: str
    start: int


@dataclass(frozen=True)
class TextSegment:
    """A piece of a document's text; its start, and the starts of its headings, count in the whole text."""

    text: str
    start: int = 0
    headings: tuple[Heading, ...] = ()


class Series[T](Protocol):
    """Values that can be gone through again and again; not necessarily in memory."""

    def __iter__(self) -> Iterator[T]: ...

    def __len__(self) -> int: ...


class KeptSeries[T](Series[T], Protocol):
    """A Series that may take up disk until it is closed."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class DocumentText:
    """All of a document's text, in segments; what the document is, and what it calls itself."""

    segments: KeptSeries[TextSegment]
    mime_type: str
    title: str = ""


@dataclass(frozen=True)
class ExtractedText:
    """A text, which offsets count in; what the document is; its headings in order.

    `title` is what the document calls itself, empty where it does not say.
    """

    text: str
    mime_type: str
    headings: tuple[Heading, ...] = ()
    title: str = ""


@dataclass(frozen=True)
class PreparedChunk:
    """A section with its context, what BM25 indexes of both, and the page it begins on, from 1; 0 where the
    document has no pages."""

    section: Section
    context: str
    lexical_text: str
    signature: bytes
    """Of the section's text, or its parent's; see groundline_signatures."""
    page: int = 0

    @property
    def embedded_text(self) -> str:
        return contextualized(self.section.text, self.context)


type Vectors = NDArray[np.float32] | NDArray[np.float16]


def contextualized(text: str, context: str) -> str:
    """What is embedded of a chunk."""
    return f"{context}\n\n{text}" if context else text


def has_pages(extraction: ExtractedText) -> bool:
    """Whether places in the text are on pages, or slides, that people would name."""
    return extraction.mime_type in _PAGED or PAGE_BREAK in extraction.text


def pages_at(text: str, positions: Iterable[int], before: int = 0) -> Iterator[int]:
    """The page of each position, in order: form feeds divide pages. `before`: those before the text."""
    page, at = before + 1, 0
    for position in positions:
        page += text.count(PAGE_BREAK, at, position)
        at = max(at, position)
        yield page


def table_heads_at(text: str, positions: Sequence[int], above: str = "") -> Iterator[str]:
    """For each position, in order, the first row of the Markdown table that it is within, empty where it is
    within none or in that row. `above`: that of the table that the text begins within."""
    begun = _ROWS.match(text) if above else None
    begin = begun.end() if begun else 0
    tables = _TABLE.finditer(text, begin)
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
    """The first row of the Markdown table that a text ends within, as far as shows before what follows."""
    begun = _ROWS.match(text) if above else None
    begin = begun.end() if begun else 0
    if begun and begin == len(text):
        return above
    last = next((table for table in _TABLE.finditer(text, begin) if table.end() == len(text)), None)
    return _head(last) if last is not None else ""


def _head(table: re.Match[str]) -> str:
    return table[1].strip()[:MAX_TABLE_HEAD_CHARACTERS]


MEMBER_MARK: Final = "!/"
"""Stands between the uri of a document and the name of a file within it, as in those of Java archives."""


def last_part(uri: str) -> str:
    """The last part of a path or URL, without a trailing slash, query and fragment where it has any."""
    container, _, path = uri.rpartition(MEMBER_MARK)
    if not container and "://" in uri:
        path = re.split(r"[?#]", uri, maxsplit=1)[0]
    return path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or uri


def heading_trails(headings: Sequence[Heading], positions: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """For each position the titles of the headings that enclose it, outermost first.

    A heading that begins at a position belongs to the text there and is not part of its own trail, but ends
    the sections before it that it does not sit in. Headings and positions are in the order of the text.
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
    """Of headings in the order of the text, those whose sections go on behind the last."""
    trail: list[Heading] = []
    for heading in headings:
        while trail and trail[-1].level >= heading.level:
            trail.pop()
        trail.append(heading)
    return tuple(trail)


def structural_context(title: str, uri: str, trail: Sequence[str]) -> str:
    """Title, uri and trail of headings, a line each, without saying anything twice.

    `uri` is empty for a document that was handed in without one.
    """
    names_itself = title == last_part(uri) or trail[:1] == (title,)
    return "\n".join(part for part in ("" if names_itself else title, uri, " > ".join(trail)) if part)
