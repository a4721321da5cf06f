"""Collections in PostgreSQL, each with a partition of its own."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import asyncpg
from groundline_database import Connection, Pool, acquire, is_readable_collection, transaction
from groundline_lexical import LexicalIndex
from groundline_runtime.errors import AlreadyExistsError

from groundline_ingestor.adapters.postgres import chunk_table
from groundline_ingestor.adapters.postgres_vector_indexes import builds_held_off
from groundline_ingestor.domain import Collection, NewCollection, Partition

__all__ = ["PostgresCollections", "create_partition"]

_SELECT = """
    SELECT c.collection_id, c.name, c.settings, c.readers, c.writers, c.create_time, c.update_time,
           p.partition_id, p.embedding_model, p.dimensions, p.language, n.document_count, n.chunk_count
    FROM collections c
    JOIN chunk_partitions p USING (partition_id)
    CROSS JOIN LATERAL (
        SELECT count(*) AS document_count, coalesce(sum(d.chunk_count), 0) AS chunk_count
        FROM documents d WHERE d.collection_id = c.collection_id AND d.chunk_count > 0
    ) n
"""


class PostgresCollections:
    """Implements CollectionRepository."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical

    async def create(self, new: NewCollection, dimensions: int) -> Collection:
        try:
            async with transaction(self._pool) as connection:
                await self._insert(connection, new, dimensions)
        except asyncpg.UniqueViolationError:
            repeated = await self._find_by_request_id(new.request_id) if new.request_id else None
            if repeated is None:
                raise AlreadyExistsError(
                    "COLLECTION_EXISTS", f"the collection id {new.collection_id!r} is taken"
                ) from None
            return repeated
        created = await self.find(new.collection_id)
        assert created is not None, "nobody but its creator knows it yet"
        return created

    async def find(self, collection_id: str) -> Collection | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(f"{_SELECT} WHERE c.collection_id = $1", collection_id)
        return _collection(row) if row else None

    async def list_readable(
        self, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[Collection]:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"{_SELECT} WHERE c.collection_id > $1 AND {is_readable_collection('$2', 'c')} "
                "ORDER BY c.collection_id LIMIT $3",
                after,
                list(principals),
                limit,
            )
        return [_collection(row) for row in rows]

    async def update(
        self,
        collection_id: str,
        *,
        name: str,
        settings: Mapping[str, Any],
        readers: Sequence[str],
        writers: Sequence[str],
        seen: datetime,
    ) -> bool:
        async with acquire(self._pool) as connection:
            updated = await connection.fetchval(
                """
                UPDATE collections
                SET name = $2, settings = $3, readers = $4, writers = $5, update_time = clock_timestamp()
                WHERE collection_id = $1 AND update_time = $6
                RETURNING true
                """,
                collection_id,
                name,
                settings,
                list(readers),
                list(writers),
                seen,
            )
        return updated is not None

    async def delete(self, collection_id: str) -> bool:
        async with acquire(self._pool) as connection:
            partitions = await self._partitions(connection, collection_id)
            # Those that come in between are empty, and nothing is built on them.
            async with builds_held_off(connection, partitions), connection.transaction():
                # Waits for documents being stored, which hold a share lock on the row.
                found = await connection.fetchval(
                    "SELECT true FROM collections WHERE collection_id = $1 FOR UPDATE", collection_id
                )
                if not found:
                    return False
                for partition_id in await self._partitions(connection, collection_id):
                    await connection.execute(f"DROP TABLE {chunk_table(partition_id)}")
                await connection.execute("DELETE FROM collections WHERE collection_id = $1", collection_id)
        return True

    async def _partitions(self, connection: Connection, collection_id: str) -> list[int]:
        rows = await connection.fetch(
            "SELECT partition_id FROM chunk_partitions WHERE collection_id = $1 ORDER BY partition_id",
            collection_id,
        )
        return [row["partition_id"] for row in rows]

    async def _insert(self, connection: Connection, new: NewCollection, dimensions: int) -> None:
        partition_id = await create_partition(
            connection, self._lexical, new.collection_id, new.embedding_model, dimensions, new.language
        )
        await connection.execute(
            """
            INSERT INTO collections
                (collection_id, name, settings, readers, writers, partition_id, request_id)
            VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''))
            """,
            new.collection_id,
            new.name,
            new.settings,
            list(new.readers),
            list(new.writers),
            partition_id,
            new.request_id,
        )

    async def _find_by_request_id(self, request_id: str) -> Collection | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(f"{_SELECT} WHERE c.request_id = $1", request_id)
        return _collection(row) if row else None


async def create_partition(
    connection: Connection,
    lexical: LexicalIndex,
    collection_id: str,
    model: str,
    dimensions: int,
    language: str,
) -> int:
    """An empty partition, not in use yet; returns its id. Its HNSW index is built when it has grown."""
    partition_id = await connection.fetchval(
        """
        INSERT INTO chunk_partitions (collection_id, embedding_model, dimensions, language, lexical_backend)
        VALUES ($1, $2, $3, $4, $5) RETURNING partition_id
        """,
        collection_id,
        model,
        dimensions,
        language,
        lexical.name,
    )
    assert isinstance(partition_id, int)
    table = chunk_table(partition_id)
    # ATTACH locks the parent less than PARTITION OF does; the CHECK spares it the scan.
    await connection.execute(
        f"""
        CREATE TABLE {table}
            (LIKE chunks INCLUDING DEFAULTS INCLUDING STORAGE, CHECK (partition_id = {partition_id:d}));
        ALTER TABLE chunks ATTACH PARTITION {table} FOR VALUES IN ({partition_id:d});
        """
    )
    await lexical.create_index(connection, table, language)
    return partition_id


def _collection(row: asyncpg.Record) -> Collection:
    return Collection(
        collection_id=row["collection_id"],
        name=row["name"],
        settings=row["settings"],
        readers=tuple(row["readers"]),
        writers=tuple(row["writers"]),
        partition=Partition(row["partition_id"], row["embedding_model"], row["dimensions"], row["language"]),
        create_time=row["create_time"],
        update_time=row["update_time"],
        document_count=row["document_count"],
        chunk_count=row["chunk_count"],
    )
