"""Rows of chunks and texts, as they are copied into PostgreSQL."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import asyncpg
import numpy as np
from groundline.v1 import passage_pb2
from groundline_database import Connection
from groundline_database.codecs import enum_text
from groundline_extraction.texts import TextSegment
from groundline_lexical import TERMS, stored_terms
from pgvector import SparseVector

from groundline_indexing.documents import DocumentVersion, ReadyDocument
from groundline_indexing.injections import MARK, looks_injected, strings_of
from groundline_indexing.partitions import chunk_table
from groundline_indexing.revisions.segments import text_hash
from groundline_indexing.texts import PreparedChunk, Series

# A COPY of this many rows or characters into a live HNSW index takes about half a second, far below the
# statement's time limit.
COPY_ROWS: Final = 256
COPY_CHARACTERS: Final = 500_000


CHUNK_COLUMNS: Final = (
    "partition_id",
    "collection_id",
    "document_id",
    "chunk_index",
    "original_text",
    "context_annotation",
    "lexical_text",
    "lexical_terms",
    "embedding",
    "start_offset",
    "end_offset",
    "siblings_before",
    "siblings_after",
    "signature",
    "source_type",
    "metadata",
    "allowed_principals",
    "update_time",
)


_TEXT: Final = CHUNK_COLUMNS.index("original_text")


class Destination(NamedTuple):
    """A collection's partition, and the language that it is indexed in."""

    partition_id: int
    collection_id: str
    language: str


async def copy_chunks(
    connection: Connection,
    into: Destination,
    rows: Iterable[tuple[ReadyDocument, asyncpg.Record]],
    *,
    is_stored: Callable[[tuple[Any, ...]], bool] = lambda _: False,
) -> None:
    """Write the chunks of documents, each with its row of the table documents, but those that are stored
    already."""
    records = (
        record for new, row in rows for record in chunk_records(into, new, row) if not is_stored(record)
    )
    for batch in copied_together(records):
        await connection.copy_records_to_table(
            chunk_table(into.partition_id), records=batch, columns=CHUNK_COLUMNS
        )


async def copy_in_groups(
    connection: Connection,
    table: str,
    records: Iterable[tuple[Any, ...]],
    *,
    columns: Sequence[str],
    at_once: int,
) -> None:
    """Write large rows by COPYs of `at_once` rows each, which end within a statement's time limit. Each row
    is sent as it comes: a group of them is never held."""
    rows = iter(records)
    for first in rows:
        await connection.copy_records_to_table(
            table, records=chain((first,), islice(rows, at_once - 1)), columns=columns
        )


def copied_together(records: Iterable[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yield rows of CHUNK_COLUMNS in groups, each for one COPY."""
    group: list[tuple[Any, ...]] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record[_TEXT])
        if len(group) == COPY_ROWS or size >= COPY_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def text_parts(
    document_id: Any, segments: Series[TextSegment], pages: list[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of document_texts, without the table's defaults; add those of document_pages to `pages`."""
    for part, segment in enumerate(segments):
        pages.extend((document_id, page.starts[0], page.SerializeToString()) for page in segment.pages)
        headings = [[heading.level, heading.title, heading.start] for heading in segment.headings]
        yield document_id, part, segment.text, headings


def document_values(collection_id: str, new: ReadyDocument) -> dict[str, Any]:
    """Return what a document says of its row, by column. Reads the whole text."""
    version = new.version
    return {
        "collection_id": collection_id,
        "uri": version.uri,
        "source_type": enum_text(passage_pb2.SourceType, version.source_type),
        "title": version.title,
        "mime_type": version.mime_type,
        "content_hash": version.content_hash,
        "input_hash": version.input_hash,
        "ingestion_hash": version.ingestion_hash,
        "size_bytes": version.size_bytes,
        "metadata": version.metadata,
        "allowed_principals": list(version.allowed_principals),
        "text_hash": text_hash(segment.text for segment in new.segments),
    }


def chunk_records(
    into: Destination, new: ReadyDocument, document: asyncpg.Record | Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of CHUNK_COLUMNS; `document` has its id and update_time."""
    version = new.version
    source_type = enum_text(passage_pb2.SourceType, version.source_type)
    document_id = uuid.UUID(str(document["document_id"]))  # read once, not for each row
    is_marked = looks_injected(strings_of(version.title, version.uri, version.metadata))
    for index, (chunk, vector) in enumerate(zip(new.chunks, new.vectors, strict=True)):
        yield (
            into.partition_id,
            into.collection_id,
            document_id,
            index,
            chunk.section.text,
            chunk.context,
            chunk.lexical_text,
            SparseVector(stored_terms(chunk.lexical_text, into.language), TERMS),
            vector.astype(np.float16, copy=False),
            chunk.section.start,
            chunk.section.end,
            chunk.section.siblings_before,
            chunk.section.siblings_after,
            chunk.signature,
            source_type,
            _chunk_metadata(version, chunk, is_marked=is_marked or looks_injected(chunk.section.text)),
            version.allowed_principals,
            document["update_time"],
        )


def _chunk_metadata(version: DocumentVersion, chunk: PreparedChunk, *, is_marked: bool) -> dict[str, Any]:
    """Return a document's metadata with what is the chunk's own; a mark is not the document's to set."""
    pages = {} if "page" in version.metadata else chunk.page_metadata
    own = {name: value for name, value in version.metadata.items() if name != MARK}
    return {**pages, **own, **({MARK: True} if is_marked else {})}
