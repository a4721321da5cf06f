"""Items of jobs in PostgreSQL: read under lock, changed by the domain's transitions, written back."""

# ruff: noqa: S608 - what is put into SQL here are constants

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import asyncpg
from groundline.v1 import document_pb2, job_pb2
from groundline_database import Connection, current_revision, read_statements
from groundline_database.codecs import enum_text, read_enum
from groundline_indexing.partitions import PENDING

from groundline_ingestor.adapters.postgres.records import failure_json, read_failure
from groundline_ingestor.domain.jobs import ItemState, begin, cancel, finish
from groundline_ingestor.domain.work import (
    ClaimLostError,
    ClientUse,
    ItemClaim,
    LeasedItem,
    StoredOutcome,
)

_SQL: Final = read_statements(__name__, current=current_revision("d"))

_CHANGES: Final = (job_pb2.INGESTION_OUTCOME_CREATED, job_pb2.INGESTION_OUTCOME_UPDATED)

HELD: Final = "job_id = $1::uuid AND item_index = $2 AND lease_id = $3::uuid"
"""Condition on the item of a claim that still holds: an item that has ended has no lease. Its values come
from `held_by`."""

type ItemKey = tuple[str, int]
"""Job id and index."""

type Transition = Callable[[ItemState], ItemState]


def held_by(claim: ItemClaim) -> tuple[Any, ...]:
    """Return the values $1 to $3 of HELD."""
    return claim.job_id, claim.item_index, claim.lease_id


async def require_held(connection: Connection, claim: ItemClaim) -> None:
    """Lock the item of a claim: nobody takes it before the transaction ends. Raises ClaimLostError."""
    if not await connection.fetchval(
        f"SELECT true FROM ingestion_items WHERE {HELD} FOR UPDATE", *held_by(claim)
    ):
        raise ClaimLostError(claim)


async def first_waiting(
    connection: Connection, condition: str, *, alone: bool, use: ClientUse
) -> asyncpg.Record | None:
    """Return the item `i` of a condition that is next to be worked on, with its job's collection and
    principals: the first of the client that has used least. It is locked; None if it is a suspect and the
    worker is not `alone`."""
    row = await connection.fetchrow(
        f"""
        SELECT i.*, j.collection_id AS job_collection_id, j.principals, j.traceparent
        FROM ingestion_items i JOIN ingestion_jobs j USING (job_id)
        LEFT JOIN unnest($1::text[], $2::float8[]) AS u (client, seconds)
            ON u.client = coalesce(j.principals[1], '')
        WHERE {condition} AND i.{PENDING} AND i.lease_id IS NULL
          AND i.available_time <= clock_timestamp() AND coalesce(j.principals[1], '') <> ALL($3::text[])
        ORDER BY coalesce(u.seconds, 0), i.queue_id LIMIT 1 FOR UPDATE OF i SKIP LOCKED
        """,
        list(use.seconds),
        list(use.seconds.values()),
        list(use.passed_over),
    )
    return None if row is None or (row["is_suspect"] and not alone) else row


async def begin_item(
    connection: Connection, row: asyncpg.Record, lease_id: str, *, seconds: float
) -> LeasedItem:
    """Lease an item of `first_waiting`, in the same transaction."""
    claim = ItemClaim(str(row["job_id"]), row["item_index"], lease_id)
    begun = begin(item_state(row), lease_id, alone=row["is_suspect"])
    await save_items(connection, {_key(row): begun}, lease_seconds=seconds)
    return LeasedItem(
        claim=claim,
        collection_id=row["job_collection_id"],
        uri=row["uri"],
        document_id="",
        attempts=begun.counted_attempts,
        principals=row["principals"],
        traceparent=row["traceparent"] or "",
    )


async def change_items(
    connection: Connection,
    condition: str,
    values: Sequence[Any],
    transition: Transition,
    *,
    pause_seconds: float | None = None,
    skip_locked: bool = False,
) -> Mapping[ItemKey, ItemState]:
    """Apply a transition to the items of a condition, which are locked until the transaction ends; return
    their new states. `pause_seconds`: minimum time until they are begun."""
    rows = await connection.fetch(
        f"""
        SELECT * FROM ingestion_items i WHERE {condition}
        ORDER BY job_id, item_index FOR UPDATE OF i {"SKIP LOCKED" if skip_locked else ""}
        """,
        *values,
    )
    changed = {_key(row): transition(item_state(row)) for row in rows}
    await save_items(connection, changed, pause_seconds=pause_seconds)
    return changed


async def change_held_item(
    connection: Connection, claim: ItemClaim, transition: Transition, *, pause_seconds: float | None = None
) -> ItemState:
    """Apply a transition to the item of a claim. Raises ClaimLostError, which rolls the transaction back."""
    changed = await change_items(connection, HELD, held_by(claim), transition, pause_seconds=pause_seconds)
    for item in changed.values():
        return item
    raise ClaimLostError(claim)


async def save_items(
    connection: Connection,
    items: Mapping[ItemKey, ItemState],
    *,
    lease_seconds: float | None = None,
    pause_seconds: float | None = None,
) -> None:
    """Write items that the transaction holds locked. `lease_seconds`: term of their new leases."""
    if not items:
        return
    await connection.execute(
        _SQL["save"],
        [job_id for job_id, _ in items],
        [index for _, index in items],
        [enum_text(document_pb2.IngestionState, item.state) for item in items.values()],
        [item.lease_id or None for item in items.values()],
        [item.is_alone for item in items.values()],
        [item.is_suspect for item in items.values()],
        [item.attempts for item in items.values()],
        [item.forgiven_attempts for item in items.values()],
        [_outcome_text(item) for item in items.values()],
        [failure_json(item.failure) for item in items.values()],
        [item.chunks.parsed for item in items.values()],
        [item.chunks.contextualized for item in items.values()],
        [item.chunks.embedded for item in items.values()],
        [item.chunks.stored for item in items.values()],
        lease_seconds,
        pause_seconds,
        [item.has_ended for item in items.values()],
    )


async def finish_items(
    connection: Connection,
    finished: Sequence[tuple[ItemClaim, StoredOutcome, int]],
    *,
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Mark items done by the right of their claims, each with its document, outcome and number of new chunks.

    `replaced` are the revisions that were in use before, by the ids of documents. Raises ClaimLostError,
    which rolls the transaction back.
    """
    if not finished:
        return
    by_key = {(claim.job_id, claim.item_index): (claim, stored, count) for claim, stored, count in finished}
    rows = await connection.fetch(
        _SQL["lock_held"],
        [claim.job_id for claim, _, _ in finished],
        [claim.item_index for claim, _, _ in finished],
        [claim.lease_id for claim, _, _ in finished],
    )
    held = {_key(row): item_state(row) for row in rows}
    for key, (claim, _, _) in by_key.items():
        if key not in held:
            raise ClaimLostError(claim)
    await save_items(
        connection,
        {key: finish(held[key], stored[1], count) for key, (_, stored, count) in by_key.items()},
    )
    await connection.execute(
        _SQL["name_stored"],
        [job_id for job_id, _ in by_key],
        [index for _, index in by_key],
        [stored[0] for _, stored, _ in by_key.values()],
        [replaced.get(stored[0]) for _, stored, _ in by_key.values()],
        [stored[1] in _CHANGES for _, stored, _ in by_key.values()],
    )
    await drop_payloads(connection, list(by_key))


async def cancel_items_of(connection: Connection, collection_id: str, uris: Sequence[str]) -> None:
    """Cancel unfinished items of documents that are deleted, so that no worker brings them back."""
    cancelled = await change_items(
        connection,
        f"collection_id = $1 AND uri = ANY($2::text[]) AND {PENDING}",
        [collection_id, list(uris)],
        cancel,
    )
    await drop_payloads(connection, list(cancelled))


async def drop_payloads(connection: Connection, keys: Sequence[ItemKey]) -> None:
    """Delete the contents of items."""
    await connection.execute(
        """
        DELETE FROM ingestion_payloads p USING unnest($1::uuid[], $2::int[]) AS k (job_id, item_index)
        WHERE (p.job_id, p.item_index) = (k.job_id, k.item_index)
        """,
        [job_id for job_id, _ in keys],
        [index for _, index in keys],
    )


def _outcome_text(item: ItemState) -> str | None:
    """Return the outcome as it is stored; None for a skipped item, which earlier releases could not read: an
    item that is done and has a failure was skipped."""
    is_skipped = item.outcome == job_pb2.INGESTION_OUTCOME_SKIPPED
    return None if is_skipped else enum_text(job_pb2.IngestionOutcome, item.outcome)


def item_state(row: asyncpg.Record) -> ItemState:
    is_skipped = row["state"] == "done" and row["failure"] is not None
    return ItemState(
        state=read_enum(document_pb2.IngestionState, row["state"]),
        lease_id=str(row["lease_id"] or ""),
        is_alone=row["is_alone"],
        is_suspect=row["is_suspect"],
        attempts=row["attempts"],
        forgiven_attempts=row["forgiven_attempts"],
        outcome=job_pb2.INGESTION_OUTCOME_SKIPPED
        if is_skipped
        else read_enum(job_pb2.IngestionOutcome, row["outcome"]),
        failure=read_failure(row["failure"]),
        chunks=chunk_counts(row),
    )


def chunk_counts(row: asyncpg.Record | Mapping[str, Any]) -> job_pb2.ChunkCounts:
    """Return the counts in a row of items, or in a sum of them."""
    return job_pb2.ChunkCounts(
        parsed=row["parsed_count"],
        contextualized=row["contextualized_count"],
        embedded=row["embedded_count"],
        stored=row["stored_count"],
    )


def _key(row: asyncpg.Record) -> ItemKey:
    return str(row["job_id"]), row["item_index"]
