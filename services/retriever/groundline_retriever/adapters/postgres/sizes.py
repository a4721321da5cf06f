"""Approximate numbers of chunks in partitions, so that a search can be made for its size."""

from collections.abc import Mapping, Sequence
from typing import Final

from cachetools import TTLCache
from groundline_lexical import Connection

__all__ = ["KNOWN_SECONDS", "REMEMBERED_PARTITIONS", "PartitionSizes"]

KNOWN_SECONDS: Final = 60.0
"""Time for which a number is used before it is read again, in seconds: a search list need not follow each
document."""

REMEMBERED_PARTITIONS: Final = 10_000

# As last counted by VACUUM, ANALYZE or the creation of an index; negative before the first of them.
_ESTIMATED: Final = """
    SELECT partition_id, greatest(t.reltuples, 0)::bigint AS chunks
    FROM unnest($1::bigint[]) AS partition_id
    LEFT JOIN pg_class t ON t.oid = to_regclass('chunks_p' || partition_id)
"""


class PartitionSizes:
    """Cache of the server's own estimates, so that few searches ask."""

    def __init__(self) -> None:
        self._known: TTLCache[int, int] = TTLCache(REMEMBERED_PARTITIONS, KNOWN_SECONDS)

    def known(self, partition_ids: Sequence[int]) -> Mapping[int, int] | None:
        """Return chunks by partition; None if one has to be read."""
        try:
            return {partition_id: self._known[partition_id] for partition_id in partition_ids}
        except KeyError:
            return None

    async def of(self, connection: Connection, partition_ids: Sequence[int]) -> Mapping[int, int]:
        """Return chunks by partition, read if they are not known."""
        known = self.known(partition_ids)
        return await self.read(connection, partition_ids) if known is None else known

    async def read(self, connection: Connection, partition_ids: Sequence[int]) -> Mapping[int, int]:
        """Read chunks by partition; 0 for a dropped one."""
        rows = await connection.fetch(_ESTIMATED, partition_ids)
        found = {row["partition_id"]: row["chunks"] for row in rows}
        self._known.update(found)
        return found
