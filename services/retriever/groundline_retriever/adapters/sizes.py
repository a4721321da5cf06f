"""Approximate numbers of chunks in partitions, so that a search can be made for its size."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

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
        self._known: dict[int, tuple[int, float]] = {}
        """Estimate and the time until when it is used, by partition."""

    def known(self, partition_ids: Sequence[int]) -> Mapping[int, int] | None:
        """Return chunks by partition; None if one has to be read."""
        now, found = time.monotonic(), {}
        for partition_id in partition_ids:
            chunks, until = self._known.get(partition_id, (0, 0.0))
            if until <= now:
                return None
            found[partition_id] = chunks
        return found

    async def read(self, connection: Connection, partition_ids: Sequence[int]) -> Mapping[int, int]:
        """Read chunks by partition; 0 for a dropped one."""
        rows = await connection.fetch(_ESTIMATED, partition_ids)
        if len(self._known) + len(rows) > REMEMBERED_PARTITIONS:
            self._known.clear()
        until = time.monotonic() + KNOWN_SECONDS
        found = {row["partition_id"]: row["chunks"] for row in rows}
        self._known |= {partition_id: (chunks, until) for partition_id, chunks in found.items()}
        return found
