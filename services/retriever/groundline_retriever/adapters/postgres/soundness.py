"""Partitions whose keyword indexes can be trusted since the server's last unclean stop."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from groundline_lexical import LAST_RECOVERY, Connection

__all__ = ["SoundIndexes"]

_NOW: Final = f"SELECT {LAST_RECOVERY}"
_SOUND: Final = """
    SELECT partition_id FROM chunk_partitions
    WHERE partition_id = ANY ($1::bigint[]) AND lexical_built_after = $2
"""


class SoundIndexes:
    """Cache of the indexes that were built since the last recovery, so that few searches ask.

    No connection outlives a recovery: the cache is valid until a new connection shows another, or, behind a
    pooler that keeps connections, until the next `refresh`.
    """

    def __init__(self) -> None:
        self._recovery: datetime | None = None
        self._sound: set[int] = set()

    @property
    def is_on_standby(self) -> bool:
        """Whether the server replays another's changes. Only that one knows what was lost."""
        return self._recovery is None

    async def refresh(self, connection: Connection) -> None:
        """Forget the state of an earlier life of the server. For each new connection."""
        recovery = await connection.fetchval(_NOW)
        if recovery != self._recovery:
            self._recovery = recovery
            self._sound = set()

    async def unsound(self, connection: Connection, partition_ids: Iterable[int]) -> set[int]:
        """Return those whose index is not to be trusted; it stays so as long as the connection is the
        same."""
        if self.is_on_standby:
            # A connection outlives a promotion.
            await self.refresh(connection)
        recovery, sound = self._recovery, self._sound
        unknown = set(partition_ids) - sound
        if recovery is None or not unknown:
            return set()
        rows = await connection.fetch(_SOUND, list(unknown), recovery)
        found = {row["partition_id"] for row in rows}
        sound |= found
        return unknown - found
