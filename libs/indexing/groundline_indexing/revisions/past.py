"""Chunks of replaced revisions, for searches of what was current at an earlier time.

They are in partitions of their own. `note_revisions` writes down, before documents change, which chunks they
have and where; those that a change ends are then moved by `retire`, and `close_revisions` sets the time.
"""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from groundline_database import (
    Connection,
    Pool,
    acquire,
    current_revision,
    read_statements,
    session,
    transaction,
)
from groundline_lexical import LexicalIndex

from groundline_indexing.builds import try_lock, unlock
from groundline_indexing.partitions import (
    GRACE_SECONDS,
    PartitionKind,
    chunk_table,
    copied_columns,
    create_partition,
    leave_partition,
)

LEAST_BYTES: Final = 64 * 2**20
"""Size of the newest partition of the past, in bytes, below which no other is begun, unless the partition in
use is larger: then it counts, so that a search of one time reads two or three that are as large as this."""

DELETED_AT_ONCE: Final = 10_000

BUILD_SECONDS: Final = 3600.0

RENEWED: Final = ", chunk_id = nextval('chunk_ids'), valid_from = NULL"
"""SQL by which a changed chunk, whose earlier state was retired, becomes another one."""

_SQL: Final = read_statements(__name__, current=current_revision("d"))

_IS_CURRENT_INDEXED: Final = """
    SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('chunks_p' || $1::bigint || '_since')
"""


async def note_revisions(connection: Connection, document_ids: Sequence[Any]) -> None:
    """Write down the chunks of documents that are about to change, of those whose past is searchable."""
    for partition_id, noted in await connection.fetch(_SQL["noted"], document_ids):
        await connection.execute(_SQL["note"], noted, partition_id)


async def close_revisions(connection: Connection, document_ids: Sequence[Any]) -> None:
    """Set the end of the noted revisions of documents that have changed."""
    await connection.execute(_SQL["close"], document_ids)


async def past_partition(connection: Connection, collection_id: str) -> int | None:
    """Return the partition that takes the chunks that a collection, which is locked, replaces; None if its
    past is not searchable."""
    newest: int | None = await connection.fetchval(_SQL["newest"], collection_id)
    return newest


async def retire(
    connection: Connection,
    source: int,
    past: int,
    condition: str,
    *values: object,
    columns: Sequence[str] | None = None,
) -> None:
    """Copy chunks of changed documents that meet a condition, whose values are numbered from $1, into the
    past. They end when the present version of their document began. `columns`: copied_columns, if they are
    read already."""
    columns = columns or await copied_columns(connection)
    own = ", ".join(f"c.{name}" for name in columns)
    await connection.execute(
        f"""
        INSERT INTO {chunk_table(past)}
            (partition_id, collection_id, valid_from, valid_to, {", ".join(columns)})
        SELECT {past:d}, d.collection_id, coalesce(c.valid_from, c.update_time), d.update_time, {own}
        FROM {chunk_table(source)} c JOIN documents d USING (document_id)
        WHERE c.partition_id = {source:d} AND {condition}
        """,
        *values,
    )


async def set_searchable(
    connection: Connection, lexical: LexicalIndex, collection_id: str, *, is_searchable: bool
) -> None:
    """Begin or end the past of a collection, which the transaction has locked, unless that is done."""
    row = await connection.fetchrow(_SQL["kind"], collection_id)
    assert row is not None, "it is locked"
    since, _, *kind = row
    if is_searchable and since is None:
        await _begin(connection, lexical, collection_id, PartitionKind(*kind))
        await connection.execute(
            "UPDATE collections SET history_since = clock_timestamp() WHERE collection_id = $1",
            collection_id,
        )
    elif since is not None and not is_searchable:
        for ended in await connection.fetch(_SQL["end"], collection_id):
            await leave_partition(connection, collection_id, ended["partition_id"], GRACE_SECONDS)


async def swap_past(
    connection: Connection, lexical: LexicalIndex, collection_id: str, before: int, after: int
) -> None:
    """Bring the past of a collection, which is locked, in line with an index that was put into use in
    place of another: chunks that several revisions had stay for the earlier ones. If the new index has
    another model or language, the past begins anew."""
    past = await past_partition(connection, collection_id)
    if past is None:
        return
    if not await connection.fetchval(_SQL["is_alike"], collection_id):
        for is_searchable in (False, True):
            await set_searchable(connection, lexical, collection_id, is_searchable=is_searchable)
        return
    of_collection = "coalesce(c.collection_id, $1) = $1 AND c.valid_from IS NOT NULL"
    await retire(connection, before, past, of_collection, collection_id)
    # An index that was kept has such chunks too, whose earlier time is now in the past.
    await connection.execute(
        f"""
        UPDATE {chunk_table(after)} SET valid_from = NULL, chunk_id = nextval('chunk_ids')
        WHERE partition_id = {after:d} AND valid_from IS NOT NULL
        """
    )


async def _begin(
    connection: Connection, lexical: LexicalIndex, collection_id: str, kind: PartitionKind
) -> None:
    """Create the partition of the past that is written from now on."""
    partition_id = await create_partition(connection, lexical, collection_id, kind)
    table = chunk_table(partition_id)
    await connection.execute(
        f"CREATE INDEX {table}_from ON {table} (valid_from); CREATE INDEX {table}_to ON {table} (valid_to)"
    )
    await connection.execute(
        "INSERT INTO past_partitions (partition_id, collection_id) VALUES ($1, $2)",
        partition_id,
        collection_id,
    )


class PastChunks:
    """Upkeep of the past of collections."""

    def __init__(self, pool: Pool, lexical: LexicalIndex, *, least_bytes: int = LEAST_BYTES) -> None:
        self._pool = pool
        self._lexical = lexical
        self._least_bytes = least_bytes

    async def tend(self) -> None:
        """Delete what is no longer kept, and drop partitions that this leaves empty; begin another partition
        where the newest is full, or none is there yet. Raises UnavailableError."""
        async with transaction(self._pool) as connection:
            for row in await connection.fetch(_SQL["unbegun"]):
                await set_searchable(connection, self._lexical, row["collection_id"], is_searchable=True)
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(_SQL["kept"], self._least_bytes)
        for row in rows:
            collection_id, past = row["collection_id"], row["past"]
            if row["until"] is not None:
                await self._forget(collection_id, past, row["until"])
            if row["is_full"]:
                async with transaction(self._pool) as connection:
                    await self._follow(connection, collection_id, past[-1])
            if not row["is_shared"]:
                await self._build_index(row["partition_id"])

    async def _forget(self, collection_id: str, past: Sequence[int], until: datetime) -> None:
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["forget"], collection_id, until)
        for partition_id in past:
            table, deleted = chunk_table(partition_id), "DELETE 1"
            while deleted != "DELETE 0":
                async with transaction(self._pool) as connection:
                    deleted = await connection.execute(
                        f"""
                        DELETE FROM {table} WHERE partition_id = {partition_id:d} AND chunk_id IN (
                            SELECT chunk_id FROM {table} WHERE valid_to <= $1 LIMIT {DELETED_AT_ONCE}
                        )
                        """,
                        until,
                    )
            async with transaction(self._pool) as connection:
                if partition_id == past[-1] or await connection.fetchval(
                    f"SELECT EXISTS (SELECT FROM {table})"
                ):
                    continue
                if await connection.fetchval(
                    "DELETE FROM past_partitions WHERE partition_id = $1 RETURNING true", partition_id
                ):
                    await leave_partition(connection, collection_id, partition_id, GRACE_SECONDS)

    async def _follow(self, connection: Connection, collection_id: str, newest: int) -> None:
        """Begin another partition, unless another process does or has done it."""
        if not await connection.fetchval(
            "SELECT true FROM collections WHERE collection_id = $1 FOR NO KEY UPDATE SKIP LOCKED",
            collection_id,
        ):
            return
        if await past_partition(connection, collection_id) == newest:
            row = await connection.fetchrow(_SQL["kind"], collection_id)
            assert row is not None, "it is locked"
            _, _, *kind = row
            await _begin(connection, self._lexical, collection_id, PartitionKind(*kind))

    async def _build_index(self, partition_id: int) -> None:
        """Build the index by which a search of an earlier time finds the chunks that were current then
        already, if they are few."""
        async with session(self._pool) as connection:
            is_valid = await connection.fetchval(_IS_CURRENT_INDEXED, partition_id)
            if is_valid or not await try_lock(connection, partition_id):
                return
            try:
                table = chunk_table(partition_id)
                await connection.execute(
                    f"DROP INDEX CONCURRENTLY IF EXISTS {table}_since", timeout=BUILD_SECONDS
                )
                await connection.execute(
                    f"CREATE INDEX CONCURRENTLY {table}_since "
                    f"ON {table} ((coalesce(valid_from, update_time)))",
                    timeout=BUILD_SECONDS,
                )
            finally:
                if not connection.is_closed():
                    await unlock(connection, partition_id)
