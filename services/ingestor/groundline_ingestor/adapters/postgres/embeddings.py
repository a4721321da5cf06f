"""Cache of vectors of texts."""

from collections.abc import Mapping, Sequence

from groundline_database import Pool, acquire
from groundline_indexing.texts import Vectors
from pgvector import HalfVector


class PostgresEmbeddingCache:
    """Vectors by model and key: the SHA-256 of the embedded text, followed in a window of several chunks by
    the window's."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Vectors]:
        """Return the known vectors."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                """
                SELECT content_hash, embedding FROM embedding_cache
                WHERE model = $1 AND content_hash = ANY($2::bytea[])
                """,
                model,
                list(hashes),
            )
        return {row["content_hash"]: row["embedding"].to_numpy() for row in rows}

    async def put(self, model: str, vectors: Mapping[bytes, Vectors]) -> None:
        """Keep vectors; known ones stay as they are."""
        # Sorted, so that two workers with texts in common do not wait for each other both.
        hashes = sorted(vectors)
        async with acquire(self._pool) as connection:
            await connection.execute(
                """
                INSERT INTO embedding_cache (model, content_hash, embedding)
                SELECT $1, content_hash, embedding FROM unnest($2::bytea[], $3::halfvec[])
                    AS made (content_hash, embedding)
                ON CONFLICT DO NOTHING
                """,
                model,
                hashes,
                [HalfVector(vectors[key]) for key in hashes],
            )

    async def discard(self, older_than_seconds: float, limit: int) -> int:
        """Drop at most `limit` vectors that are older; return their number."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                """
                DELETE FROM embedding_cache WHERE (model, content_hash) IN (
                    SELECT model, content_hash FROM embedding_cache
                    WHERE create_time < clock_timestamp() - make_interval(secs => $1)
                    ORDER BY create_time LIMIT $2 FOR UPDATE SKIP LOCKED
                ) RETURNING true
                """,
                older_than_seconds,
                limit,
            )
        return len(rows)
