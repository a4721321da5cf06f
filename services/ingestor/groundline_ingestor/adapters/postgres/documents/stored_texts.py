"""Stored texts of documents, and what is known of these, as chunks are made of them."""

from collections import deque
from pathlib import Path
from typing import Any

import asyncpg
from groundline.v1 import passage_pb2
from groundline_database import Connection
from groundline_database.codecs import read_enum
from groundline_extraction.formats import is_markdown
from groundline_extraction.segments import HeadedCutter, kept_segments, known_headings
from groundline_extraction.spooling import Spool
from groundline_extraction.texts import Heading, TextSegment
from groundline_indexing.documents import DocumentVersion


def read_version(row: asyncpg.Record) -> DocumentVersion:
    """Return what a row of documents or of their revisions says, without the hash of its chunks, which the
    settings of now decide."""
    return DocumentVersion(
        uri=row["uri"],
        source_type=read_enum(passage_pb2.SourceType, row["source_type"]),
        title=row["title"],
        mime_type=row["mime_type"],
        content_hash=row["content_hash"],
        # Documents of releases that stored none are named by what was handed in.
        input_hash=row["input_hash"] or row["content_hash"],
        ingestion_hash=b"",
        size_bytes=row["size_bytes"],
        metadata=row["metadata"],
        allowed_principals=tuple(row["allowed_principals"]),
        container_uri=row["container_uri"],
    )


async def read_segments(
    connection: Connection,
    statement: str,
    *arguments: Any,
    mime_type: str,
    directory: Path | None,
    parts_at_once: int = 2,
) -> Spool[TextSegment]:
    """Return segments as they were cut when the document was ingested; the statement gives its text in parts
    of another cut, with the headings of each. The segments are the caller's to close. `parts_at_once`: number
    of parts that are held at a time."""
    headings: deque[Heading] = deque()
    cutter = HeadedCutter(is_markdown=is_markdown(mime_type), read_headings=known_headings(headings))
    segments = kept_segments(directory)
    try:
        cursor = await connection.cursor(statement, *arguments)
        while parts := await cursor.fetch(parts_at_once):
            headings.extend(Heading(*each) for part in parts for each in part["headings"] or ())
            # Joined first: the cutter copies what it holds with each piece.
            for segment in cutter.feed("".join(part["text"] for part in parts)):
                segments.append(segment)
        for segment in cutter.end():
            segments.append(segment)
    except BaseException:
        segments.close()
        raise
    return segments
