"""Where a read goes: to the primary, or to a standby that has replayed enough."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg
from groundline_database import Acquired, Connection, Pool
from groundline_database.errors import raise_translated
from groundline_runtime.errors import UnavailableError

from groundline_retriever.adapters.postgres.standbys import Standbys

_ATTEMPTS: Final = 10
_PAUSE_SECONDS: Final = 0.1
_WITHOUT_A_PAGE: Final = re.compile(r"could not read blocks? 0\b.* read only 0 of")
"""Error of an index whose building has begun: it has no page yet, and pg_search looks at it still."""


class Reads:
    """Connections of the primary's pool, and of its standbys where there are some."""

    def __init__(self, pool: Pool, standbys: Standbys | None = None) -> None:
        self._pool = pool
        self._standbys = standbys
        self.has_standbys: Final = standbys is not None

    async def read[T](self, work: Callable[[Connection], Awaitable[T]], after: int | None = None) -> T:
        """Read on a standby that has everything up to the position `after`, or else, and without a position,
        on the primary: for a second again and again while an index of the table has just begun to be built.
        """
        if self._standbys is not None and after is not None:
            found = await self._standbys.read(work, after)
            if found is not None:
                return found
        for _ in range(_ATTEMPTS - 1):
            try:
                async with self.connection() as connection:
                    return await work(connection)
            except asyncpg.DataCorruptedError as error:
                if not _WITHOUT_A_PAGE.search(str(error)):
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)
        async with self.connection() as connection:
            return await work(connection)

    def connection(self) -> Acquired:
        """Provide a connection to the primary. Raises UnavailableError also for a missing table or index: it
        was dropped with its collection, or replaced by a re-index, at this moment."""
        return Acquired(self._pool, _raise_translated)


def _raise_translated(error: BaseException) -> None:
    if isinstance(error, (asyncpg.UndefinedTableError, asyncpg.UndefinedObjectError)):
        raise collection_changed() from None
    raise_translated(error)


def collection_changed() -> UnavailableError:
    """Return the error of a search whose collection changed under it."""
    return UnavailableError(
        "COLLECTION_CHANGED",
        "the collection was deleted or rebuilt while it was searched",
        retry_after_seconds=0.0,
    )
