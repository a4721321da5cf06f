"""The retriever's index on Weaviate, with its corpus."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
from groundline_database import DatabaseSettings, register_vectors
from groundline_lexical import detect_lexical_index
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.adapters.weaviate import open_weaviate_search
from groundline_tests.retriever.corpus import Corpus
from groundline_tests.retriever.search_index import SearchedIndex
from groundline_weaviate import IndexedChunk, Space, WeaviateSettings, open_weaviate
from pydantic import SecretStr

LAG_SECONDS: Final = 2.0


@asynccontextmanager
async def searched_weaviate(database_url: str, weaviate: WeaviateSettings) -> AsyncIterator[SearchedIndex]:
    """Provide an index whose `settle` writes the database's changes, and records them as the ingestor
    does."""
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=8)
    connection = await asyncpg.connect(database_url)
    try:
        await register_vectors(connection)
        corpus = Corpus(connection, await detect_lexical_index(connection))
        async with (
            open_chunk_store(settings) as store,
            open_weaviate(weaviate) as client,
            open_weaviate_search(weaviate, store, max_lag_seconds=LAG_SECONDS) as searched,
        ):
            fed: set[tuple[int, int]] = set()

            async def settle() -> None:
                rows = await connection.fetch(
                    """
                    SELECT c.*, p.embedding_model, p.dimensions, p.language
                    FROM chunks c JOIN chunk_partitions p USING (partition_id)
                    """
                )
                new = [row for row in rows if (row["partition_id"], row["chunk_id"]) not in fed]
                fed.update((row["partition_id"], row["chunk_id"]) for row in new)
                for space in {Space(row["embedding_model"], row["dimensions"]) for row in new}:
                    await client.create(space)
                    chunks = [_indexed(row) for row in new if row["embedding_model"] == space.model]
                    assert not await client.write(space, chunks)
                await connection.execute(
                    """
                    INSERT INTO search_index_partitions
                        (partition_id, embedding_model, dimensions, fill_position)
                    SELECT partition_id, embedding_model, dimensions, NULL FROM chunk_partitions
                    ON CONFLICT DO NOTHING
                    """
                )

            yield SearchedIndex(corpus, store, searched, settle)
    finally:
        await connection.close()


def _indexed(row: "asyncpg.Record") -> IndexedChunk:
    return IndexedChunk(
        partition_id=row["partition_id"],
        chunk_id=row["chunk_id"],
        collection_id=row["collection_id"],
        document_id=row["document_id"],
        lexical_text=row["lexical_text"],
        language=row["language"],
        vector=row["embedding"].to_numpy(),
        principals=row["allowed_principals"],
        source_type=row["source_type"],
        update_time=row["update_time"],
        metadata=json.loads(row["metadata"]),
    )
