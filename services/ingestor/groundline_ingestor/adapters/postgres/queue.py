"""The queue of items that workers lease from PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import asyncpg
from groundline.v1 import chat_pb2, document_pb2, job_pb2
from groundline_database import (
    Connection,
    Pool,
    acquire,
    is_replaceable_document,
    read_statements,
    transaction,
)
from groundline_database.codecs import enum_text
from groundline_extraction.documents import GivenDocument
from groundline_extraction.spooling import open_spool_file
from groundline_indexing.partitions import PENDING, read_settings
from groundline_runtime.context import current_traceparent

from groundline_ingestor.adapters.postgres.documents.deletion import remove_documents
from groundline_ingestor.adapters.postgres.items import (
    HELD,
    ItemKey,
    change_held_item,
    change_items,
    drop_payloads,
    held_by,
    item_state,
    save_items,
)
from groundline_ingestor.adapters.postgres.records import failure_json, read_input
from groundline_ingestor.domain.jobs import JobKind, begin, fail, lose, move, postpone, release, skip
from groundline_ingestor.domain.work import ClaimLostError, ItemClaim, LeasedItem, Progress, ReindexTarget

MAXIMUM_PAUSE_SECONDS: Final = 600.0
"""Maximum wait of a postponed item, in seconds, whatever is done to the database's clock."""

EXTENSIONS: Final = 3
"""Number of times that workers extend a lease within its term; one that has missed a part of it counts as
lost."""

_CONTAINER: Final = "coalesce(i.input ->> 'containerUri', '')"
"""SQL expression of the document that item `i` is within."""

_SQL: Final = read_statements(
    __name__,
    is_pending=PENDING,
    is_held=HELD,
    is_replaceable=is_replaceable_document("j.principals", "d", container=_CONTAINER),
)
SMALL_BYTES: Final = 64 * 1024
"""Maximum size of a content that comes with the lease: one statement for all, not a transaction for each."""


class PostgresQueue:
    """Items for workers, in the order of hand-in; those of one uri one after the other.

    Any method raises UnavailableError while the store is down.
    """

    def __init__(self, pool: Pool, *, spool_directory: Path | None = None) -> None:
        """Take the pool. `spool_directory`: directory of contents of several parts."""
        self._pool = pool
        self._spool_directory = spool_directory
        self._overdue: dict[ItemClaim, float] = {}

    async def lease(
        self,
        lease_id: str,
        *,
        models: Sequence[str],
        limit: int,
        seconds: float,
        suspects: bool = False,
        passed_over: Sequence[str] = (),
    ) -> Sequence[LeasedItem]:
        """Claim queued items to be embedded by these models, none of the owners that are passed over; or
        `suspects`, at most half of those that were begun most often."""
        async with transaction(self._pool) as connection:
            # Before PostgreSQL has statistics of a large hand-in, it expects a row or two and reads all that
            # wait, to sort them: 11 ms for 1,000 documents, .2 by the queue's index.
            await connection.execute("SET LOCAL enable_sort = off")
            if passed_over:
                rows = await connection.fetch(
                    _SQL["lease_of_others"], list(models), limit, suspects, list(passed_over)
                )
            else:
                rows = await connection.fetch(
                    _SQL["lease_suspects"] if suspects else _SQL["lease"], list(models), limit, suspects
                )
            alone = suspects and len(rows) == 1
            begun = {
                (str(row["job_id"]), row["item_index"]): begin(item_state(row), lease_id, alone=alone)
                for row in rows
            }
            await save_items(connection, begun, lease_seconds=seconds)
            details = await _details(connection, list(begun))
        return [
            _leased(row, lease_id, item.counted_attempts, details.get(key))
            for row, (key, item) in zip(rows, begun.items(), strict=True)
        ]

    async def has_suspects(self, models: Sequence[str]) -> bool:
        """Tell whether suspects wait to be worked on."""
        async with acquire(self._pool) as connection:
            return bool(await connection.fetchval(_SQL["has_suspects"], list(models)))

    async def has_waiting(self) -> bool:
        """Tell whether any item waits, even if it may not be taken yet."""
        async with acquire(self._pool) as connection:
            return bool(
                await connection.fetchval(
                    f"SELECT EXISTS (SELECT FROM ingestion_items WHERE {PENDING} AND lease_id IS NULL)"
                )
            )

    async def waiting(self) -> tuple[Mapping[str, int], float]:
        """Return the number of items that have not ended, by state, and for how long the oldest that may be
        worked on has been waiting, in seconds."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"""
                SELECT i.state, count(*), extract(epoch FROM max(
                    clock_timestamp() - greatest(i.available_time, j.create_time)
                ) FILTER (WHERE i.lease_id IS NULL AND i.available_time <= clock_timestamp()))::float8 AS age
                FROM ingestion_items i JOIN ingestion_jobs j USING (job_id) WHERE i.{PENDING} GROUP BY i.state
                """
            )
        oldest = max((row["age"] or 0.0 for row in rows), default=0.0)
        return {row["state"]: row["count"] for row in rows}, max(0.0, oldest)

    async def join_trace(self, item: LeasedItem) -> None:
        """Let the items that this one finds be part of its trace, if no request began its job."""
        if not item.traceparent and (traceparent := current_traceparent()):
            async with acquire(self._pool) as connection:
                await connection.execute(
                    "UPDATE ingestion_jobs SET traceparent = $2 WHERE job_id = $1::uuid",
                    item.claim.job_id,
                    traceparent,
                )

    async def given(self, item: LeasedItem) -> GivenDocument:
        """Return the document as handed in; a file is the caller's to close. Raises ClaimLostError."""
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

    async def require(self, claim: ItemClaim) -> None:
        """Raise ClaimLostError if the claim is no longer held."""
        async with acquire(self._pool) as connection:
            if not await connection.fetchval(
                f"SELECT true FROM ingestion_items WHERE {HELD}", *held_by(claim)
            ):
                raise ClaimLostError(claim)

    async def extend(self, lease_ids: Sequence[str]) -> None:
        """Extend the leases that still hold by another term."""
        async with acquire(self._pool) as connection:
            # Locked ones are being stored, or cancelled.
            await connection.execute(_SQL["extend"], list(lease_ids))

    async def expire(self, maximum_attempts: int) -> int:
        """Take items from lost workers, crawls too; return their number.

        A worker is lost that did not extend its lease for a term, by a clock that is never set: setting the
        database's neither ends leases nor prolongs them by more than a term.
        """
        async with acquire(self._pool) as connection:
            if not await connection.fetchval(
                "SELECT EXISTS (SELECT FROM ingestion_items WHERE lease_id IS NOT NULL)"
            ):
                self._overdue = {}
                return 0
        async with transaction(self._pool) as connection:
            # After the clock was set back, leases and pauses would last longer by as much.
            await connection.execute(_SQL["shorten_leases"])
            overdue = await connection.fetch(
                """
                SELECT job_id, item_index, lease_id, lease_seconds FROM ingestion_items
                WHERE lease_id IS NOT NULL AND lease_until < clock_timestamp()
                """
            )
            lost = self._lost(overdue)
            expired = await change_items(
                connection,
                """
                (job_id, item_index, lease_id) IN (SELECT * FROM unnest($1::uuid[], $2::int[], $3::uuid[]))
                AND lease_until < clock_timestamp()
                """,
                [
                    [claim.job_id for claim in lost],
                    [claim.item_index for claim in lost],
                    [claim.lease_id for claim in lost],
                ],
                partial(lose, maximum_attempts=maximum_attempts),
                skip_locked=True,
            )
            failed = [key for key, item in expired.items() if item.has_ended]
            await connection.execute(
                _SQL["fail_documents"], [job_id for job_id, _ in failed], [index for _, index in failed]
            )
        return len(expired)

    def _lost(self, overdue: Sequence[asyncpg.Record]) -> list[ItemClaim]:
        """Return claims whose leases have been overdue for so long that a living worker would have extended
        them since: a clock that was set forward makes all leases overdue at once."""
        now = time.monotonic()
        seen = {
            ItemClaim(str(row["job_id"]), row["item_index"], str(row["lease_id"])): row for row in overdue
        }
        self._overdue = {claim: self._overdue.get(claim, now) for claim in seen}
        return [
            claim
            for claim, row in seen.items()
            if now - self._overdue[claim] >= row["lease_seconds"] / EXTENSIONS
        ]

    async def progress(self, progress: Sequence[Progress]) -> None:
        """Store the progress of items."""
        come = {(one.claim.job_id, one.claim.item_index): one for one in progress}
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["lock_leased"],
                [one.claim.job_id for one in progress],
                [one.claim.item_index for one in progress],
                [one.claim.lease_id for one in progress],
            )
            keys = [(str(row["job_id"]), row["item_index"]) for row in rows]
            await save_items(
                connection,
                {
                    key: move(item_state(row), come[key].state, come[key].chunks)
                    for key, row in zip(keys, rows, strict=True)
                },
            )
            shown = [(row, come[key]) for key, row in zip(keys, rows, strict=True) if row["input"]]
            await connection.execute(
                _SQL["show_progress"],
                [row["document_id"] for row, _ in shown],
                [enum_text(document_pb2.IngestionState, one.state) for _, one in shown],
            )

    async def spend(self, usages: Sequence[tuple[ItemClaim, chat_pb2.Usage]]) -> None:
        """Add tokens and their price to the items' usage, over all their attempts. Does nothing for a lost
        claim."""
        # Sorted, so that two workers do not wait for each other both.
        spent = sorted(usages, key=lambda each: (each[0].job_id, each[0].item_index))
        async with acquire(self._pool) as connection:
            await connection.execute(
                _SQL["spend"],
                [claim.job_id for claim, _ in spent],
                [claim.item_index for claim, _ in spent],
                [claim.lease_id for claim, _ in spent],
                [usage.prompt_tokens for _, usage in spent],
                [usage.cached_tokens for _, usage in spent],
                [usage.output_tokens for _, usage in spent],
                [usage.embedding_tokens for _, usage in spent],
                [usage.cost_usd if usage.HasField("cost_usd") else None for _, usage in spent],
            )

    async def note_undescribed(self, claim: ItemClaim, count: int) -> None:
        """Record how many pictures of an item could not be described. Does nothing for a lost claim."""
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"UPDATE ingestion_items SET undescribed_pictures = $4 WHERE {HELD}",
                *held_by(claim),
                count or None,
            )

    async def fail(
        self, claim: ItemClaim, failure: document_pb2.IngestionFailure, chunks: job_pb2.ChunkCounts
    ) -> None:
        """End an item and mark its document, which stays searchable as it was. Raises ClaimLostError."""
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["fail_document"], *held_by(claim), failure_json(failure))
            await change_held_item(connection, claim, partial(fail, failure=failure, chunks=chunks))

    async def skip(self, claim: ItemClaim, failure: document_pb2.IngestionFailure) -> None:
        """End the item of a file within a document that has nothing to read, and delete its stored document.
        Raises ClaimLostError."""
        async with transaction(self._pool) as connection:
            # In the order in which a document is stored: collection, document, item.
            row = await connection.fetchrow(
                f"""
                SELECT i.collection_id, i.uri, {_CONTAINER} AS container_uri, j.principals
                FROM ingestion_items i JOIN ingestion_jobs j USING (job_id)
                JOIN collections c ON c.collection_id = i.collection_id
                WHERE {HELD} FOR SHARE OF c
                """,
                *held_by(claim),
            )
            if row is None:
                raise ClaimLostError(claim)
            await remove_documents(
                connection,
                row["collection_id"],
                f"uri = $2 AND {is_replaceable_document('$3', 'documents', container='$4')}",
                [row["uri"], row["principals"], row["container_uri"]],
                spare_held=True,
            )
            await change_held_item(connection, claim, partial(skip, failure=failure))
            await connection.execute(
                """
                UPDATE ingestion_items SET document_id = NULL, input = input - '{title,metadata}'::text[]
                WHERE job_id = $1::uuid AND item_index = $2
                """,
                claim.job_id,
                claim.item_index,
            )
            await drop_payloads(connection, [(claim.job_id, claim.item_index)])

    async def postpone(
        self, claim: ItemClaim, seconds: float, failure: document_pb2.IngestionFailure, *, forgiven: bool
    ) -> None:
        """Queue an item again, to be begun after `seconds` at the earliest. Does nothing when the claim is
        lost.

        `forgiven`: the attempt does not count against the maximum.
        """
        async with transaction(self._pool) as connection:
            await change_items(
                connection,
                HELD,
                held_by(claim),
                partial(postpone, failure=failure, forgiven=forgiven),
                pause_seconds=min(seconds, MAXIMUM_PAUSE_SECONDS),
            )

    async def release(self, lease_ids: Sequence[str]) -> None:
        """Queue leased items again, as if they had not been begun: their worker ends."""
        async with transaction(self._pool) as connection:
            await change_items(
                connection, "lease_id = ANY($1::uuid[])", [list(lease_ids)], release, skip_locked=True
            )

    async def discard(self, older_than_seconds: float) -> None:
        """Drop the content of items that failed or were cancelled this long ago."""
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"""
                UPDATE ingestion_items SET available_time = clock_timestamp() + make_interval(secs => $1)
                WHERE {PENDING} AND available_time > clock_timestamp() + make_interval(secs => $1)
                """,
                MAXIMUM_PAUSE_SECONDS,
            )
            # A bounded piece of work; the rest follows the next time.
            await connection.execute(_SQL["discard"], older_than_seconds)


async def _details(connection: Connection, keys: Sequence[ItemKey]) -> Mapping[ItemKey, asyncpg.Record]:
    """Return the details that workers need of an ingestion's items, in one query."""
    if not keys:
        return {}
    rows = await connection.fetch(
        _SQL["details"], [job_id for job_id, _ in keys], [index for _, index in keys], SMALL_BYTES
    )
    return {(str(row["job_id"]), row["item_index"]): row for row in rows}


def _leased(
    row: asyncpg.Record, lease_id: str, attempts: int, details: "asyncpg.Record | None"
) -> LeasedItem:
    content: bytes | None = details["content"] if details else None
    return LeasedItem(
        claim=ItemClaim(str(row["job_id"]), row["item_index"], lease_id),
        collection_id=row["collection_id"],
        uri=row["uri"],
        document_id=str(row["document_id"] or ""),
        attempts=attempts,
        input=row["input"],
        target=ReindexTarget(row["partition_id"], read_settings(row))
        if row["kind"] == JobKind.REINDEX
        else None,
        principals=row["principals"],
        given=None if content is None else read_input(row["input"], content),
        container_uri=(row["input"] or {}).get("containerUri", ""),
        is_first=details is not None and details["is_first"],
        traceparent=row["traceparent"] or "",
    )
