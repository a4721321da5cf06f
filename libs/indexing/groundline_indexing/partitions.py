"""Partitions of chunks: one for all small collections of a kind, and one for each that has outgrown it.

Why they share, with figures: docs/adr/0001-shared-partitions.md.
"""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import asyncpg
from google.protobuf import json_format
from groundline.v1 import collection_pb2
from groundline_database import Connection
from groundline_lexical import LexicalIndex

from groundline_indexing.collections import StoredCollection

PENDING: Final = "state NOT IN ('done', 'failed', 'cancelled')"
"""Condition on an unfinished ingestion item, as the partial indexes have it."""

IS_QUANTIZED: Final = "(c.settings #>> '{vectorIndex,quantized}' IS NOT DISTINCT FROM 'true')"
"""Condition on a collection whose settings ask for an index of quantized vectors."""

MAXIMUM_SHARED_CHUNKS: Final = 2_000
"""Maximum chunks of one collection in a shared partition. A search of a few such collections reads all of
their vectors; with more, a collection gets a partition of its own. Documents stored at the same moment may
exceed it."""

GRACE_SECONDS: Final = 60.0
"""Time that a move leaves a collection's chunks in the shared partition, in seconds, for searches that have
begun."""

CLEARED_AT_ONCE: Final = 10
"""Maximum collections whose left rows one call deletes."""


class PartitionKind(NamedTuple):
    """Properties that the collections of a shared partition have in common, beside the backend."""

    embedding_model: str
    dimensions: int
    language: str

    @classmethod
    def of(cls, settings: collection_pb2.CollectionSettings) -> Self:
        return cls(settings.embedding.model, settings.embedding.dimensions, settings.lexical.language)


@dataclass(frozen=True, slots=True)
class ChunkPartition:
    """A table of chunks."""

    partition_id: int
    is_shared: bool

    @property
    def table(self) -> str:
        return chunk_table(self.partition_id)


def chunk_table(partition_id: int) -> str:
    """Return the name of a partition of chunks; safe in SQL."""
    return f"chunks_p{partition_id:d}"


async def find_partition(
    connection: Connection, lexical: LexicalIndex, collection_id: str, kind: PartitionKind
) -> int:
    """Return the partition of a new collection's chunks: the one that small ones share, if the backend
    supports it."""
    if not lexical.capabilities.filters_collections:
        return await create_partition(connection, lexical, collection_id, kind)
    found: int | None = await connection.fetchval(
        """
        SELECT partition_id FROM chunk_partitions
        WHERE collection_id IS NULL AND embedding_model = $1 AND dimensions = $2 AND language = $3
          AND lexical_backend = $4
        """,
        *kind,
        lexical.name,
    )
    return found if found is not None else await create_partition(connection, lexical, None, kind)


async def create_partition(
    connection: Connection, lexical: LexicalIndex, collection_id: str | None, kind: PartitionKind
) -> int:
    """Create an empty partition of a collection, or a shared one; return its id.

    Its HNSW index is built when it has grown. If another process creates the shared one at this moment, wait
    for it.
    """
    partition_id: int | None = await connection.fetchval(
        f"""
        INSERT INTO chunk_partitions
            (collection_id, embedding_model, dimensions, language, lexical_backend, is_quantized)
        SELECT $1, $2, $3, $4, $5, EXISTS (
            SELECT FROM collections c WHERE collection_id = $1 AND {IS_QUANTIZED}
        )
        ON CONFLICT DO NOTHING RETURNING partition_id
        """,
        collection_id,
        *kind,
        lexical.name,
    )
    if partition_id is None:
        return await find_partition(connection, lexical, "", kind)
    table = await create_chunk_table(connection, partition_id)
    await attach_partition(connection, partition_id)
    if collection_id is None:
        await connection.execute(
            f"""
            ALTER TABLE {table} ALTER COLUMN collection_id SET NOT NULL;
            CREATE INDEX {table}_collection ON {table} (collection_id);
            """
        )
    await lexical.create_index(connection, table, kind.language, is_shared=collection_id is None)
    return partition_id


async def note_quantized(connection: Connection, collection_id: str) -> None:
    """Record, for the partition of its own that a new collection may have from the start, whether an index
    outside PostgreSQL keeps it among quantized vectors."""
    await connection.execute(
        f"""
        UPDATE chunk_partitions p SET is_quantized = {IS_QUANTIZED} FROM collections c
        WHERE c.collection_id = $1 AND p.collection_id = $1
        """,
        collection_id,
    )


async def create_chunk_table(connection: Connection, partition_id: int) -> str:
    """Create a table for a partition, without indexes, that is not attached yet; return its name."""
    table = chunk_table(partition_id)
    # ATTACH locks the parent less than PARTITION OF does; the CHECK spares it the scan.
    await connection.execute(
        f"""
        CREATE TABLE {table}
            (LIKE chunks INCLUDING DEFAULTS INCLUDING STORAGE, CHECK (partition_id = {partition_id:d}))
        """
    )
    return table


async def attach_partition(connection: Connection, partition_id: int) -> None:
    """Make a table of create_chunk_table() a partition, with those indexes of the parent that it lacks."""
    await connection.execute(
        f"ALTER TABLE chunks ATTACH PARTITION {chunk_table(partition_id)} FOR VALUES IN ({partition_id:d})"
    )


async def copy_partition(
    connection: Connection,
    collection_id: str,
    source: int,
    target: int,
    condition: str = "true",
    *values: Any,
) -> None:
    """Copy a collection's chunks that meet a condition, whose values are numbered from $2, with their ids."""
    columns = ", ".join(await copied_columns(connection))
    # Rows of earlier releases name no collection, in partitions of a collection's own.
    await connection.execute(
        f"""
        INSERT INTO {chunk_table(target)} (partition_id, collection_id, valid_from, {columns})
        SELECT {target:d}, $1, valid_from, {columns} FROM {chunk_table(source)}
        WHERE coalesce(collection_id, $1) = $1 AND {condition}
        """,
        collection_id,
        *values,
    )


async def copied_columns(connection: Connection) -> Sequence[str]:
    """Return the columns of chunks, ready for SQL, that a copy has as they are: all but those that tell to
    what and to which time they belong."""
    rows = await connection.fetch(
        """
        SELECT quote_ident(attname) AS name FROM pg_attribute
        WHERE attrelid = 'chunks'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
          AND attname NOT IN ('partition_id', 'collection_id', 'valid_from', 'valid_to') ORDER BY attnum
        """
    )
    return [row["name"] for row in rows]


async def is_outgrown(connection: Connection, collection_id: str, added: Sequence[int]) -> bool:
    """Tell whether the collection shares a partition and should no longer, with documents added that have
    these numbers of chunks; or soon, if the waiting ones are like them, so that few chunks are written
    twice."""
    partition_id = await connection.fetchval(
        """
        SELECT p.partition_id FROM collections c JOIN chunk_partitions p USING (partition_id)
        WHERE c.collection_id = $1 AND p.collection_id IS NULL
        """,
        collection_id,
    )
    if partition_id is None:
        return False
    room = MAXIMUM_SHARED_CHUNKS - sum(added)
    # Twice as many documents as needed, since their chunks are not counted yet.
    too_many = 2 * MAXIMUM_SHARED_CHUNKS * len(added) // max(sum(added), 1)
    return room < 0 or bool(
        await connection.fetchval(
            f"""
            SELECT EXISTS (SELECT FROM {chunk_table(partition_id)} WHERE collection_id = $1 OFFSET $2)
                OR EXISTS (
                    SELECT FROM ingestion_items
                    WHERE collection_id = $1 AND {PENDING} AND input IS NOT NULL OFFSET $3
                )
            """,
            collection_id,
            room,
            too_many,
        )
    )


async def move_collection(
    connection: Connection,
    lexical: LexicalIndex,
    collection_id: str,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Give a collection that shares a partition one of its own, in the caller's transaction.

    Waits for documents being stored. Chunks keep their ids, and those left behind stay for the grace time, so
    that searches under way find the same.
    """
    row = await connection.fetchrow(
        "SELECT partition_id FROM collections WHERE collection_id = $1 FOR UPDATE", collection_id
    )
    shared = row and await connection.fetchrow(
        """
        SELECT partition_id, embedding_model, dimensions, language FROM chunk_partitions
        WHERE partition_id = $1 AND collection_id IS NULL
        """,
        row["partition_id"],
    )
    if not shared:  # dropped, or moved by another
        return
    old, *kind = shared
    new = await create_partition(connection, lexical, collection_id, PartitionKind(*kind))
    # Uses the index of shared partitions.
    await copy_partition(connection, collection_id, old, new, "collection_id = $1")
    await connection.execute(
        "UPDATE collections SET partition_id = $2 WHERE collection_id = $1", collection_id, new
    )
    await leave_partition(connection, collection_id, old, grace_seconds, moved_to=new)


async def leave_partition(
    connection: Connection,
    collection_id: str,
    partition_id: int,
    grace_seconds: float,
    *,
    moved_to: int | None = None,
) -> None:
    """Record that a partition, or a collection's part of a shared one, is to be deleted after the grace
    time."""
    is_own = await connection.fetchval(
        """
        UPDATE chunk_partitions SET drop_time = clock_timestamp() + make_interval(secs => $3)
        WHERE partition_id = $1 AND collection_id = $2 RETURNING true
        """,
        partition_id,
        collection_id,
        grace_seconds,
    )
    if not is_own:
        await connection.execute(
            """
            INSERT INTO left_partitions (partition_id, collection_id, moved_to, drop_time)
            VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
            """,
            partition_id,
            collection_id,
            moved_to,
            grace_seconds,
        )


async def clear_left(connection: Connection) -> None:
    """Delete the rows that some collections left in shared partitions long enough ago; in a transaction."""
    for row in await connection.fetch(
        """
        DELETE FROM left_partitions WHERE (partition_id, collection_id) IN (
            SELECT partition_id, collection_id FROM left_partitions WHERE drop_time < clock_timestamp()
            ORDER BY drop_time LIMIT $1 FOR UPDATE SKIP LOCKED
        ) RETURNING partition_id, collection_id
        """,
        CLEARED_AT_ONCE,
    ):
        await connection.execute(
            f"DELETE FROM {chunk_table(row['partition_id'])} WHERE collection_id = $1", row["collection_id"]
        )


async def clear_elsewhere(connection: Connection, collection_id: str, condition: str, *values: Any) -> None:
    """Delete the chunks of changed documents that meet a condition, whose values are numbered from $1, from
    the indexes that are held back or kept: nothing of what was replaced stays there."""
    for row in await connection.fetch(
        """
        SELECT p.partition_id FROM collections c
        JOIN chunk_partitions p ON p.partition_id IN (c.candidate_partition_id, c.previous_partition_id)
        WHERE c.collection_id = $1 ORDER BY p.partition_id FOR KEY SHARE OF p
        """,
        collection_id,
    ):
        await connection.execute(f"DELETE FROM {chunk_table(row['partition_id'])} WHERE {condition}", *values)


async def has_moved(connection: Connection, collection_id: str, source: int, target: int) -> bool:
    """Tell whether the collection's chunks have lately been moved from one partition to the other."""
    return bool(
        await connection.fetchval(
            "SELECT true FROM left_partitions WHERE (partition_id, collection_id, moved_to) = ($1, $2, $3)",
            source,
            collection_id,
            target,
        )
    )


async def partitions_with(connection: Connection, collection_id: str) -> Sequence[ChunkPartition]:
    """Return every partition with chunks of the collection: in use, being built, left; none is dropped
    meanwhile."""
    rows = await connection.fetch(
        """
        SELECT partition_id, collection_id IS NULL AS is_shared FROM chunk_partitions
        WHERE collection_id = $1
           OR partition_id IN (SELECT partition_id FROM collections WHERE collection_id = $1)
           OR partition_id IN (SELECT partition_id FROM left_partitions WHERE collection_id = $1)
        ORDER BY partition_id FOR KEY SHARE
        """,
        collection_id,
    )
    return [ChunkPartition(row["partition_id"], row["is_shared"]) for row in rows]


async def find_collection(connection: Connection, collection_id: str) -> StoredCollection | None:
    """Return a collection with what its chunks depend on: neither access nor counts."""
    row = await connection.fetchrow(
        """
        SELECT c.settings, p.partition_id, p.embedding_model, p.dimensions, p.language
        FROM collections c JOIN chunk_partitions p USING (partition_id) WHERE c.collection_id = $1
        """,
        collection_id,
    )
    if row is None:
        return None
    message = collection_pb2.Collection(collection_id=collection_id, settings=read_settings(row))
    return StoredCollection(message, row["partition_id"])


def read_settings(row: asyncpg.Record) -> collection_pb2.CollectionSettings:
    """Return a collection's stored settings, with those that its partition has."""
    settings = collection_pb2.CollectionSettings()
    # A field that a newer release stored must not make the collection unreadable.
    json_format.ParseDict(row["settings"], settings, ignore_unknown_fields=True)
    settings.embedding.model = row["embedding_model"]
    settings.embedding.dimensions = row["dimensions"]
    settings.lexical.language = row["language"]
    return settings
