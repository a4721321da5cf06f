"""Deletion of what is kept of documents outside themselves: in caches, and for retries of items."""

# ruff: noqa: S608 - what is put into SQL here are constants and names of tables

from collections.abc import Sequence
from typing import Final

from groundline_database import Connection

from groundline_indexing.partitions import ChunkPartition

CHUNKS_AT_ONCE: Final = 10_000
"""Chunks of one deletion, which takes about a second, far below a statement's time limit."""


async def forget_cached_chunks(
    connection: Connection, partition: ChunkPartition, condition: str, value: object
) -> None:
    """Delete the cached vectors and contexts of a partition's chunks that meet a condition on `$1`.

    The same text in another document is embedded again when that is ingested again.
    """
    last: int | None = -1
    while last is not None:
        last = await connection.fetchval(
            f"""
            WITH gone AS MATERIALIZED (
                SELECT chunk_id, partition_id, context_annotation AS context, sha256(convert_to(
                    CASE context_annotation WHEN '' THEN '' ELSE context_annotation || E'\\n\\n' END
                        || original_text, 'UTF8'
                )) AS content_hash
                FROM {partition.table}
                -- Named, so that the primary key finds the next chunks and the table is not scanned.
                WHERE partition_id = {partition.partition_id:d} AND {condition} AND chunk_id > $2
                ORDER BY chunk_id LIMIT {CHUNKS_AT_ONCE}
            ), contexts AS (
                DELETE FROM context_cache USING gone WHERE context_cache.context = gone.context
            ), vectors AS (
                DELETE FROM embedding_cache USING gone JOIN chunk_partitions AS partition USING (partition_id)
                WHERE embedding_cache.model = partition.embedding_model
                  -- The text's hash, alone or with its window's behind it.
                  AND embedding_cache.content_hash
                      BETWEEN gone.content_hash AND gone.content_hash || decode(repeat('ff', 33), 'hex')
            )
            SELECT max(chunk_id) FROM gone
            """,
            value,
            last,
        )


async def forget_handed_in(connection: Connection, collection_id: str, uris: Sequence[str]) -> None:
    """Delete contents, titles and metadata of items that failed or were cancelled; they cannot be retried
    any more."""
    await connection.execute(
        """
        WITH forgotten AS (
            UPDATE ingestion_items SET input = input - '{title,metadata}'::text[]
            WHERE collection_id = $1 AND uri = ANY($2::text[]) AND state IN ('failed', 'cancelled')
            RETURNING job_id, item_index
        )
        DELETE FROM ingestion_payloads AS payload USING forgotten
        WHERE (payload.job_id, payload.item_index) = (forgotten.job_id, forgotten.item_index)
        """,
        collection_id,
        list(uris),
    )
