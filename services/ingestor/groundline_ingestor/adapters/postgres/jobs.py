"""Ingestion jobs in PostgreSQL."""

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import asyncpg
from groundline.v1 import chat_pb2, document_pb2, job_pb2, passage_pb2
from groundline_database import (
    WRITTEN_POSITION,
    Connection,
    Pool,
    acquire,
    in_bulk,
    is_readable_collection,
    is_readable_document,
    is_replaceable_document,
    position_text,
    read_statements,
    transaction,
)
from groundline_database.codecs import enum_text, read_enum
from groundline_extraction.documents import FileContent
from groundline_indexing.chunks import copy_in_groups
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion, HandedIn
from groundline_indexing.partitions import PENDING
from groundline_runtime.context import current_traceparent
from groundline_runtime.errors import NotFoundError

from groundline_ingestor.adapters.postgres.items import change_items, chunk_counts, item_state
from groundline_ingestor.adapters.postgres.records import input_json
from groundline_ingestor.domain.jobs import JobKind, StoredJob, Tally, cancel, retry, summarize

_SQL: Final = read_statements(
    __name__,
    is_readable_document=is_readable_document("$1", "d"),
    is_readable_collection=is_readable_collection("$1", "c"),
    is_replaceable=is_replaceable_document("j.principals", "d", container="m.container_uri"),
    written_position=WRITTEN_POSITION,
)

PAYLOAD_PART: Final = 1 << 20
"""Bytes of content in one row."""

PARTS_AT_ONCE: Final = 64
"""Parts of contents in one COPY, 64 MiB: far below a statement's time limit."""


class PostgresJobs:
    """Store of jobs and their items. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def enqueue(
        self,
        collection: StoredCollection,
        handed_in: Sequence[HandedIn],
        principals: Sequence[str],
        request_id: str,
    ) -> job_pb2.IngestionJob:
        """Store a job of a caller with its documents' content, in one transaction.

        A new document exists from now on, without chunks. Returns the earlier job when its collection knows
        the `request_id` already. Raises NotFoundError when the collection was deleted.
        """
        try:
            async with transaction(self._pool) as connection:
                job_id = await insert_job(connection, collection.collection_id, principals, request_id)
                if job_id is not None:
                    await insert_documents(connection, collection, handed_in)
                    numbered = list(enumerate(handed_in))
                    await insert_items(connection, collection.collection_id, job_id, numbered)
        except asyncpg.ForeignKeyViolationError:
            raise collection_gone(collection) from None
        stored = (
            await self.find(job_id, principals)
            if job_id is not None
            else await self.find_by_request_id(collection.collection_id, request_id, principals)
        )
        if stored is None:
            raise collection_gone(collection)
        return stored

    async def find(self, job_id: str, principals: Sequence[str] | None = None) -> job_pb2.IngestionJob | None:
        """Return the job, with counts of the items that `items` returns."""
        return await self._find(principals, "j.job_id = $2::uuid", job_id)

    async def find_all(
        self, job_ids: Sequence[str], principals: Sequence[str]
    ) -> Mapping[str, job_pb2.IngestionJob]:
        """Return the existing jobs by id, each as `find` returns it."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"{_SQL['select']} WHERE j.job_id = ANY($2::uuid[])", list(principals), list(job_ids)
            )
        return {str(row["job_id"]): _job(row) for row in rows}

    async def find_by_request_id(
        self, collection_id: str, request_id: str, principals: Sequence[str] | None = None
    ) -> job_pb2.IngestionJob | None:
        """Return the job of a request, as `find` returns it; None without an id."""
        if not request_id:
            return None
        condition = "j.collection_id = $2 AND j.request_id = $3"
        return await self._find(principals, condition, collection_id, request_id)

    async def items(
        self,
        job_id: str,
        principals: Sequence[str] | None,
        *,
        after: int,
        limit: int,
        only_failed: bool = False,
    ) -> Sequence[job_pb2.IngestionItem]:
        """Return the first `limit` items, or failed items, above the index `after`.

        With principals, without the items whose document none of them may read, unless the first of them
        handed the job in.
        """
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["items"],
                None if principals is None else list(principals),
                job_id,
                after,
                limit,
                only_failed,
            )
        return [_item(row) for row in rows]

    async def changed_items(
        self, job_id: str, principals: Sequence[str], *, within_seconds: float, limit: int
    ) -> Sequence[job_pb2.IngestionItem]:
        """Return items that changed within the last `within_seconds`, by index; as `items`."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["changed_items"], list(principals), job_id, within_seconds, limit
            )
        return [_item(row) for row in rows]

    async def list_readable(
        self,
        principals: Sequence[str],
        *,
        collection_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> Sequence[job_pb2.IngestionJob]:
        """Return jobs on readable collections, newest first (by create_time, then id), below `before`."""
        before_time, before_id = before or (None, None)
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["list_readable"], list(principals), collection_id, before_time, before_id, limit
            )
        return [_job(row) for row in rows]

    async def cancel(self, job_id: str) -> None:
        """Cancel the unfinished items; claims on them are void from then on."""
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["hold_collection"], job_id)
            # No item is added to it from here on, so that the next statement sees all of them.
            await connection.execute(
                "SELECT FROM ingestion_items WHERE job_id = $1::uuid AND item_index = 0 FOR UPDATE", job_id
            )
            with in_bulk():
                await change_items(connection, f"job_id = $1::uuid AND {PENDING}", [job_id], cancel)
                await connection.execute(_SQL["cancel"], job_id)
                # Documents being stored are locked; their transactions end by themselves.
                await connection.execute(_SQL["cancel_documents"], job_id)

    async def retry(self, job_id: str) -> int:
        """Queue failed and cancelled items again, except those whose uri a later item is done for or whose
        content is not kept; and a crawl that could not have all pages. Returns their number."""
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["hold_collection"], job_id)
            with in_bulk():
                retried = await change_items(connection, _SQL["retriable"], [job_id], retry, pause_seconds=0)
            if retried:
                await connection.execute(
                    """
                    UPDATE ingestion_jobs SET cancel_time = NULL, is_announced = false
                    WHERE job_id = $1::uuid
                    """,
                    job_id,
                )
        return len(retried)

    async def _find(
        self, principals: Sequence[str] | None, condition: str, *values: str
    ) -> job_pb2.IngestionJob | None:
        """Find a job by a condition whose values are numbered from $2."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"{_SQL['select']} WHERE {condition}",
                None if principals is None else list(principals),
                *values,
            )
        return _job(row) if row else None


async def insert_job(
    connection: Connection,
    collection_id: str,
    principals: Sequence[str],
    request_id: str,
    *,
    is_dry_run: bool = False,
) -> str | None:
    """Insert a caller's job without items; return its id, None when its collection knows the `request_id`
    already."""
    job_id: str | None = await connection.fetchval(
        _SQL["insert_job"],
        str(uuid.uuid4()),
        collection_id,
        request_id,
        list(principals),
        is_dry_run,
        current_traceparent(),
    )
    return job_id


async def insert_documents(
    connection: Connection, collection: StoredCollection, handed_in: Sequence[HandedIn]
) -> None:
    """Insert rows for new documents. Existing ones are left alone: they may be locked for as long as it takes
    to store them."""
    versions = {one.version.uri: one.version for one in handed_in}
    # An empty ingestion_hash equals no other: there are no chunks yet.
    await connection.executemany(
        _SQL["insert_document"],
        [
            (
                collection.collection_id,
                version.uri,
                enum_text(passage_pb2.SourceType, version.source_type),
                version.title,
                version.mime_type,
                version.content_hash,
                version.input_hash,
                version.size_bytes,
                version.metadata,
                list(version.allowed_principals),
                version.container_uri,
            )
            for _, version in sorted(versions.items())
        ],
    )


async def insert_items(
    connection: Connection, collection_id: str, job_id: str, numbered: Sequence[tuple[int, HandedIn]]
) -> None:
    """Add items by their indexes to a job, with the contents of those that are read."""
    ids = await replaceable_ids(
        connection, collection_id, job_id, [one.version for _, one in numbered if not one.failure]
    )
    await connection.copy_records_to_table(
        "ingestion_items",
        records=[
            (
                job_id,
                index,
                collection_id,
                one.version.uri,
                None if one.failure else ids.get(one.version.uri),
                "queued",
                input_json(replace(one.given, metadata={}) if one.failure else one.given, one.revision),
            )
            for index, one in numbered
        ],
        columns=("job_id", "item_index", "collection_id", "uri", "document_id", "state", "input"),
    )
    payloads = (
        (job_id, index, part, data)
        for index, one in numbered
        if not one.failure
        for part, data in enumerate(payload_parts(one.given.content))
    )
    await copy_in_groups(
        connection,
        "ingestion_payloads",
        payloads,
        columns=("job_id", "item_index", "part", "data"),
        at_once=PARTS_AT_ONCE,
    )


async def replaceable_ids(
    connection: Connection, collection_id: str, job_id: str, versions: Sequence[DocumentVersion]
) -> Mapping[str, str]:
    """Return the ids of the stored documents, by uri, that the job's caller may replace: another stays
    unknown to the job."""
    rows = await connection.fetch(
        _SQL["replaceable"],
        collection_id,
        [version.uri for version in versions],
        job_id,
        [version.container_uri for version in versions],
    )
    return {row["uri"]: row["document_id"] for row in rows}


async def find_job(connection: Connection, job_id: str) -> job_pb2.IngestionJob | None:
    """Return a job with all its items."""
    row = await connection.fetchrow(f"{_SQL['select']} WHERE j.job_id = $2::uuid", None, job_id)
    return _job(row) if row else None


def payload_parts(content: str | bytes | FileContent) -> Iterator[bytes]:
    """Yield at least one part, so that an empty content is kept too."""
    if isinstance(content, FileContent):
        yield from content.parts(PAYLOAD_PART)
        return
    data = content.encode() if isinstance(content, str) else content
    for start in range(0, len(data) or 1, PAYLOAD_PART):
        yield data[start : start + PAYLOAD_PART]


def collection_gone(collection: StoredCollection) -> NotFoundError:
    return NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")


def _usage(row: asyncpg.Record | Mapping[str, Any]) -> chat_pb2.Usage:
    cost = None if row["cost_usd"] is None else float(row["cost_usd"])
    return chat_pb2.Usage(
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["cached_tokens"],
        output_tokens=row["output_tokens"],
        embedding_tokens=row["embedding_tokens"],
        cost_usd=None if cost is None or math.isnan(cost) else cost,
    )


def _item(row: asyncpg.Record) -> job_pb2.IngestionItem:
    item, usage = item_state(row), _usage(row)
    return job_pb2.IngestionItem(
        item_index=row["item_index"],
        uri=row["uri"],
        document_id=str(row["document_id"] or ""),
        state=item.state,
        outcome=item.outcome,
        failure=item.failure,
        attempts=item.attempts,
        chunks=item.chunks,
        usage=usage if usage.ByteSize() else None,
        is_crawl=(row["crawl"] or row["dry_crawl"] or row["source_id"] or row["dry_source_id"]) is not None,
        container_uri=(row["input"] or {}).get("containerUri", ""),
        member_count=row["member_count"],
        undescribed_picture_count=row["undescribed_pictures"] or 0,
    )


def _job(row: asyncpg.Record) -> job_pb2.IngestionJob:
    stored = StoredJob(
        job_id=str(row["job_id"]),
        collection_id=row["collection_id"],
        kind=JobKind(row["kind"]),
        create_time=row["create_time"],
        is_cancelled=row["is_cancelled"],
        state=read_enum(job_pb2.JobState, row["state"]),
        end_time=row["end_time"],
        position=position_text(row["position"]),
        deleted_count=row["deleted_count"],
        is_dry_run=row["is_dry_run"],
        is_held=row["is_held"],
    )
    return summarize(stored, [_tally(one) for one in row["tallies"]])


def _tally(values: Mapping[str, Any]) -> Tally:
    def moment(name: str) -> datetime | None:
        return datetime.fromisoformat(values[name]) if values[name] else None

    return Tally(
        state=read_enum(document_pb2.IngestionState, values["state"]),
        count=values["count"],
        is_crawl=values["is_crawl"],
        is_begun=values["is_begun"],
        is_unchanged=values["is_unchanged"],
        is_skipped=values["is_skipped"],
        is_visible=values["is_visible"],
        chunks=chunk_counts(values),
        usage=_usage(values),
        start_time=moment("start_time"),
        end_time=moment("end_time"),
    )
