"""Sources, their runs and their documents, in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import asyncpg
from groundline.v1 import source_pb2
from groundline_database import (
    Connection,
    Pool,
    acquire,
    is_replaceable_document,
    read_statements,
    transaction,
)
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import HandedIn
from groundline_indexing.partitions import PENDING
from groundline_runtime.context import current_traceparent
from groundline_runtime.errors import AlreadyExistsError, NotFoundError

from groundline_ingestor.adapters.postgres.collecting.crawls import insert_page
from groundline_ingestor.adapters.postgres.collections import hold_collection
from groundline_ingestor.adapters.postgres.documents.deletion import delete_documents
from groundline_ingestor.adapters.postgres.items import (
    begin_item,
    cancel_items_of,
    change_items,
    first_waiting,
    require_held,
)
from groundline_ingestor.adapters.postgres.records import read_source
from groundline_ingestor.domain.jobs import cancel
from groundline_ingestor.domain.sources import OrderedRun, StoredSource, definition_of
from groundline_ingestor.domain.work import NO_USE, ClientUse, ItemClaim, LeasedItem

_SQL: Final = read_statements(__name__)

REMOVED_AT_ONCE: Final = 500
"""Documents deleted in one transaction of a run."""
BEGUN_AT_ONCE: Final = 100

_SELECT: Final = """
    SELECT s.*, (SELECT count(*) FROM source_documents d WHERE d.source_id = s.source_id) AS document_count
    FROM sources s
"""
_OF_A_SOURCE: Final = """
    (i.source_id IS NOT NULL OR i.dry_source_id IS NOT NULL)
    AND EXISTS (SELECT FROM sources s WHERE s.source_id = coalesce(i.source_id, i.dry_source_id))
"""
_PENDING_RUNS: Final = f"(source_id = $1::uuid OR dry_source_id = $1::uuid) AND {PENDING}"
_TELL: Final = "SELECT pg_notify('groundline_items', '')"
_FORGET_VERSIONS: Final = "UPDATE source_documents SET version = '' WHERE source_id = $1::uuid"

# Column that names the source of a run, by whether it is a dry one.
_RUN_OF: Final = {False: "source_id", True: "dry_source_id"}

# A change of a collection locks it, and then its sources: whoever locks a source has to lock the collection
# before. A job refers to the collection, and takes the same lock on it.
_HOLD_COLLECTION: Final = "SELECT FROM collections WHERE collection_id = $1 FOR KEY SHARE"


class PostgresSources:
    """Store of sources, of their runs, which are items of jobs as crawls are, and of their documents.

    A claim on a run is handled like one on an item; see PostgresQueue. Any method raises UnavailableError
    while the store is down.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(self, source: source_pb2.DocumentSource, principals: Sequence[str]) -> None:
        """Store a source with its ids, due at once. Raises AlreadyExistsError (SOURCE_NAME_TAKEN),
        NotFoundError when the collection was deleted."""
        try:
            async with transaction(self._pool) as connection:
                await connection.execute(
                    _SQL["create"],
                    source.source_id,
                    source.collection_id,
                    source.name,
                    definition_of(source),
                    list(principals),
                    source.interval_seconds,
                    source.is_paused,
                )
                await connection.execute(_TELL)
        except asyncpg.UniqueViolationError:
            raise _name_taken(source) from None
        except asyncpg.ForeignKeyViolationError:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {source.collection_id!r}") from None

    async def require_free_name(self, source: source_pb2.DocumentSource) -> None:
        """Require that no other source of the collection has the name. Raises AlreadyExistsError
        (SOURCE_NAME_TAKEN)."""
        async with acquire(self._pool) as connection:
            is_taken = await connection.fetchval(
                "SELECT EXISTS (SELECT FROM sources "
                "WHERE collection_id = $1 AND name = $2 AND source_id <> $3::uuid)",
                source.collection_id,
                source.name,
                source.source_id,
            )
        if is_taken:
            raise _name_taken(source)

    async def find(self, collection_id: str, source_id: str) -> StoredSource | None:
        """Return a source by its id, or None."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"{_SELECT} WHERE collection_id = $1 AND source_id = $2::uuid", collection_id, source_id
            )
        return read_source(row) if row else None

    async def list_sources(self, collection_id: str, *, after: str, limit: int) -> Sequence[StoredSource]:
        """Return the first `limit` sources by name, above the name `after`."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"{_SELECT} WHERE collection_id = $1 AND name > $2 ORDER BY name LIMIT $3",
                collection_id,
                after,
                limit,
            )
        return [read_source(row) for row in rows]

    async def update(
        self, before: StoredSource, after: source_pb2.DocumentSource, principals: Sequence[str] | None
    ) -> bool:
        """Replace the definition of a source; return False if it was deleted or has changed since `before`.

        With principals, by whose rights runs then act, its run is cancelled, it is due at once unless it is
        paused, and reads everything again. Without, its next run follows from interval and pause. Raises
        AlreadyExistsError (SOURCE_NAME_TAKEN).
        """
        source_id = after.source_id
        try:
            async with transaction(self._pool) as connection:
                await connection.execute(_HOLD_COLLECTION, before.message.collection_id)
                updated = await connection.fetchval(
                    _SQL["update"],
                    source_id,
                    definition_of(before.message),
                    after.name,
                    definition_of(after),
                    after.interval_seconds,
                    None if principals is None else list(principals),
                    after.is_paused,
                )
                if not updated:
                    return False
                if principals is not None:
                    await change_items(connection, _PENDING_RUNS, [source_id], cancel)
                    await connection.execute(_FORGET_VERSIONS, source_id)
                await connection.execute(_TELL)
        except asyncpg.UniqueViolationError:
            raise _name_taken(after) from None
        return True

    async def delete(self, collection: StoredCollection, source: StoredSource, *, documents: bool) -> bool:
        """Delete a source and cancel its run, with its documents if `documents` says so, in one transaction;
        return False if it was deleted already."""
        source_id = source.message.source_id
        async with transaction(self._pool) as connection:
            await hold_collection(connection, collection)
            if not await connection.fetchval(
                "SELECT true FROM sources WHERE source_id = $1::uuid FOR UPDATE", source_id
            ):
                return False
            await change_items(connection, _PENDING_RUNS, [source_id], cancel)
            if documents:
                uris = await connection.fetch(
                    "SELECT uri FROM source_documents WHERE source_id = $1::uuid", source_id
                )
                await _delete(connection, collection, source, [row["uri"] for row in uris])
            await connection.execute("DELETE FROM sources WHERE source_id = $1::uuid", source_id)
        return True

    async def enqueue(self, source: StoredSource, *, full: bool = False) -> str:
        """Return the id of a run's job: of the unfinished one, or else of a new one. `full`: as if the source
        had never run. Raises NotFoundError when the source was deleted."""
        source_id = source.message.source_id
        async with transaction(self._pool) as connection:
            await connection.execute(_HOLD_COLLECTION, source.message.collection_id)
            row = await connection.fetchrow(
                "SELECT * FROM sources WHERE source_id = $1::uuid FOR UPDATE", source_id
            )
            if row is None:
                raise NotFoundError("SOURCE_NOT_FOUND", f"no source {source_id}")
            if full:
                await connection.execute(_FORGET_VERSIONS, source_id)
                await connection.execute(
                    "UPDATE sources SET cursor = '' WHERE source_id = $1::uuid", source_id
                )
            return await _enqueue(connection, row)

    async def enqueue_due(self) -> Sequence[str]:
        """Begin runs of the sources that are due, and set the next; return ids of the jobs."""
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["lock_due"],
                BEGUN_AT_ONCE,
            )
            begun = [await _enqueue(connection, row) for row in rows]
            await connection.execute(_SQL["set_next_runs"], [row["source_id"] for row in rows])
        return begun

    async def lease(
        self, lease_id: str, *, seconds: float, alone: bool, use: ClientUse = NO_USE
    ) -> tuple[LeasedItem, OrderedRun] | None:
        """Claim a queued run; as PostgresCrawls.lease."""
        async with transaction(self._pool) as connection:
            row = await first_waiting(connection, _OF_A_SOURCE, alone=alone, use=use)
            if row is None:
                return None
            source_id = row["source_id"] or row["dry_source_id"]
            source = await connection.fetchrow(f"{_SELECT} WHERE source_id = $1", source_id)
            if source is None:  # deleted since
                return None
            item = await begin_item(connection, row, lease_id, seconds=seconds)
        return item, OrderedRun(read_source(source), is_dry_run=row["dry_source_id"] is not None)

    async def enqueue_dry_run(self, source: StoredSource) -> str:
        """Return the id of a new job that is a dry run. Raises NotFoundError when the source was deleted."""
        async with transaction(self._pool) as connection:
            await connection.execute(_HOLD_COLLECTION, source.message.collection_id)
            row = await connection.fetchrow(
                "SELECT * FROM sources WHERE source_id = $1::uuid FOR SHARE", source.message.source_id
            )
            if row is None:
                raise NotFoundError("SOURCE_NOT_FOUND", f"no source {source.message.source_id}")
            return await _insert_run(connection, row, is_dry_run=True)

    async def known(self, source: StoredSource, versions: Mapping[str, str | None]) -> Collection[str]:
        """Return the same as `unchanged`, but record nothing."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["known"],
                source.message.collection_id,
                source.message.source_id,
                list(versions),
                list(versions.values()),
            )
        return {row["uri"] for row in rows}

    async def brought(self, source: StoredSource, *, after: str, limit: int) -> Sequence[str]:
        """Return the first `limit` uris, above the uri `after`, of the source's documents that its creator
        may delete."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"""
                SELECT s.uri FROM source_documents s
                JOIN documents d ON (d.collection_id, d.uri) = (s.collection_id, s.uri)
                WHERE s.source_id = $1::uuid AND s.uri > $2 AND {is_replaceable_document("$3", "d")}
                ORDER BY s.uri LIMIT $4
                """,
                source.message.source_id,
                after,
                list(source.principals),
                limit,
            )
        return [row["uri"] for row in rows]

    async def unchanged(
        self, claim: ItemClaim, source: StoredSource, versions: Mapping[str, str | None]
    ) -> Collection[str]:
        """Record that the run found documents, by uri with their versions, None for the known one; return the
        uris of those that need not be read: their version is known, and they exist. Raises ClaimLostError."""
        async with transaction(self._pool) as connection:
            await require_held(connection, claim)
            # Documents that were deleted by hand are brought again.
            rows = await connection.fetch(
                _SQL["find_documents"],
                claim.job_id,
                source.message.collection_id,
                source.message.source_id,
                list(versions),
                list(versions.values()),
            )
        return {row["uri"] for row in rows if row["is_unchanged"]}

    async def brought_by_others(self, source: StoredSource, uris: Sequence[str]) -> Collection[str]:
        """Return those of the uris whose documents another source has brought, or who handed them in."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["brought_by_others"],
                source.message.collection_id,
                list(uris),
                source.message.source_id,
            )
        return {row["uri"] for row in rows}

    async def add(
        self,
        claim: ItemClaim,
        source: StoredSource,
        collection: StoredCollection,
        found: HandedIn,
        version: str,
    ) -> None:
        """Queue a document as an item of the run's job and record its version, in one transaction. Does
        nothing if the job has the document. Raises ClaimLostError."""
        async with transaction(self._pool) as connection:
            if await insert_page(connection, claim, collection, found):
                await connection.execute(
                    _SQL["record_document"],
                    collection.collection_id,
                    found.version.uri,
                    source.message.source_id,
                    version,
                    claim.job_id,
                )

    async def remove(
        self,
        claim: ItemClaim,
        source: StoredSource,
        collection: StoredCollection,
        uris: Sequence[str] | None = None,
    ) -> int:
        """Delete documents of the source: those of the uris, or at most some hundreds of those that the run
        did not find; forget them, and return their number. Raises ClaimLostError, PermissionDeniedError
        (COLLECTION_NOT_WRITABLE), AbortedError when the collection's partition was dropped."""
        async with transaction(self._pool) as connection:
            await hold_collection(connection, collection, for_callers=[source.principals])
            await require_held(connection, claim)
            rows = await connection.fetch(
                _SQL["lock_missing"],
                source.message.source_id,
                None if uris is None else list(uris),
                claim.job_id,
                REMOVED_AT_ONCE if uris is None else len(uris),
            )
            gone = [row["uri"] for row in rows]
            deleted = await _delete(connection, collection, source, gone)
            await connection.execute(
                "DELETE FROM source_documents WHERE collection_id = $1 AND uri = ANY($2::text[])",
                collection.collection_id,
                gone,
            )
            await connection.execute(
                "UPDATE ingestion_jobs SET deleted_count = deleted_count + $2 WHERE job_id = $1::uuid",
                claim.job_id,
                deleted,
            )
        return len(gone)

    async def reach(self, claim: ItemClaim, source: StoredSource, cursor: str) -> None:
        """Store the cursor up to which the source was read. Raises ClaimLostError."""
        async with transaction(self._pool) as connection:
            await require_held(connection, claim)
            await connection.execute(
                "UPDATE sources SET cursor = $2 WHERE source_id = $1::uuid", source.message.source_id, cursor
            )


def _name_taken(source: source_pb2.DocumentSource) -> AlreadyExistsError:
    return AlreadyExistsError("SOURCE_NAME_TAKEN", f"the collection has a source named {source.name!r}")


async def _enqueue(connection: Connection, source: asyncpg.Record) -> str:
    """Return the job of a run of a source whose row is locked. Earlier runs without finds are deleted."""
    pending = await connection.fetchval(
        f"SELECT job_id FROM ingestion_items WHERE source_id = $1 AND {PENDING}", source["source_id"]
    )
    if pending:
        return str(pending)
    if source["last_job_id"]:
        await connection.execute(
            _SQL["delete_empty_run"],
            source["last_job_id"],
        )
    job_id = await _insert_run(connection, source, is_dry_run=False)
    await connection.execute(
        "UPDATE sources SET last_job_id = $2::uuid WHERE source_id = $1", source["source_id"], job_id
    )
    return job_id


async def _insert_run(connection: Connection, source: asyncpg.Record, *, is_dry_run: bool) -> str:
    """Insert a job with the item that reads the source; return the job's id."""
    job_id = str(uuid.uuid4())
    await connection.execute(
        """
        INSERT INTO ingestion_jobs (job_id, collection_id, state, principals, is_dry_run, traceparent)
        VALUES ($1::uuid, $2, 'queued', $3, $4, $5)
        """,
        job_id,
        source["collection_id"],
        source["principals"],
        is_dry_run,
        current_traceparent(),
    )
    await connection.execute(
        f"""
        INSERT INTO ingestion_items (job_id, item_index, uri, state, {_RUN_OF[is_dry_run]})
        VALUES ($1::uuid, 0, $2, 'queued', $3)
        """,
        job_id,
        source["name"],
        source["source_id"],
    )
    return job_id


async def _delete(
    connection: Connection, collection: StoredCollection, source: StoredSource, uris: Sequence[str]
) -> int:
    """Delete the documents of uris, except those that the source's creator may not replace."""
    await cancel_items_of(connection, collection.collection_id, uris)
    return await delete_documents(
        connection,
        collection.collection_id,
        f"uri = ANY($2::text[]) AND {is_replaceable_document('$3', 'documents')}",
        [list(uris), list(source.principals)],
        spare_held=True,
    )
