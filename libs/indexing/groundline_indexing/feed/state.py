"""The outbox of a search index outside PostgreSQL, and the index's progress.

A trigger on `chunks` writes the outbox (see 0001_initial.sql). A change names only a chunk: its state is read
from the partition when the change is delivered, so that a change that is delivered twice, or after a later
one, does no harm. A single process delivers a partition's changes at a time, in their order, under an
advisory lock that ends with its session.
"""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

import asyncpg
from groundline_database import Connection, Pool, acquire, read_statements, session, transaction
from groundline_weaviate import IndexedChunk

from groundline_indexing.feed.changes import (
    Batch,
    FedPartition,
    FeedState,
    PartitionState,
    Refusals,
)
from groundline_indexing.partitions import chunk_table

MAX_ATTEMPTS: Final = 8
"""Refusals, in about two minutes, after which a chunk is set aside."""

MAX_PAUSE_SECONDS: Final = 60.0
"""Maximum pause between two attempts, in seconds; it doubles from one second."""

LOCK_SECONDS: Final = 5
"""Maximum wait for the lock on `chunks`, in seconds; all writes wait with it."""

_LOCKS: Final = 0x736964
"""First half of the advisory locks' key; the second is the partition's id."""

_MAX_CHUNK_ID: Final = 2**63 - 1

_TRIGGER: Final = "chunks_search_index"
_EXISTS: Final = f"""
    SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'chunks'::regclass AND tgname = '{_TRIGGER}')
"""
_CREATE: Final = f"""
    CREATE TRIGGER {_TRIGGER} AFTER INSERT OR UPDATE OR DELETE ON chunks
        FOR EACH ROW EXECUTE FUNCTION record_search_index_change()
"""
# No existing chunk has an id above this one.
_LAST_CHUNK_ID: Final = "SELECT last_value FROM chunk_ids"
_SQL: Final = read_statements(__name__, last_chunk_id=_LAST_CHUNK_ID)
# A partition's language and, if it is a collection's own, the collection: rows of earlier releases name none.
# The primary key begins with the partition: unless it is named, each batch reads the whole table.
_CHUNKS: Final = """
    SELECT c.chunk_id, coalesce(c.collection_id, p.collection_id) AS collection_id, c.document_id,
           c.lexical_text, p.language, c.embedding, c.allowed_principals, c.source_type, c.update_time,
           c.metadata
    FROM {table} AS c JOIN chunk_partitions AS p USING (partition_id)
    WHERE c.partition_id = {partition_id:d} AND {condition} ORDER BY c.chunk_id LIMIT {limit}
"""
_ABOVE: Final = "c.chunk_id > $1"
_BETWEEN: Final = "c.chunk_id > $1 AND c.chunk_id <= $2"


class IndexFeed:
    """Outbox: the changes that a search index outside PostgreSQL lacks.

    Any method raises UnavailableError while the database is out of reach.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def begin(self) -> None:
        """Record changes of chunks from now on, and fill the index with every partition that it lacks.

        Does nothing if they are recorded already. Waits for writes under way.
        """
        async with acquire(self._pool) as connection:
            if not await connection.fetchval(_EXISTS):
                try:
                    async with connection.transaction():
                        # Writes under way end first: their chunks are in the partitions that are filled.
                        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                        await connection.execute(_CREATE)
                except asyncpg.DuplicateObjectError:
                    pass  # another process was first
            await connection.execute(_SQL["add_partitions"])

    async def end(self) -> None:
        """Stop recording changes and forget the recorded ones; the index keeps its objects."""
        async with transaction(self._pool) as connection:
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            await connection.execute(f"DROP TRIGGER IF EXISTS {_TRIGGER} ON chunks")
            await connection.execute("TRUNCATE search_index_changes, search_index_partitions")

    async def due(self) -> Sequence[tuple[FedPartition, bool]]:
        """Return partitions with something to deliver now, and whether they were dropped."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(_SQL["due"])
            if not rows:
                await connection.execute(_SQL["drop_strays"])
        return [(_partition(row), row["is_gone"]) for row in rows]

    @asynccontextmanager
    async def hold(self, partition: FedPartition) -> AsyncIterator["HeldFeed | None"]:
        """Hold a partition's outbox inside; None if another process does. The hold ends with the process."""
        async with session(self._pool) as connection:
            key = _LOCKS, partition.partition_id
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", *key):
                yield None
                return
            try:
                yield HeldFeed(connection, partition.partition_id)
            finally:
                if not connection.is_closed():
                    await connection.execute("SELECT pg_advisory_unlock($1, $2)", *key)

    async def state(self) -> FeedState:
        """Return the progress of the index."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(_SQL["state"])
        assert row is not None, "aggregates have a row"
        return FeedState(
            partition_count=row["partitions"],
            unfilled_count=row["unfilled"],
            pending_count=row["pending"],
            set_aside_count=row["set_aside"],
            behind_seconds=float(row["behind_seconds"]),
        )

    async def partitions(self, collection_id: str | None = None) -> Sequence[PartitionState]:
        """Return the progress in each partition, or in those with chunks of a collection."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(_SQL["partitions"], collection_id)
        return [
            PartitionState(
                partition=_partition(row),
                collection_id=row["collection_id"],
                chunk_count=row["chunk_count"],
                filled_count=row["filled_count"],
                is_filled=row["fill_position"] is None,
                is_gone=row["is_gone"],
                pending_count=row["pending"],
                set_aside_count=row["set_aside"],
                behind_seconds=float(row["behind_seconds"]),
            )
            for row in rows
        ]

    async def chunks(self, partition: FedPartition, *, after: int, limit: int) -> Sequence[IndexedChunk]:
        """Return the first `limit` chunks above the id `after`, by id; none of a dropped partition."""
        async with acquire(self._pool) as connection:
            return await _read_chunks(connection, partition.partition_id, limit, _ABOVE, after)

    async def record(self, partition: FedPartition, chunk_ids: Sequence[int]) -> None:
        """Record chunks as if they had changed, so that the index stores them again, or drops missing
        ones."""
        async with acquire(self._pool) as connection:
            await _record(connection, partition.partition_id, chunk_ids)

    async def refill(self, partition_ids: Sequence[int]) -> None:
        """Fill the index again with all chunks of partitions; searches find the present objects meanwhile."""
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"""
                WITH refilled AS (
                    UPDATE search_index_partitions
                    SET fill_position = 0, fill_end = ({_LAST_CHUNK_ID}), filled_count = 0, fill_time = NULL
                    WHERE partition_id = ANY($1::bigint[])
                )
                SELECT pg_notify('groundline_search_index', '')
                """,
                list(partition_ids),
            )

    async def retry(self) -> int:
        """Try chunks that were set aside again; return their number."""
        async with acquire(self._pool) as connection:
            count: int = await connection.fetchval(
                """
                WITH retried AS (
                    UPDATE search_index_changes SET attempts = 0, available_time = '-infinity'
                    WHERE available_time = 'infinity' RETURNING partition_id, chunk_id
                )
                SELECT count(DISTINCT (partition_id, chunk_id)) FROM retried,
                    (SELECT pg_notify('groundline_search_index', '')) AS told
                """
            )
        return count


class HeldFeed:
    """Right to deliver a partition's changes, which one process has at a time: its session holds the lock,
    without which nothing can be recorded."""

    def __init__(self, connection: Connection, partition_id: int) -> None:
        self._connection = connection
        self._partition_id = partition_id

    async def changes(self, limit: int) -> Batch:
        """Return the first changes that are due, with the current state of their chunks."""
        rows = await self._connection.fetch(_SQL["changes"], self._partition_id, limit)
        changed = sorted({row["chunk_id"] for row in rows})
        chunks = await _read_chunks(
            self._connection, self._partition_id, limit, "c.chunk_id = ANY($1::bigint[])", changed
        )
        found = {chunk.chunk_id for chunk in chunks}
        gone = [chunk_id for chunk_id in changed if chunk_id not in found]
        return Batch(chunks, gone, [row["change_id"] for row in rows])

    async def settle(self, batch: Batch, refused: Refusals) -> None:
        """Record that the index has a batch of changes. Refused ones come again after a growing pause, and
        are set aside after too many refusals."""
        change_ids = list(batch.change_ids)
        done = [
            chunk_id
            for chunk_id in (*(chunk.chunk_id for chunk in batch.chunks), *batch.gone)
            if chunk_id not in refused
        ]
        async with self._connection.transaction():
            if refused:
                await self._connection.execute(
                    _SQL["refused"],
                    self._partition_id,
                    list(refused),
                    list(refused.values()),
                    MAX_ATTEMPTS,
                    MAX_PAUSE_SECONDS,
                    change_ids,
                )
                rows = await self._connection.fetch(
                    "SELECT change_id FROM search_index_changes "
                    "WHERE change_id = ANY($1::bigint[]) AND NOT chunk_id = ANY($2::bigint[])",
                    change_ids,
                    list(refused),
                )
                change_ids = [row["change_id"] for row in rows]
            await self._connection.execute(_SQL["done"], self._partition_id, change_ids, done)

    async def fill_page(self, limit: int) -> Batch | None:
        """Return the next chunks of a fill; None without one."""
        row = await self._connection.fetchrow(
            """
            SELECT fill_position, coalesce(fill_end, $2) AS fill_end FROM search_index_partitions
            WHERE partition_id = $1 AND fill_position IS NOT NULL
            """,
            self._partition_id,
            _MAX_CHUNK_ID,
        )
        if row is None:
            return None
        chunks = await _read_chunks(self._connection, self._partition_id, limit, _BETWEEN, *row)
        return Batch(chunks, ())

    async def settle_fill(self, page: Batch, refused: Refusals, limit: int) -> None:
        """Record that the index has a page, which is the last if it has less than `limit` chunks. Refused
        chunks come again as changes."""
        async with self._connection.transaction():
            if refused:
                await _record(self._connection, self._partition_id, list(refused))
            await self._connection.execute(
                """
                UPDATE search_index_partitions
                SET fill_position = $2, filled_count = filled_count + $3,
                    fill_end = CASE WHEN $2::bigint IS NOT NULL THEN fill_end END,
                    fill_time = CASE WHEN $2::bigint IS NULL THEN clock_timestamp() END
                WHERE partition_id = $1
                """,
                self._partition_id,
                page.chunks[-1].chunk_id if len(page.chunks) == limit else None,
                len(page.chunks),
            )

    async def forget(self) -> None:
        """Record that a dropped partition has no objects any more."""
        async with self._connection.transaction():
            for table in ("search_index_changes", "search_index_partitions"):
                await self._connection.execute(
                    f"DELETE FROM {table} WHERE partition_id = $1", self._partition_id
                )


async def is_feed_behind(connection: Connection, partition_id: int) -> bool:
    """Tell whether a search index is in use that lacks chunks of the partition."""
    return bool(await connection.fetchval(_SQL["is_behind"], partition_id))


async def _read_chunks(
    connection: Connection, partition_id: int, limit: int, condition: str, *values: object
) -> Sequence[IndexedChunk]:
    """Read chunks by a condition on values from $1 on, by their ids; none of a dropped partition."""
    statement = _CHUNKS.format(
        table=chunk_table(partition_id), partition_id=partition_id, condition=condition, limit=limit
    )
    try:
        rows = await connection.fetch(statement, *values)
    except asyncpg.UndefinedTableError:
        return ()
    return [
        IndexedChunk(
            partition_id=partition_id,
            chunk_id=row["chunk_id"],
            collection_id=row["collection_id"],
            document_id=UUID(row["document_id"]),
            lexical_text=row["lexical_text"],
            language=row["language"],
            vector=row["embedding"].to_numpy(),
            principals=row["allowed_principals"],
            source_type=row["source_type"],
            update_time=row["update_time"],
            metadata=row["metadata"],
        )
        for row in rows
    ]


async def _record(connection: Connection, partition_id: int, chunk_ids: Sequence[int]) -> None:
    await connection.execute(
        """
        WITH recorded AS (
            INSERT INTO search_index_changes (partition_id, chunk_id) SELECT $1, unnest($2::bigint[])
        )
        SELECT pg_notify('groundline_search_index', '')
        """,
        partition_id,
        list(chunk_ids),
    )


def _partition(row: asyncpg.Record) -> FedPartition:
    return FedPartition(
        row["partition_id"], row["embedding_model"], row["dimensions"], bool(row["is_quantized"])
    )
