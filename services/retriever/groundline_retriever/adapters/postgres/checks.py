"""Checks whether keyword search works, for readiness, and which indexes it has to leave out."""

import asyncio
import time
from typing import Final

import asyncpg
from groundline_lexical import Connection, LexicalIndex
from groundline_runtime.errors import FailedPreconditionError, UnavailableError

from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.soundness import SoundIndexes

PROBED_PARTITIONS: Final = 4
"""Partitions whose keyword indexes are checked together; the next check continues with the next ones."""

PROBE_SECONDS: Final = 4.5
"""Minimum time between two checks, in seconds: less than the gateway lets pass between two of its own, with
which they come."""

_PATIENCE_SECONDS: Final = 1.0
"""Maximum wait for a check, in seconds; shorter than a readiness check may take."""

_PROBED: Final = """
    SELECT p.partition_id, p.lexical_backend FROM chunk_partitions p
    WHERE p.partition_id > $1
        AND EXISTS (SELECT FROM collections c WHERE c.partition_id = p.partition_id)
    ORDER BY p.partition_id LIMIT $2
"""


class IndexChecks:
    """Checks of a few partitions at a time."""

    def __init__(self, reads: Reads, lexical: LexicalIndex, sound: SoundIndexes) -> None:
        self._reads = reads
        self._lexical = lexical
        self._sound = sound
        self._probed_up_to = 0
        self._probed_until = 0.0

    async def require_keyword_search(self) -> None:
        """Look for indexes that are missing, and probe the next few and those known to be broken; searches
        leave both out and say so. Raise FailedPreconditionError if BM25 cannot be searched at all.

        An index that could not be checked keeps its state; `require_schema` tells whether the database
        answers. After a success, the next check is PROBE_SECONDS later.
        """
        if time.monotonic() < self._probed_until:
            return
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._probe_indexes()
        except (TimeoutError, UnavailableError):
            return
        self._probed_until = time.monotonic() + PROBE_SECONDS

    async def _probe_indexes(self) -> None:
        async with self._reads.connection() as connection:
            await self._sound.refresh(connection)
            if self._sound.is_on_standby and not self._lexical.capabilities.answers_on_standby:
                raise FailedPreconditionError(
                    "LEXICAL_INDEX_UNAVAILABLE",
                    f"{self._lexical.name} cannot be searched on a standby: connect to the primary",
                )
            await self._sound.find_missing(connection)
            partitions = await connection.fetch(_PROBED, self._probed_up_to, PROBED_PARTITIONS)
            self._probed_up_to = partitions[-1]["partition_id"] if partitions else 0
            ours = [row["partition_id"] for row in partitions if row["lexical_backend"] == self._lexical.name]
            probed = {*ours, *self._sound.broken} - self._sound.missing
            for partition_id in probed - await self._sound.outdated(connection, probed):
                finds = await self._finds_known(connection, f"chunks_p{partition_id}")
                self._sound.note(partition_id, is_broken=not finds)

    async def _finds_known(self, connection: Connection, table: str) -> bool:
        try:
            return await self._lexical.probe(connection, table)
        except asyncpg.UndefinedTableError:
            return True  # its collection was deleted or rebuilt a moment ago
