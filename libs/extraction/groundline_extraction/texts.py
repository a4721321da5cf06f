"""Texts as they are read: their pieces and their headings."""

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from groundline.v1 import passage_pb2

from groundline_extraction.tables import PAGE_BREAK, TableRows

__all__ = [
    "MEMBER_MARK",
    "PAGE_BREAK",
    "ExtractedText",
    "Heading",
    "TextSegment",
    "TextStream",
    "has_pages",
    "is_paged",
    "last_part",
]

MEMBER_MARK: Final = "!/"
"""Separator of a document's uri and the name of a file within it, as in Java archives."""

_PAGED: Final = frozenset(
    {
        "application/pdf",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.oasis.opendocument.presentation",
    }
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of an extracted text: its level from 1, its plain title, and where it begins, in code
    points."""

    level: int
    title: str
    start: int


@dataclass(frozen=True, slots=True)
class TextSegment:
    """A piece of a document's text; its start, and the starts of its headings, count in the whole text.

    `pages`: where the lines of all pages are, as far as the format tells; they come with the last piece.
    `tables`: rows that were read since the last piece; their starts count in the whole text.
    """

    text: str
    start: int = 0
    headings: tuple[Heading, ...] = ()
    pages: tuple[passage_pb2.PageLines, ...] = ()
    tables: tuple[TableRows, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """A text, in which offsets count; its type; its headings in order.

    `title` is the document's own, "" if it has none.
    """

    text: str
    mime_type: str
    headings: tuple[Heading, ...] = ()
    title: str = ""


@dataclass(slots=True)
class TextStream:
    """A document's text as it is read. Type and title are certain when all of its segments are read."""

    segments: Generator[TextSegment]
    """Segments; close them if they are not read to the end."""
    mime_type: str
    title: str = ""


def has_pages(extraction: ExtractedText) -> bool:
    """Return whether places in the text are on pages, or slides, that people would name."""
    return is_paged(extraction.mime_type) or PAGE_BREAK in extraction.text


def is_paged(mime_type: str) -> bool:
    """Return whether documents of a type have pages, however few."""
    is_picture = mime_type.startswith("image/") and mime_type != "image/svg+xml"
    return is_picture or mime_type in _PAGED


def last_part(uri: str) -> str:
    """Return the last part of a path or URL, without a trailing slash, query and fragment."""
    container, _, path = uri.rpartition(MEMBER_MARK)
    if not container and "://" in uri:
        path = re.split(r"[?#]", uri, maxsplit=1)[0]
    return path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or uri
