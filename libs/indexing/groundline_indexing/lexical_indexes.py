"""Repair of keyword indexes that may have lost rows in an unclean stop of the server."""

import time
from collections.abc import Sequence
from typing import Final

import asyncpg
import structlog
from groundline_database import Connection, Pool, acquire, session
from groundline_lexical import LAST_RECOVERY, LexicalIndex

from groundline_indexing.builds import FailedBuilds, try_lock, unlock
from groundline_indexing.partitions import chunk_table

__all__ = ["LexicalIndexes"]

# Small ones first: most collections are complete again soon.
_DUE: Final = f"""
    SELECT partition_id FROM chunk_partitions
    WHERE lexical_backend = $1 AND drop_time IS NULL
      AND lexical_built_after IS DISTINCT FROM {LAST_RECOVERY}
    ORDER BY pg_table_size(to_regclass('chunks_p' || partition_id)), partition_id
"""  # noqa: S608
_RECOVERY: Final = f"""
    SELECT {LAST_RECOVERY} AS recovery FROM chunk_partitions
    WHERE partition_id = $1 AND lexical_built_after IS DISTINCT FROM {LAST_RECOVERY}
"""  # noqa: S608
_BUILT: Final = "UPDATE chunk_partitions SET lexical_built_after = $2 WHERE partition_id = $1"

_log = structlog.get_logger(__name__)


class LexicalIndexes:
    """Keyword indexes, which every partition has."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical
        self._failed = FailedBuilds()

    async def rebuild_due(self) -> Sequence[int]:
        """Rebuild, one after the other, the indexes that may have lost chunks in an unclean stop of the
        server; return the ids of their partitions.

        Writes continue meanwhile, and searches leave such an index out until it is rebuilt; of several
        processes one rebuilds. A rebuild that fails or is interrupted is begun again by a later call. Raises
        UnavailableError.
        """
        if self._lexical.capabilities.survives_unclean_stop:
            return ()
        async with acquire(self._pool) as connection:
            due = [row["partition_id"] for row in await connection.fetch(_DUE, self._lexical.name)]
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
            recovery = await connection.fetchval(_RECOVERY, partition_id)
            if recovery is None:
                return False
            begun = time.monotonic()
            _log.warning("lexical_index_rebuild_began", partition_id=partition_id)
            await self._lexical.rebuild(connection, chunk_table(partition_id))
            await connection.execute(_BUILT, partition_id, recovery)
            _log.info(
                "lexical_index_rebuilt",
                partition_id=partition_id,
                seconds=round(time.monotonic() - begun, 2),
            )
            return True
        finally:
            if not connection.is_closed():
                await unlock(connection, partition_id)
