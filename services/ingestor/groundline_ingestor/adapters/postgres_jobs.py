"""Ingestion jobs in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import asyncpg
from groundline_database import (
    Connection,
    Pool,
    acquire,
    is_readable_collection,
    is_readable_document,
    transaction,
)
from groundline_runtime.errors import NotFoundError

from groundline_ingestor.adapters.postgres_items import PENDING
from groundline_ingestor.adapters.records import input_json, read_failure
from groundline_ingestor.domain import (
    ChunkCounts,
    Collection,
    FileContent,
    IngestionOutcome,
    IngestionState,
    Item,
    Job,
    JobState,
    Usage,
)
from groundline_ingestor.ports import HandedIn

__all__ = ["PostgresJobs", "payload_parts"]

# The state of an ingestion follows from its items, so that no two workers contend for its row.
_SELECT = """
    SELECT j.job_id, j.collection_id, j.create_time, coalesce(n.first_start_time, j.start_time) AS start_time,
           CASE WHEN j.kind = 'reindex' OR n.item_count + n.pending_count = 0 THEN j.end_time
                WHEN n.pending_count = 0 THEN coalesce(n.last_end_time, j.end_time) END AS end_time,
           CASE WHEN j.kind = 'reindex' AND j.end_time IS NOT NULL THEN j.state
                WHEN n.begun_count = 0 AND (n.pending_count > 0 OR j.kind = 'reindex') THEN 'queued'
                WHEN n.pending_count > 0 OR j.kind = 'reindex' THEN 'running'
                WHEN j.cancel_time IS NOT NULL AND n.cancelled_count > 0 THEN 'cancelled'
                WHEN n.done_count > 0 OR n.item_count = 0 THEN 'done'
                WHEN n.failed_count > 0 THEN 'failed'
                ELSE 'cancelled' END AS state,
           n.*
    FROM ingestion_jobs j
    JOIN collections c USING (collection_id)
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE i.crawl IS NULL OR i.state IN ('failed', 'cancelled')) AS item_count,
               count(*) FILTER (WHERE i.state NOT IN ('done', 'failed', 'cancelled')) AS pending_count,
               count(*) FILTER (WHERE i.attempts > 0) AS begun_count,
               min(i.start_time) AS first_start_time,
               max(i.end_time) AS last_end_time,
               count(*) FILTER (WHERE i.state = 'done' AND i.crawl IS NULL) AS done_count,
               count(*) FILTER (WHERE i.outcome = 'unchanged') AS unchanged_count,
               count(*) FILTER (WHERE i.state = 'failed') AS failed_count,
               count(*) FILTER (WHERE i.state = 'cancelled') AS cancelled_count,
               coalesce(sum(i.parsed_count), 0) AS parsed_count,
               coalesce(sum(i.contextualized_count), 0) AS contextualized_count,
               coalesce(sum(i.embedded_count), 0) AS embedded_count,
               coalesce(sum(i.stored_count), 0) AS stored_count,
               coalesce(sum(i.prompt_tokens), 0) AS prompt_tokens,
               coalesce(sum(i.cached_tokens), 0) AS cached_tokens,
               coalesce(sum(i.output_tokens), 0) AS output_tokens
        FROM ingestion_items i WHERE i.job_id = j.job_id
    ) n
"""
_READABLE_ITEM = f"""
    ($2::text[] IS NULL OR d.document_id IS NULL OR {is_readable_document("$2", "d")})
"""
# Bytes of content in one row.
PAYLOAD_PART: Final = 1 << 20


class PostgresJobs:
    """Implements JobRepository."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def enqueue(self, collection: Collection, handed_in: Sequence[HandedIn], request_id: str) -> Job:
        job_id = str(uuid.uuid4())
        try:
            async with transaction(self._pool) as connection:
                inserted = await connection.fetchval(
                    """
                    INSERT INTO ingestion_jobs (job_id, collection_id, state, request_id)
                    VALUES ($1::uuid, $2, 'queued', nullif($3, ''))
                    ON CONFLICT (collection_id, request_id) DO NOTHING RETURNING true
                    """,
                    job_id,
                    collection.collection_id,
                    request_id,
                )
                if inserted:
                    await self.insert_documents(connection, collection, handed_in)
                    await self._insert_items(connection, collection, job_id, handed_in)
        except asyncpg.ForeignKeyViolationError:
            raise _collection_gone(collection) from None
        stored = (
            await self.find(job_id)
            if inserted
            else await self.find_by_request_id(collection.collection_id, request_id)
        )
        if stored is None:
            raise _collection_gone(collection)
        return stored

    async def find(self, job_id: str) -> Job | None:
        return await self._find("j.job_id = $1::uuid", job_id)

    async def find_by_request_id(self, collection_id: str, request_id: str) -> Job | None:
        return await self._find("j.collection_id = $1 AND j.request_id = $2", collection_id, request_id)

    async def items(
        self,
        job_id: str,
        principals: Sequence[str] | None,
        *,
        after: int,
        limit: int,
        only_failed: bool = False,
    ) -> Sequence[Item]:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"""
                SELECT i.* FROM ingestion_items i LEFT JOIN documents d USING (document_id)
                WHERE i.job_id = $1::uuid AND {_READABLE_ITEM} AND i.item_index > $3
                  AND (NOT $5 OR i.state = 'failed')
                ORDER BY i.item_index LIMIT $4
                """,
                job_id,
                None if principals is None else list(principals),
                after,
                limit,
                only_failed,
            )
        return [_item(row) for row in rows]

    async def changed_items(
        self, job_id: str, principals: Sequence[str], *, within_seconds: float, limit: int
    ) -> Sequence[Item]:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"""
                SELECT i.* FROM ingestion_items i LEFT JOIN documents d USING (document_id)
                WHERE i.job_id = $1::uuid AND {_READABLE_ITEM}
                  AND i.change_time > clock_timestamp() - make_interval(secs => $3)
                ORDER BY i.item_index LIMIT $4
                """,
                job_id,
                list(principals),
                within_seconds,
                limit,
            )
        return [_item(row) for row in rows]

    async def list_readable(
        self,
        principals: Sequence[str],
        *,
        collection_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> Sequence[Job]:
        before_time, before_id = before or (None, None)
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"""
                {_SELECT}
                WHERE {is_readable_collection("$1", "c")}
                  AND ($2::text IS NULL OR j.collection_id = $2)
                  AND ($3::timestamptz IS NULL OR (j.create_time, j.job_id) < ($3, $4::uuid))
                ORDER BY j.create_time DESC, j.job_id DESC LIMIT $5
                """,
                list(principals),
                collection_id,
                before_time,
                before_id,
                limit,
            )
        return [_job(row) for row in rows]

    async def cancel(self, job_id: str) -> None:
        async with transaction(self._pool) as connection:
            # Its crawl adds no page from here on, so that the next statement sees all there are.
            await connection.execute(
                "SELECT FROM ingestion_items WHERE job_id = $1::uuid AND crawl IS NOT NULL FOR UPDATE", job_id
            )
            await connection.execute(
                f"""
                UPDATE ingestion_items
                SET state = 'cancelled', lease_id = NULL, lease_until = NULL,
                    change_time = clock_timestamp(), end_time = clock_timestamp()
                WHERE (job_id, item_index) IN (
                    SELECT job_id, item_index FROM ingestion_items
                    WHERE job_id = $1::uuid AND {PENDING} ORDER BY item_index FOR UPDATE
                )
                """,
                job_id,
            )
            await connection.execute(
                """
                UPDATE ingestion_jobs
                SET cancel_time = coalesce(cancel_time, now()),
                    state = CASE WHEN kind = 'reindex' AND end_time IS NULL THEN 'cancelled' ELSE state END,
                    end_time = CASE WHEN kind = 'reindex' THEN coalesce(end_time, now()) ELSE end_time END
                WHERE job_id = $1::uuid AND (kind = 'ingest' OR end_time IS NULL)
                """,
                job_id,
            )
            # Documents being stored are locked; their transactions end by themselves.
            await connection.execute(
                """
                UPDATE documents SET state = 'cancelled' WHERE document_id IN (
                    SELECT d.document_id FROM documents d JOIN ingestion_items i USING (document_id)
                    JOIN ingestion_jobs j USING (job_id)
                    WHERE i.job_id = $1::uuid AND i.state = 'cancelled' AND j.kind = 'ingest'
                      AND d.state NOT IN ('done', 'failed', 'cancelled')
                    FOR UPDATE OF d SKIP LOCKED
                )
                """,
                job_id,
            )

    async def retry(self, job_id: str) -> int:
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(
                """
                UPDATE ingestion_items SET
                    state = 'queued', outcome = NULL, failure = NULL, available_time = now(),
                    forgiven_attempts = attempts, parsed_count = 0, contextualized_count = 0,
                    embedded_count = 0, stored_count = 0, end_time = NULL, change_time = clock_timestamp()
                WHERE (job_id, item_index) IN (
                    SELECT i.job_id, i.item_index FROM ingestion_items i
                    WHERE i.job_id = $1::uuid AND (i.state IN ('failed', 'cancelled')
                      AND EXISTS (
                          SELECT FROM ingestion_payloads p
                          WHERE (p.job_id, p.item_index) = (i.job_id, i.item_index)
                      )
                      AND NOT EXISTS (
                          SELECT FROM ingestion_items later
                          WHERE later.collection_id = i.collection_id AND later.uri = i.uri
                            AND later.queue_id > i.queue_id AND later.state = 'done'
                      ) OR i.crawl IS NOT NULL AND (i.state IN ('failed', 'cancelled') OR EXISTS (
                          SELECT FROM ingestion_items page
                          WHERE page.job_id = i.job_id AND page.is_page AND page.state = 'failed'
                            AND NOT EXISTS (
                                SELECT FROM ingestion_payloads p
                                WHERE (p.job_id, p.item_index) = (page.job_id, page.item_index)
                            )
                      )) AND i.state IN ('done', 'failed', 'cancelled'))
                    ORDER BY i.item_index FOR UPDATE
                ) RETURNING true
                """,
                job_id,
            )
            if rows:
                await connection.execute(
                    "UPDATE ingestion_jobs SET cancel_time = NULL WHERE job_id = $1::uuid", job_id
                )
        return len(rows)

    async def insert_documents(
        self, connection: Connection, collection: Collection, handed_in: Sequence[HandedIn]
    ) -> None:
        """Rows for documents that are new. Those that are there are left alone: they may be locked for as
        long as it takes to store them."""
        versions = {version.uri: version for _, version in handed_in}
        # An empty ingestion_hash equals none: there are no chunks yet.
        await connection.executemany(
            """
            INSERT INTO documents
                (collection_id, uri, source_type, title, mime_type, content_hash, input_hash, ingestion_hash,
                 size_bytes, metadata, allowed_principals, state)
            VALUES ($1, $2, $3, $4, $5, $6, $7, ''::bytea, $8, $9, $10, 'queued')
            ON CONFLICT (collection_id, uri) DO NOTHING
            """,
            [
                (
                    collection.collection_id,
                    version.uri,
                    version.source_type,
                    version.title,
                    version.mime_type,
                    version.content_hash,
                    version.input_hash,
                    version.size_bytes,
                    version.metadata,
                    list(version.allowed_principals),
                )
                for _, version in sorted(versions.items())
            ],
        )

    async def _insert_items(
        self,
        connection: Connection,
        collection: Collection,
        job_id: str,
        handed_in: Sequence[HandedIn],
    ) -> None:
        rows = await connection.fetch(
            "SELECT uri, document_id FROM documents WHERE collection_id = $1 AND uri = ANY($2::text[])",
            collection.collection_id,
            [version.uri for _, version in handed_in],
        )
        ids = {row["uri"]: row["document_id"] for row in rows}
        await connection.copy_records_to_table(
            "ingestion_items",
            records=[
                (
                    job_id,
                    index,
                    collection.collection_id,
                    version.uri,
                    ids.get(version.uri),
                    "queued",
                    input_json(given),
                )
                for index, (given, version) in enumerate(handed_in)
            ],
            columns=("job_id", "item_index", "collection_id", "uri", "document_id", "state", "input"),
        )
        await connection.copy_records_to_table(
            "ingestion_payloads",
            records=(
                (job_id, index, part, data)
                for index, (given, _) in enumerate(handed_in)
                for part, data in enumerate(payload_parts(given.content))
            ),
            columns=("job_id", "item_index", "part", "data"),
        )

    async def _find(self, condition: str, *values: str) -> Job | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(f"{_SELECT} WHERE {condition}", *values)
        return _job(row) if row else None


def payload_parts(content: str | bytes | FileContent) -> Iterator[bytes]:
    """At least one, so that an empty content is kept too."""
    if isinstance(content, FileContent):
        yield from content.parts(PAYLOAD_PART)
        return
    data = content.encode() if isinstance(content, str) else content
    for start in range(0, len(data) or 1, PAYLOAD_PART):
        yield data[start : start + PAYLOAD_PART]


def _collection_gone(collection: Collection) -> NotFoundError:
    return NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")


def _usage(row: asyncpg.Record) -> Usage:
    return Usage(row["prompt_tokens"], row["cached_tokens"], row["output_tokens"])


def _counts(row: asyncpg.Record) -> ChunkCounts:
    return ChunkCounts(
        row["parsed_count"], row["contextualized_count"], row["embedded_count"], row["stored_count"]
    )


def _item(row: asyncpg.Record) -> Item:
    return Item(
        index=row["item_index"],
        uri=row["uri"],
        document_id=str(row["document_id"]) if row["document_id"] else None,
        state=IngestionState(row["state"]),
        outcome=IngestionOutcome(row["outcome"]) if row["outcome"] else None,
        failure=read_failure(row["failure"]),
        attempts=row["attempts"],
        chunks=_counts(row),
        usage=_usage(row),
        is_crawl=row["crawl"] is not None,
    )


def _job(row: asyncpg.Record) -> Job:
    return Job(
        job_id=str(row["job_id"]),
        collection_id=row["collection_id"],
        state=JobState(row["state"]),
        create_time=row["create_time"],
        start_time=row["start_time"],
        end_time=row["end_time"],
        item_count=row["item_count"],
        done_count=row["done_count"],
        unchanged_count=row["unchanged_count"],
        failed_count=row["failed_count"],
        cancelled_count=row["cancelled_count"],
        chunks=_counts(row),
        usage=_usage(row),
    )
