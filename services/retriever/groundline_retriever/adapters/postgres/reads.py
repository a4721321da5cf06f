"""Where a read goes: to the primary, or to a standby that has replayed enough."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
from groundline_database import Connection, Pool, acquire
from groundline_runtime.errors import UnavailableError

from groundline_retriever.adapters.postgres.standbys import Standbys

__all__ = ["Reads", "collection_changed"]


class Reads:
    """Connections of the primary's pool, and of its standbys where there are some."""

    def __init__(self, pool: Pool, standbys: Standbys | None = None) -> None:
        self._pool = pool
        self._standbys = standbys

    @property
    def has_standbys(self) -> bool:
        return self._standbys is not None

    async def read[T](self, work: Callable[[Connection], Awaitable[T]], after: int) -> T:
        """Read on a standby that has everything up to that position, or else on the primary."""
        if self._standbys is not None:
            found = await self._standbys.read(work, after)
            if found is not None:
                return found
        return await self.read_on_primary(work)

    async def read_on_primary[T](self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with self.connection() as connection:
            return await work(connection)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Provide a connection to the primary. Raises UnavailableError also for a missing table or index: it
        was dropped with its collection, or replaced by a re-index, at this moment."""
        async with acquire(self._pool) as connection:
            try:
                yield connection
            except (asyncpg.UndefinedTableError, asyncpg.UndefinedObjectError):
                raise collection_changed() from None


def collection_changed() -> UnavailableError:
    """Return the error of a search whose collection changed under it."""
    return UnavailableError(
        "COLLECTION_CHANGED",
        "the collection was deleted or rebuilt while it was searched",
        retry_after_seconds=0.0,
    )
