"""Stored texts of documents, as chunks are made of them."""

from collections import deque
from pathlib import Path
from typing import Any

from groundline_database import Connection
from groundline_extraction.formats import is_markdown
from groundline_extraction.segments import HeadedCutter, kept_segments, known_headings
from groundline_extraction.spooling import Spool
from groundline_extraction.texts import Heading, TextSegment

__all__ = ["read_segments"]


async def read_segments(
    connection: Connection, statement: str, *arguments: Any, mime_type: str, directory: Path | None
) -> Spool[TextSegment]:
    """Return segments as they were cut when the document was ingested; the statement gives its text in parts
    of another cut, with the headings of each. The segments are the caller's to close."""
    headings: deque[Heading] = deque()
    cutter = HeadedCutter(is_markdown=is_markdown(mime_type), read_headings=known_headings(headings))
    segments = kept_segments(directory)
    try:
        async for part in connection.cursor(statement, *arguments, prefetch=2):
            headings.extend(Heading(*heading) for heading in part["headings"] or ())
            for segment in cutter.feed(part["text"]):
                segments.append(segment)
        for segment in cutter.end():
            segments.append(segment)
    except BaseException:
        segments.close()
        raise
    return segments
