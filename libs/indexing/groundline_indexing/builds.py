"""Right to build indexes of a partition: one process at a time, and none while the partition is dropped."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from cachetools import TTLCache
from groundline_database import Connection
from groundline_runtime.errors import UnavailableError

HOLD_OFF_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
RETRY_SECONDS: Final = 60.0
_REMEMBERED_PARTITIONS: Final = 10_000

_LOCKS: Final = 0x766563
"""First half of the advisory locks' key; the second is the partition's id. The holder may build."""


class FailedBuilds(TTLCache[int, None]):
    """Partitions whose build failed of late; it is tried again later."""

    def __init__(self) -> None:
        super().__init__(_REMEMBERED_PARTITIONS, RETRY_SECONDS)


@asynccontextmanager
async def builds_held_off(connection: Connection, partition_ids: Sequence[int]) -> AsyncIterator[None]:
    """Cancel builds on partitions and let none begin, so that they can be dropped inside.

    A DROP would wait for a build, and a build waits for transactions. Raises UnavailableError.
    """
    held: list[int] = []
    try:
        try:
            async with asyncio.timeout(HOLD_OFF_SECONDS):
                for partition_id in partition_ids:
                    while not await try_lock(connection, partition_id):
                        await _cancel_build(connection, partition_id)
                        await asyncio.sleep(POLL_SECONDS)
                    held.append(partition_id)
        except TimeoutError:
            raise UnavailableError(
                "INDEX_BEING_BUILT",
                "an index is being built and does not end; try again",
                retry_after_seconds=5,
            ) from None
        yield
    finally:
        if not connection.is_closed():
            for partition_id in held:
                await unlock(connection, partition_id)


async def _cancel_build(connection: Connection, partition_id: int) -> None:
    """End a build on the partition soon, if there is one; any other holder of the lock is dropping it."""
    await connection.execute(
        """
        SELECT pg_cancel_backend(pid) FROM pg_locks JOIN pg_stat_progress_create_index USING (pid)
        WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = $1::bigint::oid
          AND objid = $2::bigint::oid AND pid <> pg_backend_pid()
          AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        """,
        _LOCKS,
        partition_id,
    )


async def try_lock(connection: Connection, partition_id: int) -> bool:
    """Take the right to build until unlock(); return whether this session has it."""
    return bool(await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _LOCKS, partition_id))


async def unlock(connection: Connection, partition_id: int) -> None:
    """Let others build."""
    await connection.execute("SELECT pg_advisory_unlock($1, $2)", _LOCKS, partition_id)
