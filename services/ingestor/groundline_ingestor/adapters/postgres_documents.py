"""Documents and their chunks in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Iterable, Iterator, Sequence
from itertools import batched
from typing import Any, Final

import asyncpg
import numpy as np
from groundline_runtime.errors import AbortedError, NotFoundError

from groundline_ingestor.adapters.postgres import Connection, Pool, acquire, chunk_table, transaction
from groundline_ingestor.adapters.records import failure_json, read_failure
from groundline_ingestor.domain import (
    Chunk,
    Collection,
    Document,
    DocumentVersion,
    IngestionFailure,
    IngestionOutcome,
    IngestionState,
    SourceType,
    Vectors,
    content_hash,
)

__all__ = ["PostgresDocuments"]

# A COPY of this many rows into a live HNSW index takes about half a second, far below the statement's time
# limit.
COPY_ROWS: Final = 256

_COLUMNS: Final = (
    "document_id, collection_id, uri, source_type, title, mime_type, content_hash, ingestion_hash, "
    "size_bytes, metadata, allowed_principals, state, chunk_count, failure, create_time, update_time"
)
_CHUNK_COLUMNS: Final = (
    "partition_id",
    "document_id",
    "chunk_index",
    "original_text",
    "context_annotation",
    "lexical_text",
    "embedding",
    "start_offset",
    "end_offset",
    "content_hash",
    "source_type",
    "metadata",
    "allowed_principals",
    "update_time",
)


class PostgresDocuments:
    """Implements DocumentRepository."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, collection_id: str, document_id: str) -> Document | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM documents WHERE collection_id = $1 AND document_id = $2::uuid",
                collection_id,
                document_id,
            )
        return _document(row) if row else None

    async def list_readable(
        self, collection_id: str, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[Document]:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"""
                SELECT {_COLUMNS} FROM documents
                WHERE collection_id = $1 AND uri > $2
                  AND (allowed_principals = '{{}}' OR allowed_principals && $3::text[])
                ORDER BY uri LIMIT $4
                """,
                collection_id,
                after,
                list(principals),
                limit,
            )
        return [_document(row) for row in rows]

    async def replace(
        self, collection: Collection, version: DocumentVersion, chunks: Sequence[Chunk], vectors: Vectors
    ) -> tuple[str, IngestionOutcome]:
        table = chunk_table(collection.partition.partition_id)
        async with transaction(self._pool) as connection:
            await _hold(connection, collection)
            # The row that this writes is locked until the end, so that a second call for the uri waits here.
            row = await connection.fetchrow(
                """
                INSERT INTO documents
                    (collection_id, uri, source_type, title, mime_type, content_hash, ingestion_hash,
                     size_bytes, metadata, allowed_principals, state, chunk_count)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
                ON CONFLICT (collection_id, uri) DO UPDATE SET
                    source_type = excluded.source_type, title = excluded.title,
                    mime_type = excluded.mime_type, content_hash = excluded.content_hash,
                    ingestion_hash = excluded.ingestion_hash,
                    size_bytes = excluded.size_bytes, metadata = excluded.metadata,
                    allowed_principals = excluded.allowed_principals, state = excluded.state,
                    chunk_count = excluded.chunk_count, failure = NULL, update_time = clock_timestamp()
                RETURNING document_id, update_time, xmax = 0 AS is_new
                """,
                *_values(collection, version),
                IngestionState.DONE,
                len(chunks),
            )
            assert row is not None, "INSERT … DO UPDATE returns its row"
            if not row["is_new"]:
                await connection.execute(f"DELETE FROM {table} WHERE document_id = $1", row["document_id"])
            records = _chunk_records(collection, version, chunks, vectors, row)
            for batch in batched(records, COPY_ROWS):
                await connection.copy_records_to_table(table, records=batch, columns=_CHUNK_COLUMNS)
        outcome = IngestionOutcome.CREATED if row["is_new"] else IngestionOutcome.UPDATED
        return str(row["document_id"]), outcome

    async def refresh(
        self, collection: Collection, version: DocumentVersion
    ) -> tuple[str, IngestionOutcome] | None:
        async with transaction(self._pool) as connection:
            await _hold(connection, collection)
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM documents WHERE collection_id = $1 AND uri = $2 FOR UPDATE",
                collection.collection_id,
                version.uri,
            )
            if row is None or row["ingestion_hash"] != version.ingestion_hash:
                return None
            document = _document(row)
            unchanged = (
                document.metadata == version.metadata
                and document.allowed_principals == version.allowed_principals
            )
            if not unchanged:
                await _update_in_place(connection, collection, document.document_id, version)
            elif document.state is not IngestionState.DONE:
                await connection.execute(
                    "UPDATE documents SET state = $2, failure = NULL WHERE document_id = $1::uuid",
                    document.document_id,
                    IngestionState.DONE,
                )
        outcome = IngestionOutcome.UNCHANGED if unchanged else IngestionOutcome.UPDATED
        return document.document_id, outcome

    async def record_failure(
        self, collection: Collection, version: DocumentVersion, failure: IngestionFailure
    ) -> str:
        async with transaction(self._pool) as connection:
            await _hold(connection, collection)
            # An empty ingestion_hash equals none, so that the same content is tried again.
            document_id = await connection.fetchval(
                """
                INSERT INTO documents
                    (collection_id, uri, source_type, title, mime_type, content_hash, ingestion_hash,
                     size_bytes, metadata, allowed_principals, state, failure)
                VALUES ($1, $2, $3, $4, $5, $6, ''::bytea, $7, $8, $9, $10, $11)
                ON CONFLICT (collection_id, uri) DO UPDATE SET
                    state = excluded.state, failure = excluded.failure
                RETURNING document_id
                """,
                *(value for index, value in enumerate(_values(collection, version)) if index != 6),
                IngestionState.FAILED,
                failure_json(failure),
            )
        return str(document_id)

    async def delete(self, collection: Collection, document_id: str) -> bool:
        async with transaction(self._pool) as connection:
            await _hold(connection, collection)
            deleted = await connection.fetchval(
                "DELETE FROM documents WHERE collection_id = $1 AND document_id = $2::uuid RETURNING true",
                collection.collection_id,
                document_id,
            )
            if deleted is None:
                return False
            await connection.execute(
                f"DELETE FROM {chunk_table(collection.partition.partition_id)} WHERE document_id = $1::uuid",
                document_id,
            )
        return True


async def _hold(connection: Connection, collection: Collection) -> None:
    """Keep the collection and its partition in place until the transaction ends."""
    partition_id = await connection.fetchval(
        "SELECT partition_id FROM collections WHERE collection_id = $1 FOR SHARE", collection.collection_id
    )
    if partition_id is None:
        raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")
    if partition_id != collection.partition.partition_id:
        raise AbortedError("COLLECTION_CHANGED", "the collection was indexed again meanwhile; try again")


async def _update_in_place(
    connection: Connection, collection: Collection, document_id: str, version: DocumentVersion
) -> None:
    update_time = await connection.fetchval(
        """
        UPDATE documents SET metadata = $2, allowed_principals = $3, state = $4, failure = NULL,
                             update_time = clock_timestamp()
        WHERE document_id = $1::uuid RETURNING update_time
        """,
        document_id,
        version.metadata,
        list(version.allowed_principals),
        IngestionState.DONE,
    )
    await connection.execute(
        f"""
        UPDATE {chunk_table(collection.partition.partition_id)}
        SET metadata = $2, allowed_principals = $3, update_time = $4 WHERE document_id = $1::uuid
        """,
        document_id,
        version.metadata,
        list(version.allowed_principals),
        update_time,
    )


def _values(collection: Collection, version: DocumentVersion) -> tuple[Any, ...]:
    return (
        collection.collection_id,
        version.uri,
        version.source_type,
        version.title,
        version.mime_type,
        version.content_hash,
        version.ingestion_hash,
        version.size_bytes,
        version.metadata,
        list(version.allowed_principals),
    )


def _chunk_records(
    collection: Collection,
    version: DocumentVersion,
    chunks: Iterable[Chunk],
    vectors: Vectors,
    document: asyncpg.Record,
) -> Iterator[tuple[Any, ...]]:
    for index, (chunk, vector) in enumerate(zip(chunks, vectors.astype(np.float16, copy=False), strict=True)):
        yield (
            collection.partition.partition_id,
            document["document_id"],
            index,
            chunk.section.text,
            chunk.context,
            chunk.lexical_text,
            vector,
            chunk.section.start,
            chunk.section.end,
            content_hash(chunk.embedded_text),
            version.source_type,
            version.metadata,
            version.allowed_principals,
            document["update_time"],
        )


def _document(row: asyncpg.Record) -> Document:
    return Document(
        document_id=str(row["document_id"]),
        collection_id=row["collection_id"],
        uri=row["uri"],
        source_type=SourceType(row["source_type"]),
        title=row["title"],
        mime_type=row["mime_type"],
        content_hash=row["content_hash"],
        ingestion_hash=row["ingestion_hash"],
        size_bytes=row["size_bytes"],
        metadata=row["metadata"],
        allowed_principals=tuple(row["allowed_principals"]),
        state=IngestionState(row["state"]),
        chunk_count=row["chunk_count"],
        failure=read_failure(row["failure"]),
        create_time=row["create_time"],
        update_time=row["update_time"],
    )
