"""Repair of keyword indexes that are missing, or may have lost rows in an unclean stop of the server."""

import time
from collections.abc import Sequence
from typing import Final

import asyncpg
import structlog
from groundline_database import Connection, Pool, acquire, session
from groundline_lexical import LAST_RECOVERY, LexicalIndex, has_index

from groundline_indexing.builds import FailedBuilds, try_lock, unlock
from groundline_indexing.partitions import chunk_table

_HAS_INDEX: Final = has_index("'chunks_p' || partition_id")
# $1 tells whether the backend's indexes survive an unclean stop.
_IS_DUE: Final = f"""
    (NOT $1::boolean AND lexical_built_after IS DISTINCT FROM {LAST_RECOVERY} OR NOT {_HAS_INDEX})
"""
# Small ones first: most collections are complete again soon.
_DUE: Final = f"""
    SELECT partition_id FROM chunk_partitions
    WHERE {_IS_DUE} AND lexical_backend = $2 AND drop_time IS NULL
    ORDER BY pg_table_size(to_regclass('chunks_p' || partition_id)), partition_id
"""  # noqa: S608
_STATE: Final = f"""
    SELECT {LAST_RECOVERY} AS recovery, {_HAS_INDEX} AS has_index,
        language, collection_id IS NULL AS is_shared
    FROM chunk_partitions WHERE {_IS_DUE} AND partition_id = $2
"""  # noqa: S608
_BUILT: Final = "UPDATE chunk_partitions SET lexical_built_after = $2 WHERE partition_id = $1"

_log = structlog.get_logger(__name__)


class LexicalIndexes:
    """Keyword indexes, which every partition has."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical
        self._survives = lexical.capabilities.survives_unclean_stop
        self._failed = FailedBuilds()

    async def rebuild_due(self) -> Sequence[int]:
        """Rebuild, one after the other, the indexes that are missing or may have lost chunks in an unclean
        stop of the server; return the ids of their partitions.

        Writes continue meanwhile, and searches leave such an index out until it is rebuilt; of several
        processes one rebuilds. A rebuild that fails or is interrupted is begun again by a later call. Raises
        UnavailableError.
        """
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(_DUE, self._survives, self._lexical.name)
        due = [row["partition_id"] for row in rows]
        rebuilt = []
        for partition_id in due:
            if partition_id in self._failed:
                continue
            async with session(self._pool) as connection:
                try:
                    if await self._rebuild(connection, partition_id):
                        rebuilt.append(partition_id)
                except (asyncpg.QueryCanceledError, asyncpg.UndefinedTableError):
                    _log.info("lexical_index_rebuild_cancelled", partition_id=partition_id)
                except (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError):
                    raise
                except asyncpg.PostgresError as error:
                    self._failed[partition_id] = None
                    _log.error(
                        "lexical_index_rebuild_failed",
                        partition_id=partition_id,
                        error=type(error).__qualname__,
                    )
        return rebuilt

    async def _rebuild(self, connection: Connection, partition_id: int) -> bool:
        """Rebuild an index; return False if another process does it, or has done it, or the partition was
        dropped."""
        if not await try_lock(connection, partition_id):
            return False
        try:
            # Read before the build, on the connection that builds, which ends with this life of the server.
            state = await connection.fetchrow(_STATE, self._survives, partition_id)
            if state is None:
                return False
            begun = time.monotonic()
            _log.warning("lexical_index_rebuild_began", partition_id=partition_id)
            table = chunk_table(partition_id)
            if state["has_index"]:
                await self._lexical.rebuild(connection, table)
            else:
                await self._lexical.create_index(
                    connection, table, state["language"], is_shared=state["is_shared"], concurrently=True
                )
            await connection.execute(_BUILT, partition_id, state["recovery"])
            _log.info(
                "lexical_index_rebuilt",
                partition_id=partition_id,
                seconds=round(time.monotonic() - begun, 2),
            )
            return True
        finally:
            if not connection.is_closed():
                await unlock(connection, partition_id)
