"""Collections in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg
from google.protobuf import json_format
from groundline.v1 import collection_pb2, quota_pb2
from groundline_contracts.times import moment, timestamp
from groundline_database import (
    Connection,
    Pool,
    acquire,
    in_bulk,
    is_readable_collection,
    is_readable_document,
    session,
    transaction,
)
from groundline_indexing.builds import builds_held_off
from groundline_indexing.collections import EVERYONE, StoredCollection
from groundline_indexing.erasure import forget_cached_chunks
from groundline_indexing.partitions import (
    PartitionKind,
    find_partition,
    has_moved,
    note_quantized,
    partitions_with,
    read_settings,
)
from groundline_indexing.revisions.past import set_searchable
from groundline_lexical import LexicalIndex
from groundline_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    NotFoundError,
    PermissionDeniedError,
)
from groundline_runtime.quotas import require_within
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from groundline_ingestor.adapters.postgres.documents.erasures import record_erasure
from groundline_ingestor.domain.collections import may_write

DELETION_ATTEMPTS: Final = 3

# Parts of the settings with columns of their own, here and with the partition.
_COLUMNS: Final = ("access", "embedding", "lexical")

# $1 are the principals that limit the counts, null for all.
_SELECT: Final = f"""
    SELECT c.collection_id, c.name, c.settings, c.readers, c.writers, c.admins, c.create_time, c.update_time,
           p.partition_id, p.embedding_model, p.dimensions, p.language, n.document_count, n.chunk_count,
           c.previous_partition_id IS NOT NULL AS has_previous_index
    FROM collections c
    JOIN chunk_partitions p USING (partition_id)
    CROSS JOIN LATERAL (
        SELECT count(*) AS document_count, coalesce(sum(d.chunk_count), 0) AS chunk_count
        FROM documents d WHERE d.collection_id = c.collection_id AND d.chunk_count > 0
          AND ($1::text[] IS NULL OR {is_readable_document("$1", "d")})
    ) n
"""


class PostgresCollections:
    """Store of collections and their partitions. Any method raises UnavailableError while the store is
    down."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical

    async def create(
        self,
        collection: collection_pb2.Collection,
        creator: str,
        request_id: str,
        *,
        maximum: int | None = None,
    ) -> StoredCollection:
        """Store a collection, whose embedding, lexical and access settings are complete, with an empty
        partition, in one transaction. `maximum`: collections that its creator may have.

        Returns the stored collection when its creator used the `request_id` before. Raises
        AlreadyExistsError, ResourceExhaustedError (QUOTA_EXHAUSTED).
        """
        try:
            async with transaction(self._pool) as connection:
                if maximum is not None:
                    await _require_room(connection, creator, request_id, maximum)
                await self._insert(connection, collection, creator, request_id)
        except asyncpg.UniqueViolationError:
            repeated = await self._find_by_request_id(creator, request_id) if request_id else None
            if repeated is None:
                raise _id_taken(collection.collection_id) from None
            return repeated
        created = await self.find(collection.collection_id)
        assert created is not None, "nobody but its creator knows it yet"
        return created

    async def require_free(self, collection_id: str) -> None:
        """Require that no collection has the id. Raises AlreadyExistsError."""
        if await self.find(collection_id) is not None:
            raise _id_taken(collection_id)

    async def find(
        self, collection_id: str, principals: Sequence[str] | None = None
    ) -> StoredCollection | None:
        """Return the collection with its counts: of documents that one of the principals may read, of all
        without principals."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"{_SELECT} WHERE c.collection_id = $2",
                None if principals is None else list(principals),
                collection_id,
            )
        return _collection(row) if row else None

    async def list_readable(
        self, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[StoredCollection]:
        """Return the first `limit` collections by id, above the id `after`, that one of the principals may
        read."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"{_SELECT} WHERE c.collection_id > $2 AND {is_readable_collection('$1', 'c')} "
                "ORDER BY c.collection_id LIMIT $3",
                list(principals),
                after,
                limit,
            )
        return [_collection(row) for row in rows]

    async def update(self, changed: collection_pb2.Collection) -> bool:
        """Replace name, settings and access; return False if the collection was deleted or no longer has the
        update_time of `changed`."""
        async with transaction(self._pool) as connection:
            updated = await connection.fetchval(
                """
                UPDATE collections
                SET name = $2, settings = $3, readers = $4, writers = $5, admins = $6,
                    update_time = clock_timestamp()
                WHERE collection_id = $1 AND update_time = $7
                RETURNING true
                """,
                changed.collection_id,
                changed.name,
                settings_json(changed.settings),
                *_access_columns(changed.settings.access),
                moment(changed.update_time),
            )
            if updated:
                await self._set_searchable(connection, changed)
        return updated is not None

    async def delete(self, collection_id: str) -> bool:
        """Delete the collection, its documents and its partition, in one transaction; return False if it was
        deleted already."""
        async with session(self._pool) as connection:
            own = [
                partition.partition_id
                for partition in await partitions_with(connection, collection_id)
                if not partition.is_shared
            ]
            # Partitions that are added in between are empty, and without builds.
            async with builds_held_off(connection, own):
                # A worker may hold an item and wait for a lock of the deletion, which waits for the item.
                deletion = AsyncRetrying(
                    retry=retry_if_exception_type(asyncpg.DeadlockDetectedError),
                    stop=stop_after_attempt(DELETION_ATTEMPTS),
                    reraise=True,
                )
                with in_bulk():
                    return await deletion(delete_collection, connection, collection_id)

    async def _insert(
        self, connection: Connection, collection: collection_pb2.Collection, creator: str, request_id: str
    ) -> None:
        settings = collection.settings
        partition_id = await find_partition(
            connection, self._lexical, collection.collection_id, PartitionKind.of(settings)
        )
        await connection.execute(
            """
            INSERT INTO collections
                (collection_id, name, settings, readers, writers, admins, partition_id, creator, request_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, ''))
            """,
            collection.collection_id,
            collection.name,
            settings_json(settings),
            *_access_columns(settings.access),
            partition_id,
            creator,
            request_id,
        )
        await note_quantized(connection, collection.collection_id)
        await self._set_searchable(connection, collection)

    async def _set_searchable(self, connection: Connection, collection: collection_pb2.Collection) -> None:
        await set_searchable(
            connection,
            self._lexical,
            collection.collection_id,
            is_searchable=collection.settings.history.searchable,
        )

    async def _find_by_request_id(self, creator: str, request_id: str) -> StoredCollection | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"{_SELECT} WHERE c.creator = $2 AND c.request_id = $3", None, creator, request_id
            )
        return _collection(row) if row else None


def _id_taken(collection_id: str) -> AlreadyExistsError:
    return AlreadyExistsError("COLLECTION_EXISTS", f"the collection id {collection_id!r} is taken")


async def _require_room(connection: Connection, creator: str, request_id: str, maximum: int) -> None:
    """Require room for another collection of a caller, who creates no other before the transaction ends. The
    one that the same request has created does not count. Raises ResourceExhaustedError (QUOTA_EXHAUSTED)."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"creator:{creator}")
    used = await connection.fetchval(
        "SELECT count(*) FROM collections WHERE creator = $1 AND request_id IS DISTINCT FROM $2",
        creator,
        request_id,
    )
    require_within(quota_pb2.QUOTA_COLLECTIONS, used, 1, maximum)


async def delete_collection(connection: Connection, collection_id: str) -> bool:
    """Delete a collection with its partitions, of which no index is being built; return whether there was
    one."""
    async with connection.transaction():
        # Waits for documents being stored, which hold a share lock on the row.
        found = await connection.fetchval(
            "SELECT true FROM collections WHERE collection_id = $1 FOR UPDATE", collection_id
        )
        if not found:
            return False
        await record_erasure(connection, collection_id, None)
        for partition in await partitions_with(connection, collection_id):
            # Rows of earlier releases name no collection, in partitions of a collection's own.
            condition = "coalesce(collection_id, $1) = $1"
            await forget_cached_chunks(connection, partition, condition, collection_id)
            if partition.is_shared:
                await connection.execute(
                    f"DELETE FROM {partition.table} WHERE collection_id = $1", collection_id
                )
            else:
                await connection.execute(f"DROP TABLE {partition.table}")
        await connection.execute("DELETE FROM collections WHERE collection_id = $1", collection_id)
    return True


def _access_columns(access: collection_pb2.AccessSettings) -> tuple[list[str], list[str], list[str]]:
    """Return readers, writers and admins as they are stored: an empty list restricts nothing further."""
    readers, writers, admins = (
        [] if EVERYONE in principals else list(principals)
        for principals in (access.readers, access.writers, access.admins)
    )
    return readers, writers, admins


def read_access(row: asyncpg.Record) -> collection_pb2.AccessSettings:
    """Return the access settings of a row of `collections`."""
    readers = row["readers"] or [EVERYONE]
    writers = row["writers"] or readers
    return collection_pb2.AccessSettings(readers=readers, writers=writers, admins=row["admins"] or writers)


def settings_json(settings: collection_pb2.CollectionSettings) -> dict[str, Any]:
    """Return settings as they are stored: proto3 JSON of the given values, without those with columns of
    their own."""
    stored: dict[str, Any] = json_format.MessageToDict(settings)
    return {name: value for name, value in stored.items() if name not in _COLUMNS}


def _collection(row: asyncpg.Record) -> StoredCollection:
    settings = read_settings(row)
    settings.access.CopyFrom(read_access(row))
    message = collection_pb2.Collection(
        collection_id=row["collection_id"],
        name=row["name"],
        settings=settings,
        document_count=row["document_count"],
        chunk_count=row["chunk_count"],
        create_time=timestamp(row["create_time"]),
        update_time=timestamp(row["update_time"]),
        has_previous_index=row["has_previous_index"],
    )
    return StoredCollection(message, row["partition_id"])


async def hold_collection(
    connection: Connection, collection: StoredCollection, *, for_callers: Iterable[Sequence[str]] = ()
) -> int:
    """Keep the collection in its partition, and its access as it is, until the transaction ends; return the
    partition's id. `for_callers`: principals of each caller on whose behalf it is written.

    It may have moved since it was looked up, which changes no chunk. Raises NotFoundError,
    PermissionDeniedError (COLLECTION_NOT_WRITABLE), and AbortedError when it was indexed again.
    """
    row = await connection.fetchrow(
        "SELECT partition_id, readers, writers, admins FROM collections WHERE collection_id = $1 FOR SHARE",
        collection.collection_id,
    )
    if row is None:
        raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")
    access = read_access(row)
    if not all(may_write(access, principals) for principals in for_callers):
        raise no_longer_writable()
    partition_id: int = row["partition_id"]
    if partition_id != collection.partition_id and not await has_moved(
        connection, collection.collection_id, collection.partition_id, partition_id
    ):
        raise collection_changed()
    return partition_id


def no_longer_writable() -> PermissionDeniedError:
    """Return the error of work whose caller has lost the right to write since it asked for it."""
    return PermissionDeniedError(
        "COLLECTION_NOT_WRITABLE", "who asked for it may no longer write the collection"
    )


def collection_changed() -> AbortedError:
    """Return the error of a caller whose partition was left or dropped."""
    return AbortedError("COLLECTION_CHANGED", "the collection was indexed again meanwhile; try again")
