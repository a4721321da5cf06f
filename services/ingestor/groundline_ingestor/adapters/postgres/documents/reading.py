"""Documents and their chunks in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import asyncpg
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import document_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_contracts.times import timestamp
from groundline_database import (
    Connection,
    Pool,
    acquire,
    current_revision,
    is_readable_document,
    read_statements,
    transaction,
)
from groundline_database.codecs import read_enum
from groundline_filters import Columns, Filter, compile_sql
from groundline_indexing.collections import StoredCollection
from groundline_indexing.partitions import (
    chunk_table,
)
from groundline_indexing.vector_indexes import vector_index_state

from groundline_ingestor.adapters.postgres.collections import collection_changed, hold_collection
from groundline_ingestor.adapters.postgres.documents.deletion import delete_documents
from groundline_ingestor.adapters.postgres.records import read_failure
from groundline_ingestor.domain.documents import DocumentKey, DocumentOrder

_SQL: Final = read_statements(
    __name__,
    is_readable=is_readable_document("$2"),
    may_read=is_readable_document("$5", "d"),
    might_read=is_readable_document("$5", "r"),
)

# Time that a deletion's request_id is known, as the contract says.
KEPT_DELETIONS: Final = timedelta(days=7)

_COLUMNS: Final = (
    "document_id, collection_id, uri, source_type, title, mime_type, content_hash, ingestion_hash, "
    "size_bytes, metadata, allowed_principals, state, chunk_count, failure, create_time, update_time, "
    "has_original, container_uri, "
    f"CASE WHEN ingestion_hash <> ''::bytea THEN {current_revision('documents')} END AS revision"
)


class PostgresDocuments:
    """Documents as they are stored, to be read and deleted. Any method raises UnavailableError while the
    store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, collection_id: str, document_id: str) -> document_pb2.Document | None:
        """Return a document by its id, or None."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM documents WHERE collection_id = $1 AND document_id = $2::uuid",
                collection_id,
                document_id,
            )
        return _document(row) if row else None

    async def list_readable(
        self,
        collection_id: str,
        principals: Sequence[str],
        *,
        selection: Filter,
        order: DocumentOrder,
        after: DocumentKey | None,
        limit: int,
    ) -> Sequence[document_pb2.Document]:
        """Return the first `limit` documents behind `after` that a filter selects of those that one of the
        principals may read."""
        predicate, values = _selected(selection, principals)
        column, direction = order.field, "DESC" if order.is_descending else "ASC"
        if after is not None:
            at = len(values) + 2
            sign = "<" if order.is_descending else ">"
            predicate += f" AND ({column}, uri) {sign} (${at}, ${at + 1})"
            values += after
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"""
                SELECT {_COLUMNS} FROM documents WHERE collection_id = $1 AND {predicate}
                ORDER BY {column} {direction}, uri {direction} LIMIT ${len(values) + 2}
                """,
                collection_id,
                *values,
                limit,
            )
        return [_document(row) for row in rows]

    async def original(
        self, document: document_pb2.Document, principals: Sequence[str], *, part: int
    ) -> bytes | None:
        """Return a part, from 0, of the document as it was handed in, or as a replaced revision was; None
        behind the last, and for one that is no longer kept or that none of the principals may read any
        more."""
        async with acquire(self._pool) as connection:
            data: bytes | None = await connection.fetchval(
                _SQL["original"],
                document.collection_id,
                document.document_id,
                part,
                bytes.fromhex(document.content_hash),
                list(principals),
            )
        return data

    async def chunks(
        self,
        collection: StoredCollection,
        document_id: str,
        principals: Sequence[str],
        *,
        after: int,
        limit: int,
    ) -> Sequence[passage_pb2.Chunk]:
        """Return the first `limit` chunks above the index `after`; none of a document that none of the
        principals may read. Raises AbortedError when the collection's partition was dropped."""
        try:
            async with acquire(self._pool) as connection:
                rows = await connection.fetch(
                    f"""
                    SELECT c.*, d.title, d.uri, d.mime_type, d.has_original,
                           {current_revision("d")} AS revision
                    FROM (
                        SELECT chunk_id, document_id, chunk_index, original_text, context_annotation,
                               source_type, start_offset, end_offset, metadata, update_time
                        FROM {chunk_table(collection.partition_id)}
                        WHERE document_id = $2::uuid AND chunk_index > $3
                    ) c JOIN documents d USING (document_id)
                    WHERE d.collection_id = $1 AND {is_readable_document("$4", "d")}
                    ORDER BY c.chunk_index LIMIT $5
                    """,
                    collection.collection_id,
                    document_id,
                    after,
                    list(principals),
                    limit,
                )
        except asyncpg.UndefinedTableError:
            raise collection_changed() from None
        return [_chunk(collection.collection_id, row) for row in rows]

    async def delete(self, collection: StoredCollection, document_id: str) -> bool:
        """Delete a document with its chunks and those within it, and cancel their unfinished items, in one
        transaction; return False if it was deleted already."""
        async with transaction(self._pool) as connection:
            await hold_collection(connection, collection)
            predicate = "document_id = $2::uuid"
            count = await delete_documents(connection, collection.collection_id, predicate, [document_id])
        return count > 0

    async def count_selected(
        self, collection: StoredCollection, selection: Filter, principals: Sequence[str]
    ) -> int:
        """Count the documents that a filter selects of those that one of the principals may read, with all
        that are within them."""
        predicate, values = _selected(selection, principals)
        async with acquire(self._pool) as connection:
            count: int = await connection.fetchval(
                f"""
                WITH RECURSIVE selected AS (
                    SELECT uri FROM documents WHERE collection_id = $1 AND {predicate}
                    UNION
                    SELECT d.uri FROM documents d JOIN selected s ON d.container_uri = s.uri
                    WHERE d.collection_id = $1 AND d.container_uri <> ''
                )
                SELECT count(*) FROM selected
                """,
                collection.collection_id,
                *values,
            )
        return count

    async def delete_selected(
        self, collection: StoredCollection, selection: Filter, principals: Sequence[str], request_id: str
    ) -> int:
        """Delete all documents that a filter selects of those that one of the principals may read, as
        `delete` does.

        Returns their number; a known `request_id` gets it again, with nothing done.
        """
        key = (collection.collection_id, request_id)
        async with transaction(self._pool) as connection:
            await hold_collection(connection, collection)
            if request_id and (earlier := await _begin_deletion(connection, *key)) is not None:
                return earlier
            count = await delete_documents(
                connection, collection.collection_id, *_selected(selection, principals)
            )
            if request_id:
                await connection.execute(
                    "UPDATE document_deletions SET deleted_count = $3 "
                    "WHERE collection_id = $1 AND request_id = $2",
                    *key,
                    count,
                )
        return count

    async def stats(self, collection: StoredCollection, principals: Sequence[str]) -> pb.CollectionStats:
        """Return figures of the documents that one of the principals may read. Raises AbortedError when the
        partition was dropped."""
        mine = collection.collection_id, list(principals)
        async with acquire(self._pool) as connection:
            states = await connection.fetch(_SQL["states"], *mine)
            sizes = await connection.fetchrow(_SQL["sizes"], *mine)
            assert sizes is not None, "aggregates have a row"
            try:
                chunks, vector_index = await _chunk_figures(connection, collection.partition_id, mine)
            except asyncpg.UndefinedTableError:
                raise collection_changed() from None
        counts = {read_enum(document_pb2.IngestionState, row["state"]): row["count"] for row in states}
        return pb.CollectionStats(
            states=[pb.StateCount(state=state, document_count=counts[state]) for state in sorted(counts)],
            chunk_count=chunks["chunks"],
            vector_count=chunks["vectors"],
            orphan_count=chunks["orphans"],
            document_bytes=sizes["bytes"],
            text_bytes=chunks["bytes"],
            storage_bytes=chunks["storage"],
            token_count=sizes["tokens"],
            vector_index=vector_index,
        )


async def _chunk_figures(
    connection: Connection, partition_id: int, mine: tuple[str, Sequence[str]]
) -> tuple[asyncpg.Record, pb.VectorIndexState.ValueType]:
    """Return figures of a collection's readable chunks, with their share of the storage, and the state of the
    vector index; `mine` are the collection's id and the principals."""
    is_shared = await connection.fetchval(
        "SELECT collection_id IS NULL FROM chunk_partitions WHERE partition_id = $1", partition_id
    )
    table, readable = chunk_table(partition_id), is_readable_document("$2")
    # The rows of a shared partition are PostgreSQL's last count, an estimate.
    chunks = await connection.fetchrow(
        f"""
        SELECT count(*) AS stored, count(*) FILTER (WHERE {readable}) AS chunks,
               count(embedding) FILTER (WHERE {readable}) AS vectors,
               coalesce(sum(octet_length(original_text)) FILTER (WHERE {readable}), 0)::bigint AS bytes,
               count(*) FILTER (WHERE {readable} AND NOT EXISTS (
                   SELECT FROM documents d WHERE d.document_id = c.document_id
               )) AS orphans,
               (pg_total_relation_size('{table}'::regclass) * CASE
                   WHEN count(*) = 0 AND NOT $3 THEN 1
                   ELSE count(*) FILTER (WHERE {readable}) / greatest(1, count(*), CASE WHEN $3 THEN (
                       SELECT reltuples::float8 FROM pg_class WHERE oid = '{table}'::regclass
                   ) END)
               END)::bigint AS storage
        FROM {table} c WHERE NOT $3 OR collection_id = $1
        """,
        *mine,
        is_shared,
    )
    assert chunks is not None, "aggregates have a row"
    if is_shared:  # few chunks, which are searched exactly
        return chunks, pb.VECTOR_INDEX_STATE_NONE
    return chunks, await vector_index_state(connection, partition_id, chunks["stored"])


def _selected(selection: Filter, principals: Sequence[str]) -> tuple[str, list[Any]]:
    """Return a condition on documents, and its values from $2 on."""
    condition = compile_sql(selection, Columns(), first_parameter=3)
    return f"{is_readable_document('$2')} AND ({condition.text})", [list(principals), *condition.arguments]


async def _begin_deletion(connection: Connection, collection_id: str, request_id: str) -> int | None:
    """Return the result of an earlier request with this id; a second one at the same time waits for the
    first."""
    await connection.execute(
        "DELETE FROM document_deletions WHERE collection_id = $1 AND create_time < now() - $2::interval",
        collection_id,
        KEPT_DELETIONS,
    )
    is_new = await connection.fetchval(
        "INSERT INTO document_deletions (collection_id, request_id, deleted_count) VALUES ($1, $2, 0) "
        "ON CONFLICT DO NOTHING RETURNING true",
        collection_id,
        request_id,
    )
    if is_new:
        return None
    earlier: int | None = await connection.fetchval(
        "SELECT deleted_count FROM document_deletions WHERE collection_id = $1 AND request_id = $2",
        collection_id,
        request_id,
    )
    return earlier


def _chunk(collection_id: str, row: asyncpg.Record) -> passage_pb2.Chunk:
    metadata = Struct()
    metadata.update(row["metadata"])
    return passage_pb2.Chunk(
        chunk_id=str(row["chunk_id"]),
        document_id=str(row["document_id"]),
        collection_id=collection_id,
        chunk_index=row["chunk_index"],
        text=row["original_text"],
        context=row["context_annotation"],
        title=row["title"],
        uri=row["uri"],
        source_type=read_enum(passage_pb2.SourceType, row["source_type"]),
        mime_type=row["mime_type"],
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        metadata=metadata,
        update_time=timestamp(row["update_time"]),
        has_original=row["has_original"],
        revision=row["revision"],
    )


def _document(row: asyncpg.Record) -> document_pb2.Document:
    metadata = Struct()
    metadata.update(row["metadata"])
    return document_pb2.Document(
        document_id=str(row["document_id"]),
        collection_id=row["collection_id"],
        uri=row["uri"],
        source_type=read_enum(passage_pb2.SourceType, row["source_type"]),
        title=row["title"],
        mime_type=row["mime_type"],
        content_hash=row["content_hash"].hex(),
        size_bytes=row["size_bytes"],
        metadata=metadata,
        allowed_principals=row["allowed_principals"],
        state=read_enum(document_pb2.IngestionState, row["state"]),
        chunk_count=row["chunk_count"],
        failure=read_failure(row["failure"]),
        create_time=timestamp(row["create_time"]),
        update_time=timestamp(row["update_time"]),
        has_original=row["has_original"],
        container_uri=row["container_uri"],
        revision=row["revision"] or "",
    )
