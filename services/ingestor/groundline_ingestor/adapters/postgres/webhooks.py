"""Notices to webhooks in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

import uuid
from collections.abc import Sequence
from typing import Any, Final

import asyncpg
from google.protobuf import json_format
from groundline.v1 import collection_pb2
from groundline_database import Connection, Pool, acquire, read_statements, transaction
from groundline_indexing.partitions import PENDING

from groundline_ingestor.adapters.postgres.jobs import find_job
from groundline_ingestor.domain.webhooks import Delivery, notice_of

_SQL: Final = read_statements(__name__)

ANNOUNCED_AT_ONCE: Final = 100

# The state of an ingestion follows from its items, so that its end is seen only afterwards.
_HAS_ENDED: Final = f"""
    (j.kind = 'ingest' OR j.end_time IS NOT NULL)
    AND NOT EXISTS (SELECT FROM ingestion_items i WHERE i.job_id = j.job_id AND i.{PENDING})
"""


class PostgresWebhooks:
    """Notices of jobs that have ended, until they are delivered. Any method raises UnavailableError while the
    store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def announce(self) -> None:
        """Store a notice of each job that has ended since the last call, for each webhook of its
        collection."""
        while await self._announce_some() == ANNOUNCED_AT_ONCE:
            pass

    async def _announce_some(self) -> int:
        async with transaction(self._pool) as connection:
            ended = await connection.fetch(
                f"""
                SELECT job_id FROM ingestion_jobs j WHERE NOT is_announced AND {_HAS_ENDED}
                LIMIT $1 FOR UPDATE SKIP LOCKED
                """,
                ANNOUNCED_AT_ONCE,
            )
            # This statement sees a retry that came in between, and a later one waits for the lock.
            announced = await connection.fetch(
                f"""
                UPDATE ingestion_jobs j SET is_announced = true FROM collections c
                WHERE j.job_id = ANY($1::uuid[]) AND c.collection_id = j.collection_id AND {_HAS_ENDED}
                RETURNING j.job_id, c.settings
                """,
                [row["job_id"] for row in ended],
            )
            for row in announced:
                if webhooks := _settings(row["settings"]).webhooks:
                    await _insert(connection, str(row["job_id"]), [one.url for one in webhooks])
        return len(ended)

    async def lease(self, limit: int, seconds: float) -> Sequence[Delivery]:
        """Lease at most `limit` notices that are due, which no other process gets within `seconds`. Those
        whose webhook was removed are deleted."""
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["lease"],
                limit,
                seconds,
            )
            found = {row["delivery_id"]: _delivery(row) for row in rows}
            await connection.execute(
                "DELETE FROM webhook_deliveries WHERE delivery_id = ANY($1::uuid[])",
                [delivery_id for delivery_id, delivery in found.items() if delivery is None],
            )
        return [delivery for delivery in found.values() if delivery]

    async def lag(self) -> float:
        """Return the seconds since a job ended of which a webhook was not told yet, the longest."""
        async with acquire(self._pool) as connection:
            seconds = await connection.fetchval(_SQL["lag"])
        return seconds or 0.0

    async def remove(self, delivery: Delivery) -> None:
        """Delete a notice that was delivered, or is given up."""
        async with acquire(self._pool) as connection:
            await connection.execute(
                "DELETE FROM webhook_deliveries WHERE delivery_id = $1::uuid", delivery.delivery_id
            )

    async def postpone(self, delivery: Delivery, seconds: float) -> None:
        """Send a notice again after `seconds`; do nothing if another process has it by now."""
        async with acquire(self._pool) as connection:
            await connection.execute(
                """
                UPDATE webhook_deliveries
                SET next_attempt_time = clock_timestamp() + make_interval(secs => $3)
                WHERE delivery_id = $1::uuid AND attempts = $2
                """,
                delivery.delivery_id,
                delivery.attempts,
                seconds,
            )


async def _insert(connection: Connection, job_id: str, urls: Sequence[str]) -> None:
    job = await find_job(connection, job_id)
    if job is None:  # its collection was deleted
        return
    await connection.executemany(
        """
        INSERT INTO webhook_deliveries (delivery_id, collection_id, job_id, url, body)
        VALUES ($1::uuid, $2, $3::uuid, $4, $5)
        """,
        [(str(uuid.uuid4()), job.collection_id, job_id, url, notice_of(job)) for url in urls],
    )


def _delivery(row: asyncpg.Record) -> Delivery | None:
    """Return the delivery; None if the collection has no webhook of its URL any more."""
    settings = _settings(row["settings"])
    webhook = next((one for one in settings.webhooks if one.url == row["url"]), None)
    if webhook is None:
        return None
    return Delivery(
        delivery_id=str(row["delivery_id"]),
        collection_id=row["collection_id"],
        job_id=str(row["job_id"]),
        url=row["url"],
        secret=webhook.secret,
        body=row["body"],
        attempts=row["attempts"],
        private_addresses=settings.crawl.allow_private_addresses,
    )


def _settings(stored: dict[str, Any]) -> collection_pb2.CollectionSettings:
    return json_format.ParseDict(stored, collection_pb2.CollectionSettings(), ignore_unknown_fields=True)
