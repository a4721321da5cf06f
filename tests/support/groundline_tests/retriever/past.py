"""A database whose past is searched: written by the ingestor's stores, found by the retriever."""

import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import numpy as np
from groundline.v1 import collection_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings, Pool, acquire, open_pool, register_vectors
from groundline_embedding.ports import Vectors
from groundline_extraction.texts import TextSegment
from groundline_indexing.collections import StoredCollection
from groundline_indexing.partitions import chunk_table
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.adapters.postgres.stores import Stores, stores_on
from groundline_ingestor.domain.work import NewVersion
from groundline_lexical import detect_lexical_index
from groundline_retriever.adapters.postgres.store import PostgresChunkStore, open_chunk_store
from groundline_retriever.adapters.weaviate import open_weaviate_search
from groundline_retriever.arms import Arms
from groundline_retriever.ports import SearchIndex
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_runtime.context import Caller
from groundline_signatures import signature
from groundline_tests.ingestor.messages import a_collection, a_version
from groundline_tests.ingestor.stores import DIMENSIONS
from groundline_tests.runtime import spending_in
from groundline_weaviate import WeaviateSettings
from pydantic import SecretStr

SEARCHABLE: Final = collection_pb2.HistorySettings(everything=True, searchable=True)


class Words:
    """QueryEmbedder by words, and what the chunks are embedded with."""

    model = "model"
    dimensions = DIMENSIONS

    def cost(self, tokens: int) -> float:
        return 0.0

    async def embed_query(self, text: str) -> Vectors:
        return self.embed(text)

    @staticmethod
    def embed(text: str) -> Vectors:
        vector = np.zeros(DIMENSIONS, np.float32)
        for word in text.lower().rstrip(".?").split():
            vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1
        return vector / np.linalg.norm(vector)


class World:
    """The stores and the search of one database."""

    def __init__(
        self, pool: Pool, stores: Stores, chunks: PostgresChunkStore, index: SearchIndex | None = None
    ) -> None:
        self.pool = pool
        self.stores = stores
        self.chunks = chunks
        self.service = SearchService(
            chunks,
            Arms(index or chunks, [Words()], timeout_seconds=20),
            ModelScores(None, timeout_seconds=5),  # type: ignore[arg-type]
            spending=spending_in(),
            scored_candidates=50,
        )

    async def collection(
        self, name: str, history: collection_pb2.HistorySettings | None = None
    ) -> StoredCollection:
        new = a_collection(name, dimensions=DIMENSIONS)
        new.settings.history.CopyFrom(history or SEARCHABLE)
        return await self.stores.collections.create(new, "", "")

    async def store(
        self, collection: StoredCollection, *texts: str, readers: tuple[str, ...] = (), **metadata: str
    ) -> str:
        version = replace(
            a_version("leave.md", "\n".join(texts)), allowed_principals=readers, metadata=metadata
        )
        chunks, start = [], 0
        for text in texts:
            section = Section(text, start, start + len(text))
            chunks.append(PreparedChunk(section, "", text, signature(text)))
            start += len(text) + 1
        vectors = [np.array([Words.embed(text) for text in texts], np.float16)]
        segments = [TextSegment("\n".join(texts))]
        new = NewVersion(version, chunks, np.concatenate(vectors), segments, principals=("user:ann",))
        [(document_id, _)] = await self.stores.versions.store(collection, [new])
        return document_id

    async def now(self) -> datetime:
        async with acquire(self.pool) as connection:
            moment: datetime = await connection.fetchval("SELECT clock_timestamp()")
        return moment

    async def found(
        self, as_of: datetime | None = None, *principals: str, name: str = "staff", **given: Any
    ) -> Sequence[passage_pb2.Chunk]:
        request = pb.SearchRequest(query="days of leave", collection_ids=[name] if name else (), **given)
        if as_of:
            request.as_of.FromDatetime(as_of)
        response = await self.service.search(Caller(principals), request)
        assert not response.degraded
        return [each.chunk for each in response.passages]

    async def texts(self, *given: Any, **more: Any) -> set[str]:
        return {chunk.text for chunk in await self.found(*given, **more)}

    async def past(self, collection: StoredCollection) -> list[str]:
        """Return the texts of chunks in the past."""
        async with acquire(self.pool) as connection:
            partitions = await connection.fetch(
                "SELECT partition_id FROM past_partitions WHERE collection_id = $1", collection.collection_id
            )
            rows = [
                row
                for (partition,) in partitions
                for row in await connection.fetch(f"SELECT original_text FROM {chunk_table(partition)}")
            ]
        return sorted(row["original_text"] for row in rows)


@asynccontextmanager
async def world_on(database_url: str, weaviate: WeaviateSettings | None = None) -> AsyncIterator[World]:
    """Provide the world of a database, searched on Weaviate if its settings are given. Its collections are
    deleted at the end."""
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=8)
    async with open_pool(settings, init=register_vectors) as pool, open_chunk_store(settings) as chunks:
        async with acquire(pool) as connection:
            stores = stores_on(pool, await detect_lexical_index(connection))
        if weaviate is None:
            yield World(pool, stores, chunks)
        else:
            async with open_weaviate_search(weaviate, chunks, max_lag_seconds=0) as index:
                yield World(pool, stores, chunks, index)
        async with acquire(pool) as connection:
            left = await connection.fetch("SELECT collection_id FROM collections")
        for row in left:
            await stores.collections.delete(row["collection_id"])
