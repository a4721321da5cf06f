"""HNSW indexes of partitions: built in bulk when a partition has grown and settled, live from then on.

One is of the vectors, or of their bits where the collection says so and the bits tell its vectors apart. When
it says otherwise, the other kind is built beside the one in use, which is dropped some time later.
"""

# ruff: noqa: S608 - what is put into SQL here are constants, numbers and names that chunk_table() makes of numbers

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import asyncpg
import numpy as np
import structlog
from cachetools import TTLCache
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Connection, Pool, acquire, quantized, quartile_of, read_statements, session
from numpy.typing import NDArray

from groundline_indexing.builds import FailedBuilds, try_lock, unlock
from groundline_indexing.partitions import IS_QUANTIZED, PENDING, chunk_table

LEAST_ROWS: Final = 2_000
"""Rows below which a search reads all vectors: in 0.8 ms at 384 dimensions, where HNSW takes 0.5, and misses
none."""

MOST_ROWS: Final = 50_000
"""Rows at which a partition gets its index even while it is being loaded: a search of this many takes 30 ms
without one."""

BUILD_SECONDS: Final = 6 * 3600.0

_LEAST_FOUND: Final = 0.98
"""Share of the nearest that has to be among the candidates."""

_NEAREST: Final = 50
_CANDIDATES: Final = 250
"""Candidates of a sample, fewer than a search takes: the more vectors, the more of them it needs."""
_QUERIES: Final = 100
_SAMPLE: Final = 5_000

REPLACED_SECONDS: Final = 120.0
"""Time for which an index stays beside the one that takes its place, in seconds: for longer than searches
believe what they have read of a partition."""

REFUSED_SECONDS: Final = 600.0
"""Time after which vectors are tried again whose bits did not tell them apart, in seconds."""

_ELEMENT_BYTES: Final = 1000
"""Memory of a row in a build beside its vector, in bytes: the element and its neighbours with m = 16."""

_INDEXES: Final = """
    SELECT FROM pg_index x JOIN pg_class k ON k.oid = x.indexrelid JOIN pg_am a ON a.oid = k.relam
    JOIN pg_opclass o ON o.oid = x.indclass[0]
    WHERE x.indrelid = to_regclass('chunks_p' || {partition_id}) AND a.amname = 'hnsw' AND x.indisvalid
"""

_OF_BITS: Final = "(o.opcname = 'bit_hamming_ops')"

_SQL: Final = read_statements(
    __name__,
    is_pending=PENDING,
    indexes=_INDEXES.format(partition_id="p.partition_id"),
    is_of_bits=_OF_BITS,
    is_quantized=IS_QUANTIZED,
)
_IS_BUILT: Final = (
    f"SELECT EXISTS ({_INDEXES.format(partition_id='$1::bigint')} AND {_OF_BITS} = $2::boolean)"
)
_IS_VALID: Final = f"SELECT EXISTS ({_INDEXES.format(partition_id='$1::bigint')})"

_log = structlog.get_logger(__name__)

type _Floats = NDArray[np.float32]


class VectorIndexes:
    """Vector indexes, which large partitions have."""

    def __init__(
        self,
        pool: Pool,
        *,
        least_rows: int = LEAST_ROWS,
        most_rows: int = MOST_ROWS,
        maximum_bytes: int = 0,
    ) -> None:
        """Take the rows from which on a partition gets its index, when nothing is pending for it and in any
        case; and the maximum memory as build_vector_index() takes it."""
        self._pool = pool
        self._least_rows = least_rows
        self._most_rows = most_rows
        self._maximum_bytes = maximum_bytes
        self._failed = FailedBuilds()
        self._refused: TTLCache[int, None] = TTLCache(10_000, REFUSED_SECONDS)
        self._replaced: dict[str, float] = {}

    async def build_due(self) -> Sequence[int]:
        """Build the missing index of every partition that is large and settled, or very large; return their
        ids. Drop indexes that were replaced.

        Searches and writes continue meanwhile; of several processes one builds. A build that fails or is
        interrupted is begun again by a later call. Raises UnavailableError.
        """
        built = []
        for partition_id, dimensions, is_quantized in await self._due():
            if partition_id in self._failed or (is_quantized and partition_id in self._refused):
                continue
            async with session(self._pool) as connection:
                try:
                    if await build_vector_index(
                        connection, partition_id, dimensions, self._maximum_bytes, is_quantized=is_quantized
                    ):
                        built.append(partition_id)
                    if is_quantized and not await connection.fetchval(_IS_BUILT, partition_id, True):
                        self._refused[partition_id] = None
                except asyncpg.QueryCanceledError:
                    _log.info("vector_index_build_cancelled", partition_id=partition_id)
                except asyncpg.PostgresError as error:
                    # Searches work without it.
                    self._failed[partition_id] = None
                    _log.error(
                        "vector_index_build_failed", partition_id=partition_id, error=type(error).__qualname__
                    )
        await self._drop_replaced()
        return built

    async def _drop_replaced(self) -> None:
        """Drop indexes that have had another in their place for a while."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(_SQL["replaced"])
        now = time.monotonic()
        self._replaced = {row["name"]: self._replaced.get(row["name"], now) for row in rows}
        for row in rows:
            if now - self._replaced[row["name"]] < REPLACED_SECONDS:
                continue
            async with session(self._pool) as connection:
                if await try_lock(connection, row["partition_id"]):
                    try:
                        await connection.execute(
                            f"DROP INDEX CONCURRENTLY IF EXISTS {row['name']}", timeout=BUILD_SECONDS
                        )
                        _log.info("vector_index_dropped", partition_id=row["partition_id"])
                    finally:
                        await unlock(connection, row["partition_id"])

    async def _due(self) -> list[tuple[int, int, bool]]:
        due = []
        async with acquire(self._pool) as connection:
            for row in await connection.fetch(_SQL["candidates"], self._least_rows):
                rows = self._most_rows if row["is_loading"] else self._least_rows
                if await _has_rows(connection, row["partition_id"], rows):
                    due.append((row["partition_id"], row["dimensions"], row["is_quantized"]))
        return due


async def build_vector_index(
    connection: Connection,
    partition_id: int,
    dimensions: int,
    maximum_bytes: int = 0,
    *,
    is_quantized: bool = False,
) -> bool:
    """Build the index while searches and writes continue; outside a transaction.

    It takes the memory that its rows need, up to `maximum_bytes` or the server's own maintenance_work_mem,
    whichever is more. A graph that outgrows it is finished row by row, several times slower.

    A quantized one is of the vectors nevertheless where too little is found by their bits.

    Returns False if it exists, another process builds it, or the partition was dropped. An interrupted one is
    dropped first. Raises asyncpg.QueryCanceledError when the partition is about to be dropped.
    """
    table = chunk_table(partition_id)
    if not await try_lock(connection, partition_id):
        return False
    try:
        if await connection.fetchval(_IS_BUILT, partition_id, is_quantized):
            return False
        # Exact, as the planner's number may be of before the load; reads the primary key's index at most.
        rows = await connection.fetchval(f"SELECT count(*) FROM {table}", timeout=BUILD_SECONDS)
        begun = time.monotonic()
        if is_quantized and not await _are_told_by_bits(connection, partition_id, rows):
            is_quantized = False
            if await connection.fetchval(_IS_BUILT, partition_id, False):
                return False
        vector_bytes = 3 * dimensions // 8 if is_quantized else 2 * dimensions
        needed = rows * (vector_bytes + _ELEMENT_BYTES)
        allowed = await _allow_memory(connection, min(needed, maximum_bytes))
        _log.info(
            "vector_index_build_began",
            partition_id=partition_id,
            rows=rows,
            is_quantized=is_quantized,
            needed_bytes=needed,
            allowed_bytes=allowed,
        )
        await _create(connection, table, dimensions, is_quantized)
        _log.info(
            "vector_index_built",
            partition_id=partition_id,
            rows=rows,
            seconds=round(time.monotonic() - begun, 2),
        )
    except asyncpg.UndefinedTableError:
        return False
    finally:
        if not connection.is_closed():
            await connection.execute("RESET maintenance_work_mem; RESET max_parallel_maintenance_workers")
            await unlock(connection, partition_id)
    return True


def vector_index_on(table: str, dimensions: int, *, is_quantized: bool = False) -> str:
    """Return the end of CREATE INDEX, behind the name: searches have to spell the expression likewise."""
    if is_quantized:
        return f"ON {table} USING hnsw (({quantized('embedding', dimensions)}) bit_hamming_ops)"
    return f"ON {table} USING hnsw ((embedding::halfvec({dimensions:d})) halfvec_cosine_ops)"


async def vector_index_state(
    connection: Connection, partition_id: int, rows: int
) -> pb.VectorIndexState.ValueType:
    """Return the state of the index by the partition's number of rows."""
    if await connection.fetchval(_IS_VALID, partition_id):
        is_refused = await connection.fetchval(_SQL["is_refused"], partition_id, _LEAST_FOUND)
        return pb.VECTOR_INDEX_STATE_NOT_QUANTIZED if is_refused else pb.VECTOR_INDEX_STATE_READY
    return pb.VECTOR_INDEX_STATE_PENDING if rows >= LEAST_ROWS else pb.VECTOR_INDEX_STATE_NONE


async def is_vector_index_due(connection: Connection, partition_id: int) -> bool:
    """Tell whether the partition should have its index and lacks it, when nothing is pending for it."""
    if await connection.fetchval(_IS_VALID, partition_id):
        return False
    return await _has_rows(connection, partition_id, LEAST_ROWS)


async def _has_rows(connection: Connection, partition_id: int, rows: int) -> bool:
    """Tell whether there are this many rows; read no more of the table."""
    try:
        return bool(
            await connection.fetchval(
                f"SELECT EXISTS (SELECT FROM {chunk_table(partition_id)} OFFSET $1)", rows - 1
            )
        )
    except asyncpg.UndefinedTableError:  # dropped a moment ago
        return False


async def _allow_memory(connection: Connection, wanted_bytes: int) -> int:
    """Let the connection's builds take this much memory; return its limit, which is never less."""
    return int(
        await connection.fetchval(
            """
            SELECT pg_size_bytes(set_config(name, greatest(setting::bigint, $1::bigint)::text || 'kB', false))
            FROM pg_settings WHERE name = 'maintenance_work_mem'
            """,
            wanted_bytes // 1024,
        )
    )


async def _are_told_by_bits(connection: Connection, partition_id: int, rows: int) -> bool:
    found = await _share_found_by_bits(connection, chunk_table(partition_id), rows)
    await connection.execute(_SQL["tried"], partition_id, found)
    if found < _LEAST_FOUND:
        _log.warning("vector_index_not_quantized", partition_id=partition_id, found=round(found, 3))
    return found >= _LEAST_FOUND


async def _share_found_by_bits(connection: Connection, table: str, rows: int) -> float:
    """Return the share of the nearest vectors that are among the candidates by their bits, of a sample of the
    table."""
    percent = min(100.0, 150.0 * _SAMPLE / max(rows, 1))
    sample = await connection.fetch(
        f"SELECT embedding FROM {table} TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE (0) LIMIT {_SAMPLE}"
    )
    if len(sample) <= _CANDIDATES:
        return 1.0
    vectors = np.array([row["embedding"].to_numpy() for row in sample], np.float32)
    return await asyncio.to_thread(_share_found, vectors)


def _share_found(vectors: _Floats) -> float:
    queries = np.linspace(0, len(vectors) - 1, _QUERIES).astype(int)
    quartile = quartile_of(vectors.shape[1])
    signs = [np.where(vectors > least, 1, -1) for least in (-quartile, 0.0, quartile)]
    codes = np.concatenate(signs, axis=1).astype(np.float32)
    nearest = _best(vectors[queries] @ vectors.T, _NEAREST)
    candidates = _best(codes[queries] @ codes.T, _CANDIDATES)
    found = sum(len(np.intersect1d(*both)) for both in zip(nearest, candidates, strict=True))
    return float(found) / nearest.size


def _best(scores: _Floats, count: int) -> NDArray[np.intp]:
    """Return the places of the highest scores of each row."""
    return np.argpartition(-scores, count - 1, axis=1)[:, :count]


async def _create(connection: Connection, table: str, dimensions: int, is_quantized: bool) -> None:
    name = f"{table}_embedding{'_bits' if is_quantized else ''}"
    # The present one was interrupted: searches cannot use it, yet every write would keep it up.
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", timeout=BUILD_SECONDS)
    create = (
        f"CREATE INDEX CONCURRENTLY {name} {vector_index_on(table, dimensions, is_quantized=is_quantized)}"
    )
    try:
        await connection.execute(create, timeout=BUILD_SECONDS)
    except (asyncpg.DiskFullError, asyncpg.OutOfMemoryError):
        # Parallel builds share memory, of which a container may have little (/dev/shm).
        await connection.execute("SET max_parallel_maintenance_workers = 0")
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", timeout=BUILD_SECONDS)
        await connection.execute(create, timeout=BUILD_SECONDS)
