"""The queue of items that workers lease from PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

import asyncpg
from groundline_database import Pool, acquire, transaction

from groundline_ingestor.adapters.postgres_items import HELD, PENDING, held_by
from groundline_ingestor.adapters.records import failure_json, read_input
from groundline_ingestor.domain import (
    ChunkCounts,
    Claim,
    DocumentInput,
    IngestionFailure,
    JobKind,
    LeasedItem,
    Partition,
    Progress,
    Usage,
)
from groundline_ingestor.ports import ClaimLostError
from groundline_ingestor.spooling import open_spool_file

__all__ = ["PostgresQueue"]

# Documents wait for an earlier hand-in of their uri, and while a reindex of their collection finishes.
# While a new model is rolled out there are workers of both; each takes what is embedded by its own.
# Materialized: a plan may run a subquery again for each row that it is joined to, and what is locked by then
# is skipped, so that more would be leased than the limit says.
_LEASE: Final = f"""
    WITH chosen AS MATERIALIZED (
        SELECT i.job_id, i.item_index, j.kind, j.settings, p.partition_id, p.embedding_model, p.dimensions,
               p.language
        FROM ingestion_items i
        JOIN ingestion_jobs j USING (job_id)
        LEFT JOIN chunk_partitions p ON p.partition_id = j.partition_id
        WHERE i.{PENDING} AND i.collection_id IS NOT NULL
          AND EXISTS (
              SELECT FROM collections c
              JOIN chunk_partitions made ON made.partition_id = coalesce(j.partition_id, c.partition_id)
              WHERE c.collection_id = i.collection_id AND made.embedding_model = $5
          )
          AND i.available_time <= clock_timestamp()
          AND (i.lease_until IS NULL OR i.lease_until < clock_timestamp())
          AND (j.kind = 'reindex' OR NOT EXISTS (
              SELECT FROM ingestion_items earlier
              WHERE earlier.collection_id = i.collection_id AND earlier.uri = i.uri
                AND earlier.queue_id < i.queue_id AND earlier.{PENDING} AND earlier.input IS NOT NULL
          ) AND NOT EXISTS (
              SELECT FROM ingestion_jobs r
              WHERE r.collection_id = i.collection_id AND r.kind = 'reindex' AND r.end_time IS NULL
                AND r.is_finishing
          ))
        ORDER BY i.queue_id LIMIT $2 FOR UPDATE OF i SKIP LOCKED
    )
    UPDATE ingestion_items item SET
        state = CASE WHEN item.attempts - item.forgiven_attempts >= $4 THEN 'failed' ELSE 'extracting' END,
        failure = CASE WHEN item.attempts - item.forgiven_attempts >= $4 THEN jsonb_build_object(
            'stage', item.state, 'reason', 'ATTEMPTS_EXHAUSTED',
            'message', 'its workers ended before it did, ' || item.attempts || ' times'
        ) END,
        attempts = item.attempts
            + CASE WHEN item.attempts - item.forgiven_attempts >= $4 THEN 0 ELSE 1 END,
        end_time = CASE WHEN item.attempts - item.forgiven_attempts >= $4 THEN clock_timestamp() END,
        parsed_count = 0, contextualized_count = 0, embedded_count = 0, stored_count = 0,
        lease_id = $1::uuid, lease_until = clock_timestamp() + make_interval(secs => $3),
        start_time = coalesce(item.start_time, clock_timestamp()), change_time = clock_timestamp()
    FROM chosen
    WHERE (item.job_id, item.item_index) = (chosen.job_id, chosen.item_index)
    RETURNING item.job_id, item.item_index, item.collection_id, item.uri, item.document_id, item.state,
              item.attempts - item.forgiven_attempts AS attempts, item.input, item.queue_id,
              chosen.kind, chosen.settings, chosen.partition_id, chosen.embedding_model, chosen.dimensions,
              chosen.language
"""


class PostgresQueue:
    """Implements WorkQueue."""

    def __init__(self, pool: Pool, *, spool_directory: Path | None = None) -> None:
        """`spool_directory`: where contents of several parts are put."""
        self._pool = pool
        self._spool_directory = spool_directory

    async def lease(
        self, lease_id: str, *, model: str, limit: int, seconds: float, max_attempts: int
    ) -> Sequence[LeasedItem]:
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(_LEASE, lease_id, limit, seconds, max_attempts, model)
            if exhausted := [row for row in rows if row["state"] == "failed"]:
                await connection.execute(
                    """
                    UPDATE documents d SET state = 'failed', failure = i.failure
                    FROM ingestion_items i
                    WHERE i.lease_id = $1::uuid AND i.state = 'failed' AND i.input IS NOT NULL
                      AND d.document_id = i.document_id
                    """,
                    lease_id,
                )
        ordered = sorted(rows, key=lambda row: row["queue_id"])
        return [_leased(row, lease_id) for row in ordered if row not in exhausted]

    async def given(self, item: LeasedItem) -> DocumentInput:
        assert item.input is not None, "items of an ingestion have one"
        claim = item.claim
        data: list[bytes] = []
        file: BinaryIO | None = None
        try:
            async with transaction(self._pool) as connection:
                async for row in connection.cursor(
                    f"""
                    SELECT data FROM ingestion_payloads JOIN ingestion_items USING (job_id, item_index)
                    WHERE {HELD} ORDER BY part
                    """,
                    *held_by(claim),
                    prefetch=2,
                ):
                    data.append(row["data"])
                    if len(data) > 1:
                        file = file or open_spool_file(self._spool_directory)
                        await asyncio.to_thread(file.writelines, data)
                        data.clear()
                        data.append(b"")
                if not data and not await connection.fetchval(
                    f"SELECT true FROM ingestion_items WHERE {HELD}", *held_by(claim)
                ):
                    raise ClaimLostError(claim)
        except BaseException:
            if file is not None:
                file.close()
            raise
        if file is None:
            return read_input(item.input, b"".join(data))
        return read_input(item.input, file)

    async def require(self, claim: Claim) -> None:
        async with acquire(self._pool) as connection:
            if not await connection.fetchval(
                f"SELECT true FROM ingestion_items WHERE {HELD}", *held_by(claim)
            ):
                raise ClaimLostError(claim)

    async def extend(self, lease_ids: Sequence[str], seconds: float) -> None:
        async with acquire(self._pool) as connection:
            # Those that are locked are being stored, or cancelled.
            await connection.execute(
                f"""
                UPDATE ingestion_items SET lease_until = clock_timestamp() + make_interval(secs => $2)
                WHERE (job_id, item_index) IN (
                    SELECT job_id, item_index FROM ingestion_items
                    WHERE lease_id = ANY($1::uuid[]) AND {PENDING} FOR UPDATE SKIP LOCKED
                )
                """,
                list(lease_ids),
                seconds,
            )

    async def progress(self, progress: Sequence[Progress]) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"""
                WITH known AS (
                    SELECT * FROM unnest(
                        $1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::int[], $6::int[], $7::int[]
                    ) AS k (job_id, item_index, lease_id, state, parsed, contextualized, embedded)
                ), shown AS (
                    UPDATE ingestion_items i SET
                        state = k.state, parsed_count = k.parsed, contextualized_count = k.contextualized,
                        embedded_count = k.embedded, change_time = clock_timestamp()
                    FROM known k
                    WHERE (i.job_id, i.item_index) IN (
                        SELECT s.job_id, s.item_index FROM ingestion_items s
                        JOIN known USING (job_id, item_index, lease_id) WHERE s.{PENDING}
                        FOR UPDATE OF s SKIP LOCKED
                    ) AND (i.job_id, i.item_index, i.lease_id) = (k.job_id, k.item_index, k.lease_id)
                    RETURNING i.document_id, i.state, i.input
                )
                UPDATE documents d SET state = shown.state FROM shown
                WHERE d.document_id = shown.document_id AND shown.input IS NOT NULL
                  AND d.document_id IN (
                      SELECT document_id FROM documents WHERE document_id IN (
                          SELECT document_id FROM shown
                      ) FOR UPDATE SKIP LOCKED
                  )
                """,
                [one.claim.job_id for one in progress],
                [one.claim.item_index for one in progress],
                [one.claim.lease_id for one in progress],
                [str(one.state) for one in progress],
                [one.chunks.parsed for one in progress],
                [one.chunks.contextualized for one in progress],
                [one.chunks.embedded for one in progress],
            )

    async def spend(self, claim: Claim, usage: Usage) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"""
                UPDATE ingestion_items SET
                    prompt_tokens = prompt_tokens + $4, cached_tokens = cached_tokens + $5,
                    output_tokens = output_tokens + $6, change_time = clock_timestamp()
                WHERE {HELD}
                """,
                *held_by(claim),
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.output_tokens,
            )

    async def fail(self, claim: Claim, failure: IngestionFailure, chunks: ChunkCounts) -> None:
        async with transaction(self._pool) as connection:
            await connection.execute(
                f"""
                UPDATE documents SET state = 'failed', failure = $4 WHERE document_id = (
                    SELECT document_id FROM ingestion_items WHERE {HELD} AND input IS NOT NULL
                )
                """,
                *held_by(claim),
                failure_json(failure),
            )
            failed = await connection.fetchval(
                f"""
                UPDATE ingestion_items SET
                    state = 'failed', failure = $4, lease_id = NULL, lease_until = NULL,
                    parsed_count = $5, contextualized_count = $6, embedded_count = $7,
                    change_time = clock_timestamp(), end_time = clock_timestamp()
                WHERE {HELD} RETURNING true
                """,
                *held_by(claim),
                failure_json(failure),
                chunks.parsed,
                chunks.contextualized,
                chunks.embedded,
            )
            if failed is None:
                raise ClaimLostError(claim)

    async def postpone(self, claim: Claim, seconds: float, failure: IngestionFailure) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"""
                UPDATE ingestion_items SET
                    state = 'queued', failure = $4, lease_id = NULL, lease_until = NULL,
                    available_time = clock_timestamp() + make_interval(secs => $5),
                    change_time = clock_timestamp()
                WHERE {HELD}
                """,
                *held_by(claim),
                failure_json(failure),
                seconds,
            )

    async def release(self, lease_ids: Sequence[str]) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"""
                UPDATE ingestion_items SET
                    state = 'queued', attempts = attempts - 1, lease_id = NULL, lease_until = NULL,
                    change_time = clock_timestamp()
                WHERE (job_id, item_index) IN (
                    SELECT job_id, item_index FROM ingestion_items
                    WHERE lease_id = ANY($1::uuid[]) AND {PENDING} FOR UPDATE SKIP LOCKED
                )
                """,
                list(lease_ids),
            )

    async def discard(self, older_than_seconds: float) -> None:
        async with acquire(self._pool) as connection:
            # A bounded piece of work; what is left goes the next time.
            await connection.execute(
                """
                DELETE FROM ingestion_payloads WHERE (job_id, item_index) IN (
                    SELECT job_id, item_index FROM ingestion_items i
                    WHERE i.state IN ('failed', 'cancelled')
                      AND i.end_time < clock_timestamp() - make_interval(secs => $1)
                      AND EXISTS (
                          SELECT FROM ingestion_payloads p
                          WHERE (p.job_id, p.item_index) = (i.job_id, i.item_index)
                      )
                    LIMIT 100
                )
                """,
                older_than_seconds,
            )


def _leased(row: asyncpg.Record, lease_id: str) -> LeasedItem:
    is_reindex = row["kind"] == JobKind.REINDEX
    return LeasedItem(
        claim=Claim(str(row["job_id"]), row["item_index"], lease_id),
        kind=JobKind(row["kind"]),
        collection_id=row["collection_id"],
        uri=row["uri"],
        document_id=str(row["document_id"]) if row["document_id"] else None,
        attempts=row["attempts"],
        input=row["input"],
        partition=Partition(row["partition_id"], row["embedding_model"], row["dimensions"], row["language"])
        if is_reindex
        else None,
        settings=row["settings"] if is_reindex else None,
    )
