"""Crawls in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

import uuid
from typing import Final

import asyncpg
from groundline_database import Connection, Pool, acquire, transaction
from groundline_runtime.errors import NotFoundError

from groundline_ingestor.adapters.postgres_items import HELD, PENDING, held_by
from groundline_ingestor.adapters.postgres_jobs import PostgresJobs, payload_parts
from groundline_ingestor.adapters.records import crawl_json, failure_json, input_json, read_crawl
from groundline_ingestor.crawling import CrawlRequest
from groundline_ingestor.domain import Claim, Collection, IngestionFailure, JobKind, LeasedItem
from groundline_ingestor.ports import ClaimLostError, HandedIn

__all__ = ["PostgresCrawls"]

# As the lease of documents has it, materialized too, without what only they wait for.
_LEASE: Final = f"""
    WITH chosen AS MATERIALIZED (
        SELECT i.job_id, i.item_index, i.attempts - i.forgiven_attempts >= $3 AS is_exhausted
        FROM ingestion_items i
        WHERE i.crawl IS NOT NULL AND i.{PENDING} AND i.available_time <= clock_timestamp()
          AND (i.lease_until IS NULL OR i.lease_until < clock_timestamp())
        ORDER BY i.queue_id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    UPDATE ingestion_items item SET
        state = CASE WHEN chosen.is_exhausted THEN 'failed' ELSE 'extracting' END,
        failure = CASE WHEN chosen.is_exhausted THEN jsonb_build_object(
            'stage', item.state, 'reason', 'ATTEMPTS_EXHAUSTED',
            'message', 'its workers ended before it did, ' || item.attempts || ' times'
        ) END,
        attempts = item.attempts + CASE WHEN chosen.is_exhausted THEN 0 ELSE 1 END,
        end_time = CASE WHEN chosen.is_exhausted THEN clock_timestamp() END,
        lease_id = $1::uuid, lease_until = clock_timestamp() + make_interval(secs => $2),
        start_time = coalesce(item.start_time, clock_timestamp()), change_time = clock_timestamp()
    FROM chosen
    JOIN ingestion_jobs job USING (job_id)
    WHERE (item.job_id, item.item_index) = (chosen.job_id, chosen.item_index)
    RETURNING item.job_id, item.item_index, item.uri, item.crawl, item.state, job.collection_id,
              item.attempts - item.forgiven_attempts AS attempts
"""


class PostgresCrawls:
    """Implements CrawlRepository."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._jobs = PostgresJobs(pool)

    async def enqueue(self, collection: Collection, request: CrawlRequest, request_id: str) -> str:
        job_id = str(uuid.uuid4())
        try:
            async with transaction(self._pool) as connection:
                if await connection.fetchval(
                    """
                    INSERT INTO ingestion_jobs (job_id, collection_id, state, request_id)
                    VALUES ($1::uuid, $2, 'queued', nullif($3, ''))
                    ON CONFLICT (collection_id, request_id) DO NOTHING RETURNING true
                    """,
                    job_id,
                    collection.collection_id,
                    request_id,
                ):
                    await connection.execute(
                        """
                        INSERT INTO ingestion_items (job_id, item_index, uri, state, crawl)
                        VALUES ($1::uuid, 0, $2, 'queued', $3)
                        """,
                        job_id,
                        request.start_url,
                        crawl_json(request),
                    )
                    return job_id
        except asyncpg.ForeignKeyViolationError:
            raise _collection_gone(collection) from None
        earlier = await self._jobs.find_by_request_id(collection.collection_id, request_id)
        if earlier is None:
            raise _collection_gone(collection)
        return earlier.job_id

    async def lease(
        self, lease_id: str, *, seconds: float, max_attempts: int
    ) -> tuple[LeasedItem, CrawlRequest] | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(_LEASE, lease_id, seconds, max_attempts)
        if row is None or row["state"] == "failed":
            return None
        item = LeasedItem(
            claim=Claim(str(row["job_id"]), row["item_index"], lease_id),
            kind=JobKind.INGEST,
            collection_id=row["collection_id"],
            uri=row["uri"],
            document_id=None,
            attempts=row["attempts"],
            input=None,
        )
        return item, read_crawl(row["crawl"])

    async def is_held(self, claim: Claim) -> bool:
        async with acquire(self._pool) as connection:
            held = await connection.fetchval(
                f"SELECT true FROM ingestion_items WHERE {HELD}", *held_by(claim)
            )
        return held is not None

    async def add_page(self, claim: Claim, collection: Collection, page: HandedIn) -> None:
        given, version = page
        async with transaction(self._pool) as connection:
            index, is_new = await _place(connection, claim, version.uri)
            if index is None:
                return
            await self._jobs.insert_documents(connection, collection, [page])
            document_id = await connection.fetchval(
                "SELECT document_id FROM documents WHERE collection_id = $1 AND uri = $2",
                collection.collection_id,
                version.uri,
            )
            if is_new:
                await connection.execute(
                    """
                    INSERT INTO ingestion_items
                        (job_id, item_index, collection_id, uri, document_id, state, input, is_page)
                    VALUES ($1::uuid, $2, $3, $4, $5, 'queued', $6, true)
                    """,
                    claim.job_id,
                    index,
                    collection.collection_id,
                    version.uri,
                    document_id,
                    input_json(given),
                )
            else:
                await connection.execute(
                    """
                    UPDATE ingestion_items SET
                        state = 'queued', failure = NULL, document_id = $3, input = $4, end_time = NULL,
                        change_time = clock_timestamp()
                    WHERE job_id = $1::uuid AND item_index = $2
                    """,
                    claim.job_id,
                    index,
                    document_id,
                    input_json(given),
                )
            await connection.copy_records_to_table(
                "ingestion_payloads",
                records=(
                    (claim.job_id, index, part, data)
                    for part, data in enumerate(payload_parts(given.content))
                ),
                columns=("job_id", "item_index", "part", "data"),
            )

    async def add_failure(self, claim: Claim, uri: str, failure: IngestionFailure) -> None:
        async with transaction(self._pool) as connection:
            index, _ = await _place(connection, claim, uri)
            if index is None:
                return
            await connection.execute(
                """
                INSERT INTO ingestion_items
                    (job_id, item_index, collection_id, uri, state, failure, is_page, start_time, end_time)
                SELECT $1::uuid, $2, collection_id, $3, 'failed', $4, true, now(), now()
                FROM ingestion_jobs WHERE job_id = $1::uuid
                ON CONFLICT (job_id, item_index) DO UPDATE SET
                    failure = excluded.failure, change_time = clock_timestamp(), end_time = excluded.end_time
                """,
                claim.job_id,
                index,
                uri,
                failure_json(failure),
            )

    async def finish(self, claim: Claim) -> None:
        async with acquire(self._pool) as connection:
            finished = await connection.fetchval(
                f"""
                UPDATE ingestion_items SET
                    state = 'done', failure = NULL, lease_id = NULL, lease_until = NULL,
                    change_time = clock_timestamp(), end_time = clock_timestamp()
                WHERE {HELD} RETURNING true
                """,
                *held_by(claim),
            )
        if finished is None:
            raise ClaimLostError(claim)


async def _place(connection: Connection, claim: Claim, uri: str) -> tuple[int | None, bool]:
    """The index for a page in the crawl's job, and whether it is a new one; no index where the job has the
    page, with its content or without need of it. The crawl stays locked: pages join its job one by one."""
    if not await connection.fetchval(
        f"SELECT true FROM ingestion_items WHERE {HELD} FOR UPDATE", *held_by(claim)
    ):
        raise ClaimLostError(claim)
    known = await connection.fetchrow(
        """
        SELECT item_index, state = 'failed' AND NOT EXISTS (
            SELECT FROM ingestion_payloads p WHERE (p.job_id, p.item_index) = (i.job_id, i.item_index)
        ) AS is_missing
        FROM ingestion_items i WHERE job_id = $1::uuid AND uri = $2 AND is_page
        """,
        claim.job_id,
        uri,
    )
    if known:
        return (known["item_index"] if known["is_missing"] else None), False
    index: int = await connection.fetchval(
        "SELECT max(item_index) + 1 FROM ingestion_items WHERE job_id = $1::uuid", claim.job_id
    )
    return index, True


def _collection_gone(collection: Collection) -> NotFoundError:
    return NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")
