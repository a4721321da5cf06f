"""Partitions whose keyword indexes can be trusted: they are there, find what they should, and were built
since the server's last unclean stop."""

from collections.abc import Iterable, Set
from datetime import datetime
from typing import Final

import structlog
from groundline_lexical import LAST_RECOVERY, Connection, has_index

_NOW: Final = f"SELECT {LAST_RECOVERY}"
_SOUND: Final = """
    SELECT partition_id FROM chunk_partitions
    WHERE partition_id = ANY ($1::bigint[]) AND lexical_built_after = $2
"""
_MISSING: Final = f"""
    SELECT partition_id FROM chunk_partitions
    WHERE drop_time IS NULL AND NOT {has_index("'chunks_p' || partition_id")}
"""  # noqa: S608

_MISSING_AMONG: Final = f"{_MISSING} AND partition_id = ANY ($1::bigint[])"

_log = structlog.get_logger(__name__)


class SoundIndexes:
    """Cache of the indexes that were built since the last recovery, so that few searches ask, and of those
    that were missing or broken when they were last looked at.

    No connection outlives a recovery: the cache is valid until a new connection shows another, or, behind a
    pooler that keeps connections, until the next `refresh`.
    """

    def __init__(self) -> None:
        self.survive_unclean_stops = False
        """Whether the backend's indexes lose nothing in an unclean stop: then their age does not matter."""
        self._recovery: datetime | None = None
        self._sound: set[int] = set()
        self.missing: frozenset[int] = frozenset()
        """Partitions without an index, or with one whose build was interrupted."""
        self.broken: Set[int] = frozenset()
        """Partitions whose index did not find a chunk that it should."""

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

    async def find_missing(self, connection: Connection) -> None:
        """Look which partitions have no index, or one whose build was interrupted."""
        missing = frozenset(row["partition_id"] for row in await connection.fetch(_MISSING))
        for partition_id in missing - self.missing:
            _log.error("lexical_index_missing", partition_id=partition_id)
        self.missing = missing

    def note(self, partition_id: int, *, is_broken: bool) -> None:
        """Note whether an index finds what it should."""
        if is_broken and partition_id not in self.broken:
            _log.error("lexical_index_broken", partition_id=partition_id)
        self.broken = self.broken | {partition_id} if is_broken else self.broken - {partition_id}

    async def unsound(self, connection: Connection, partition_ids: Iterable[int]) -> set[int]:
        """Return those whose index is not to be searched; it stays so as long as the connection is the
        same, but for what is found missing or broken meanwhile. A missing one is looked for again."""
        if searched := self.missing.intersection(partition_ids):
            rows = await connection.fetch(_MISSING_AMONG, list(searched))
            self.missing = self.missing - searched | {row["partition_id"] for row in rows}
        left_out = (self.missing | self.broken) & set(partition_ids)
        return {*left_out} | await self.outdated(connection, partition_ids)

    async def outdated(self, connection: Connection, partition_ids: Iterable[int]) -> set[int]:
        """Return those whose index is older than the last unclean stop and may have lost chunks in it."""
        if self.survive_unclean_stops:
            return set()
        if self._recovery is None:  # it is on a standby
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
