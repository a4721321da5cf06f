"""Documents and their chunks in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import asyncpg
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import document_pb2, job_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import (
    Connection,
    Pool,
    acquire,
    is_readable_document,
    is_replaceable_document,
    read_statements,
    transaction,
)
from groundline_database.enums import read_enum
from groundline_filters import Columns, Filter, compile_sql
from groundline_indexing.chunks import copy_chunks, document_values, text_parts
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion
from groundline_indexing.partitions import (
    chunk_table,
    has_moved,
    is_outgrown,
    move_collection,
)
from groundline_indexing.vector_indexes import vector_index_state
from groundline_lexical import LexicalIndex
from groundline_runtime.errors import AbortedError, NotFoundError, PermissionDeniedError

from groundline_ingestor.adapters.postgres.deletion import WITHIN, delete_documents
from groundline_ingestor.adapters.postgres.items import finish_items
from groundline_ingestor.adapters.postgres.members import replace_members
from groundline_ingestor.adapters.postgres.records import read_failure
from groundline_ingestor.domain.documents import DocumentKey, DocumentOrder, TextPart
from groundline_ingestor.domain.times import timestamp
from groundline_ingestor.domain.work import ItemClaim, NewVersion
from groundline_ingestor.ports import StoredOutcome

__all__ = [
    "PostgresDocuments",
    "hold_collection",
    "not_writable",
]

_SQL: Final = read_statements(
    __name__,
    is_readable=is_readable_document("$3", "d"),
    is_replaceable=is_replaceable_document("$15", "documents", container="$12"),
)
_TEXT: Final = _SQL["text"]
_UPSERT: Final = _SQL["upsert"]
_KEEP_ORIGINALS: Final = _SQL["keep_originals"]

MAX_OFFSET: Final = 2**31 - 1
# Time that a deletion's request_id is known, as the contract says.
KEPT_DELETIONS: Final = timedelta(days=7)

_CREATED: Final = job_pb2.INGESTION_OUTCOME_CREATED
_UPDATED: Final = job_pb2.INGESTION_OUTCOME_UPDATED
_UNCHANGED: Final = job_pb2.INGESTION_OUTCOME_UNCHANGED

_COLUMNS: Final = (
    "document_id, collection_id, uri, source_type, title, mime_type, content_hash, ingestion_hash, "
    "size_bytes, metadata, allowed_principals, state, chunk_count, failure, create_time, update_time, "
    "has_original, container_uri"
)
_REFRESHABLE: Final = is_replaceable_document("$3", "d", container="$4")


class PostgresDocuments:
    """Store of documents and their chunks. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical

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

    async def text(
        self, collection_id: str, document_id: str, principals: Sequence[str], *, start: int, limit: int
    ) -> TextPart:
        """Return at most `limit` characters of the extracted text; "" for a missing document, or one that
        none of the principals may read."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                _TEXT,
                collection_id,
                document_id,
                list(principals),
                start,
                min(start + limit, MAX_OFFSET),
            )
        assert row is not None, "aggregates have a row"
        return TextPart(row["text"], row["size"])

    async def original(
        self, document: document_pb2.Document, principals: Sequence[str], *, part: int
    ) -> bytes | None:
        """Return a part, from 0, of the document as it was handed in; None behind the last, and for a
        document that has changed or that none of the principals may read any more."""
        async with acquire(self._pool) as connection:
            data: bytes | None = await connection.fetchval(
                f"""
                SELECT o.data FROM document_originals o JOIN documents d USING (document_id)
                WHERE d.collection_id = $1 AND document_id = $2::uuid AND o.part = $3 AND d.content_hash = $4
                  AND {is_readable_document("$5", "d")}
                """,
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
                    SELECT c.*, d.title, d.uri, d.mime_type, d.has_original
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
            raise _changed() from None
        return [_chunk(collection.collection_id, row) for row in rows]

    async def store(
        self, collection: StoredCollection, versions: Sequence[NewVersion]
    ) -> Sequence[StoredOutcome]:
        """Store documents of different uris and their chunks in place of earlier ones, and end their items,
        all in one transaction.

        Returns of each whether it is new. Two calls for one uri happen one after the other. Files found
        within a document become items of its job; those that it no longer has are deleted, and all others get
        its principals at once. Raises ClaimLostError, NotFoundError when the collection was deleted,
        AbortedError when its partition is no longer the one given, PermissionDeniedError
        (DOCUMENT_NOT_WRITABLE) when a uri holds a document that none of its new version's principals may
        read.
        """
        await self._make_room(collection.collection_id, [len(new.chunks) for new in versions])
        async with transaction(self._pool) as connection:
            partition_id = await hold_collection(connection, collection)
            rows = await _upsert(connection, collection, versions)
            stored: dict[str, StoredOutcome] = {
                new.version.uri: (str(row["document_id"]), _CREATED if row["is_new"] else _UPDATED)
                for new, row in rows
            }
            replaced = [row["document_id"] for _, row in rows if not row["is_inserted"]]
            if replaced:
                await connection.execute(
                    f"""
                    WITH chunks AS (
                        DELETE FROM {chunk_table(partition_id)} WHERE document_id = ANY($1::uuid[])
                    ), texts AS (
                        DELETE FROM document_texts WHERE document_id = ANY($1::uuid[])
                    )
                    DELETE FROM document_originals WHERE document_id = ANY($1::uuid[])
                    """,
                    replaced,
                )
            await copy_chunks(connection, partition_id, collection.collection_id, rows)
            # COPY sends one segment after the other, executemany() would hold all of them.
            await connection.copy_records_to_table(
                "document_texts",
                records=(part for new, row in rows for part in text_parts(row["document_id"], new.segments)),
                columns=("document_id", "part", "text", "headings"),
            )
            if collection.settings.keep_originals:
                await _keep_originals(connection, [(row["document_id"], new.claim) for new, row in rows])
            await replace_members(
                connection,
                collection,
                partition_id,
                versions,
                replaced=[new.version.uri for new, row in rows if not row["is_new"]],
            )
            await finish_items(
                connection,
                [(new.claim, stored[new.version.uri], len(new.chunks)) for new, _ in rows if new.claim],
            )
        return [stored[new.version.uri] for new in versions]

    async def _make_room(self, collection_id: str, added: Sequence[int]) -> None:
        """Move a collection before it outgrows a shared partition."""
        async with acquire(self._pool) as connection:
            if await is_outgrown(connection, collection_id, added):
                async with connection.transaction():
                    await move_collection(connection, self._lexical, collection_id)

    async def refresh(
        self,
        collection: StoredCollection,
        version: DocumentVersion,
        principals: Sequence[str],
        claim: ItemClaim | None = None,
    ) -> StoredOutcome | None:
        """Update metadata and principals if the stored chunks are already those of the version, and end the
        item.

        Its outcome is updated or unchanged; None, with nothing done, when the stored document has another
        ingestion_hash, or documents within it are unfinished or would have to change as well. Raises as
        `store` does.
        """
        async with transaction(self._pool) as connection:
            partition_id = await hold_collection(connection, collection)
            row = await connection.fetchrow(
                f"""
                SELECT {_COLUMNS}, {_REFRESHABLE} AS is_replaceable
                FROM documents d WHERE collection_id = $1 AND uri = $2 FOR UPDATE
                """,
                collection.collection_id,
                version.uri,
                list(principals),
                version.container_uri,
            )
            if row is None:
                return None
            if not row["is_replaceable"]:
                raise not_writable(version)
            if row["ingestion_hash"] != version.ingestion_hash:
                return None
            document_id = str(row["document_id"])
            unchanged = (row["metadata"], row["allowed_principals"], row["container_uri"]) == (
                version.metadata,
                list(version.allowed_principals),
                version.container_uri,
            )
            # Those within one that is itself within another are examined with that.
            if not version.container_uri and not await _are_members_done(
                connection, collection.collection_id, version.uri, unchanged=unchanged
            ):
                return None
            if not unchanged:
                await _update_in_place(connection, partition_id, document_id, version)
            elif row["state"] != "done":
                await connection.execute(
                    "UPDATE documents SET state = 'done', failure = NULL WHERE document_id = $1::uuid",
                    document_id,
                )
            if collection.settings.keep_originals and not row["has_original"]:
                await _keep_originals(connection, [(row["document_id"], claim)])
            outcome = _UNCHANGED if unchanged else _UPDATED
            if claim:
                await finish_items(connection, [(claim, (document_id, outcome), 0)])
        return document_id, outcome

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
        try:
            return await self._stats(collection, principals)
        except asyncpg.UndefinedTableError:
            raise _changed() from None

    async def _stats(self, collection: StoredCollection, principals: Sequence[str]) -> pb.CollectionStats:
        table = chunk_table(collection.partition_id)
        readable = is_readable_document("$2")
        async with acquire(self._pool) as connection:
            is_shared = await connection.fetchval(
                "SELECT collection_id IS NULL FROM chunk_partitions WHERE partition_id = $1",
                collection.partition_id,
            )
            # The readable chunks' share of it; in a shared partition by the number of rows that PostgreSQL
            # last counted.
            rows = "count(*)"
            if is_shared:
                last = f"(SELECT reltuples FROM pg_class WHERE oid = '{table}'::regclass)"
                rows = f"greatest({last}, count(*))"
            storage = f"pg_total_relation_size('{table}'::regclass)"
            mine = [collection.collection_id, list(principals)]
            states = await connection.fetch(
                f"SELECT state, count(*) FROM documents WHERE collection_id = $1 AND {readable} GROUP BY 1",
                *mine,
            )
            sizes = await connection.fetchrow(
                f"""
                SELECT coalesce(sum(size_bytes), 0)::bigint AS bytes, coalesce(sum(token_count), 0) AS tokens
                FROM documents WHERE collection_id = $1 AND chunk_count > 0 AND {readable}
                """,
                *mine,
            )
            chunks = await connection.fetchrow(
                f"""
                SELECT count(*) AS stored, count(*) FILTER (WHERE {readable}) AS chunks,
                       count(embedding) FILTER (WHERE {readable}) AS vectors,
                       coalesce(sum(octet_length(original_text)) FILTER (WHERE {readable}), 0)::bigint
                           AS bytes,
                       count(*) FILTER (WHERE {readable} AND NOT EXISTS (
                           SELECT FROM documents d WHERE d.document_id = c.document_id
                       )) AS orphans,
                       ({storage} * CASE WHEN count(*) = 0 AND NOT $3 THEN 1
                           ELSE count(*) FILTER (WHERE {readable}) / greatest({rows}, 1)::float8
                       END)::bigint AS storage
                FROM {table} c WHERE NOT $3 OR collection_id = $1
                """,
                *mine,
                is_shared,
            )
            assert sizes is not None, "aggregates have a row"
            assert chunks is not None, "aggregates have a row"
            # Few of a shared partition are searched exactly.
            vector_index = (
                pb.VECTOR_INDEX_STATE_NONE
                if is_shared
                else await vector_index_state(connection, collection.partition_id, chunks["stored"])
            )
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


async def hold_collection(connection: Connection, collection: StoredCollection) -> int:
    """Keep the collection in its partition until the transaction ends; return the partition's id.

    It may have moved since it was looked up, which changes no chunk. Raises NotFoundError, and AbortedError
    when it was indexed again.
    """
    partition_id: int | None = await connection.fetchval(
        "SELECT partition_id FROM collections WHERE collection_id = $1 FOR SHARE", collection.collection_id
    )
    if partition_id is None:
        raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")
    if partition_id != collection.partition_id and not await has_moved(
        connection, collection.collection_id, collection.partition_id, partition_id
    ):
        raise _changed()
    return partition_id


def _changed() -> AbortedError:
    return AbortedError("COLLECTION_CHANGED", "the collection was indexed again meanwhile; try again")


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


async def _are_members_done(connection: Connection, collection_id: str, uri: str, *, unchanged: bool) -> bool:
    """Tell whether a document has none within it, or all of them are done and it is unchanged."""
    undone: bool | None = await connection.fetchval(
        f"{WITHIN} SELECT bool_or(state <> 'done') FROM within", collection_id, [uri]
    )
    return undone is None or (unchanged and not undone)


async def _upsert(
    connection: Connection, collection: StoredCollection, versions: Sequence[NewVersion]
) -> Sequence[tuple[NewVersion, asyncpg.Record]]:
    """Write the documents' rows, which stay locked until the end: a second call for a uri waits here."""
    # Sorted, so that two groups with documents in common wait for each other but never both.
    ordered = sorted(versions, key=lambda new: new.version.uri)
    rows = await connection.fetchmany(
        _UPSERT,
        [
            (
                *document_values(collection.collection_id, new.version),
                new.version.container_uri,
                len(new.chunks),
                new.token_count,
                list(new.principals),
            )
            for new in ordered
        ],
    )
    written = {row["uri"]: row for row in rows}
    for new in ordered:
        if new.version.uri not in written:
            raise not_writable(new.version)
    return [(new, written[new.version.uri]) for new in ordered]


async def _keep_originals(connection: Connection, documents: Sequence[tuple[Any, ItemClaim | None]]) -> None:
    """Copy the contents of the claimed items, which are deleted when these end."""
    claimed = [(document_id, claim) for document_id, claim in documents if claim]
    await connection.execute(
        _KEEP_ORIGINALS,
        [document_id for document_id, _ in claimed],
        [claim.job_id for _, claim in claimed],
        [claim.item_index for _, claim in claimed],
    )


def not_writable(version: DocumentVersion) -> PermissionDeniedError:
    """Return the error of a caller that must not replace the document of a uri."""
    return PermissionDeniedError(
        "DOCUMENT_NOT_WRITABLE",
        f"there is a document {version.uri!r} that the caller may not read, so it cannot be replaced",
    )


async def _update_in_place(
    connection: Connection, partition_id: int, document_id: str, version: DocumentVersion
) -> None:
    updated = await connection.fetchrow(
        """
        UPDATE documents SET metadata = $2, allowed_principals = $3, container_uri = $4, state = 'done',
                             failure = NULL, version = version + 1, update_time = clock_timestamp()
        WHERE document_id = $1::uuid
        RETURNING update_time,
                  (SELECT earlier.metadata ? 'page' FROM documents AS earlier
                   WHERE earlier.document_id = documents.document_id) AS page_was_given
        """,
        document_id,
        version.metadata,
        list(version.allowed_principals),
        version.container_uri,
    )
    assert updated is not None, "the document is locked"
    # The page of a chunk is its own, unless the document has metadata of that name.
    await connection.execute(
        f"""
        UPDATE {chunk_table(partition_id)}
        SET metadata = CASE WHEN $5 OR NOT metadata ? 'page' THEN $2
                            ELSE jsonb_build_object('page', metadata -> 'page') || $2 END,
            allowed_principals = $3, update_time = $4
        WHERE document_id = $1::uuid
        """,
        document_id,
        version.metadata,
        list(version.allowed_principals),
        updated["update_time"],
        updated["page_was_given"],
    )


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
    )
