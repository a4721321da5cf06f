"""Approximate numbers of chunks in partitions and kinds of their vector indexes, as searches need them."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cachetools import TTLCache
from groundline_lexical import Connection

KNOWN_SECONDS: Final = 60.0
"""Time for which a number is used before it is read again, in seconds: a search list need not follow each
document."""

REMEMBERED_PARTITIONS: Final = 10_000

# As last counted by VACUUM, ANALYZE or the creation of an index; negative before the first of them.
_ESTIMATED: Final = """
    SELECT s.partition_id, greatest(t.reltuples, 0)::bigint AS chunks,
        coalesce(i.is_quantized, false) AS is_quantized
    FROM unnest($1::bigint[]) AS s(partition_id)
    LEFT JOIN pg_class t ON t.oid = to_regclass('chunks_p' || s.partition_id)
    LEFT JOIN chunk_partitions p ON p.partition_id = s.partition_id
    LEFT JOIN collections c ON c.collection_id = p.collection_id
    -- While one index takes the place of another, both are there.
    LEFT JOIN LATERAL (
        SELECT o.opcname = 'bit_hamming_ops' AS is_quantized
        FROM pg_index x JOIN pg_opclass o ON o.oid = x.indclass[0]
        WHERE x.indrelid = t.oid AND x.indisvalid AND o.opcname IN ('bit_hamming_ops', 'halfvec_cosine_ops')
        ORDER BY (o.opcname = 'bit_hamming_ops')
            = (c.settings #>> '{vectorIndex,quantized}' IS NOT DISTINCT FROM 'true') DESC
        LIMIT 1
    ) i ON true
"""


class PartitionSize(NamedTuple):
    chunks: int
    is_quantized: bool
    """Whether it has an HNSW index of quantized vectors."""


class PartitionSizes:
    """Cache of the server's own estimates, so that few searches ask."""

    def __init__(self) -> None:
        self._known: TTLCache[int, PartitionSize] = TTLCache(REMEMBERED_PARTITIONS, KNOWN_SECONDS)

    def known(self, partition_ids: Sequence[int]) -> Mapping[int, PartitionSize] | None:
        """Return sizes by partition; None if one has to be read."""
        try:
            return {partition_id: self._known[partition_id] for partition_id in partition_ids}
        except KeyError:
            return None

    async def of(self, connection: Connection, partition_ids: Sequence[int]) -> Mapping[int, PartitionSize]:
        """Return sizes by partition, read if they are not known."""
        known = self.known(partition_ids)
        return await self.read(connection, partition_ids) if known is None else known

    async def read(self, connection: Connection, partition_ids: Sequence[int]) -> Mapping[int, PartitionSize]:
        """Read sizes by partition; 0 for a dropped one."""
        rows = await connection.fetch(_ESTIMATED, partition_ids)
        found = {row["partition_id"]: PartitionSize(row["chunks"], row["is_quantized"]) for row in rows}
        self._known.update(found)
        return found
