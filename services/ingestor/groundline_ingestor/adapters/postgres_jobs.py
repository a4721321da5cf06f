"""Ingestion jobs in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import asyncpg
from groundline_runtime.errors import NotFoundError

from groundline_ingestor.adapters.postgres import Pool, acquire, transaction
from groundline_ingestor.adapters.postgres_collections import READABLE
from groundline_ingestor.adapters.records import failure_json, read_failure
from groundline_ingestor.domain import ChunkCounts, IngestionOutcome, IngestionState, Item, Job, JobState

__all__ = ["PostgresJobs"]

_SELECT = """
    SELECT j.job_id, j.collection_id, j.state, j.create_time, j.start_time, j.end_time, n.*
    FROM ingestion_jobs j
    JOIN collections c USING (collection_id)
    CROSS JOIN LATERAL (
        SELECT count(*) AS item_count,
               count(*) FILTER (WHERE i.state = 'done') AS done_count,
               count(*) FILTER (WHERE i.outcome = 'unchanged') AS unchanged_count,
               count(*) FILTER (WHERE i.state = 'failed') AS failed_count,
               count(*) FILTER (WHERE i.state = 'cancelled') AS cancelled_count,
               coalesce(sum(i.parsed_count), 0) AS parsed_count,
               coalesce(sum(i.contextualized_count), 0) AS contextualized_count,
               coalesce(sum(i.embedded_count), 0) AS embedded_count,
               coalesce(sum(i.stored_count), 0) AS stored_count
        FROM ingestion_items i WHERE i.job_id = j.job_id
    ) n
"""
_ITEM_COLUMNS = (
    "job_id",
    "item_index",
    "uri",
    "document_id",
    "state",
    "outcome",
    "failure",
    "attempts",
    "parsed_count",
    "contextualized_count",
    "embedded_count",
    "stored_count",
)


class PostgresJobs:
    """Implements JobRepository."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def record(self, job: Job, items: Sequence[Item], request_id: str) -> Job:
        try:
            async with transaction(self._pool) as connection:
                inserted = await connection.fetchval(
                    """
                    INSERT INTO ingestion_jobs
                        (job_id, collection_id, state, request_id, create_time, start_time, end_time)
                    VALUES ($1::uuid, $2, $3, nullif($4, ''), $5, $6, $7)
                    ON CONFLICT (collection_id, request_id) DO NOTHING RETURNING true
                    """,
                    job.job_id,
                    job.collection_id,
                    job.state,
                    request_id,
                    job.create_time,
                    job.start_time,
                    job.end_time,
                )
                if inserted:
                    await connection.copy_records_to_table(
                        "ingestion_items",
                        records=[_item_record(job.job_id, item) for item in items],
                        columns=_ITEM_COLUMNS,
                    )
        except asyncpg.ForeignKeyViolationError:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {job.collection_id!r}") from None
        stored = (
            await self.find(job.job_id)
            if inserted
            else await self.find_by_request_id(job.collection_id, request_id)
        )
        if stored is None:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {job.collection_id!r}")
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
                """
                SELECT i.* FROM ingestion_items i LEFT JOIN documents d USING (document_id)
                WHERE i.job_id = $1::uuid AND i.item_index > $2
                  AND ($3::text[] IS NULL OR d.document_id IS NULL
                       OR d.allowed_principals = '{}' OR d.allowed_principals && $3)
                  AND (NOT $5 OR i.state = 'failed')
                ORDER BY i.item_index LIMIT $4
                """,
                job_id,
                after,
                None if principals is None else list(principals),
                limit,
                only_failed,
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
                WHERE {READABLE.format(principals="$1::text[]")}
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

    async def _find(self, condition: str, *values: str) -> Job | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(f"{_SELECT} WHERE {condition}", *values)
        return _job(row) if row else None


def _item_record(job_id: str, item: Item) -> tuple[Any, ...]:
    return (
        job_id,
        item.index,
        item.uri,
        item.document_id,
        item.state,
        item.outcome,
        failure_json(item.failure),
        item.attempts,
        item.chunks.parsed,
        item.chunks.contextualized,
        item.chunks.embedded,
        item.chunks.stored,
    )


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
    )
