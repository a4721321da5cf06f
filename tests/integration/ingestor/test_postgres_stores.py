"""The stores in PostgreSQL keep the contract of the ports, and address what they must."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from groundline_database import Pool, acquire
from groundline_ingestor.adapters.postgres_collections import PostgresCollections
from groundline_ingestor.adapters.postgres_crawls import PostgresCrawls
from groundline_ingestor.adapters.postgres_documents import PostgresDocuments
from groundline_ingestor.adapters.postgres_jobs import PostgresJobs
from groundline_ingestor.adapters.postgres_partitions import chunk_table
from groundline_ingestor.adapters.postgres_queue import PostgresQueue
from groundline_ingestor.adapters.postgres_quotas import PostgresQuotas
from groundline_ingestor.domain.collections import StoredCollection
from groundline_ingestor.domain.texts import PreparedChunk, Section, TextSegment
from groundline_ingestor.domain.work import NewVersion
from groundline_lexical import LexicalIndex
from groundline_runtime.errors import AbortedError, UnavailableError
from groundline_tests.ingestor import StoreContract
from groundline_tests.ingestor.messages import a_collection, a_version


class PostgresStores:
    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self.collections = PostgresCollections(pool, lexical)
        self.documents = PostgresDocuments(pool, lexical)
        self.jobs = PostgresJobs(pool)
        self.queue = PostgresQueue(pool)
        self.crawls = PostgresCrawls(pool)
        self.quotas = PostgresQuotas(pool)
        self._pool = pool

    async def texts_of(self, collection: StoredCollection, document_id: str) -> Sequence[str]:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"SELECT original_text FROM {chunk_table(collection.partition_id)} "
                "WHERE document_id = $1::uuid ORDER BY chunk_index",
                document_id,
            )
        return [row["original_text"] for row in rows]


class TestPostgresStores(StoreContract):
    @pytest.fixture
    async def stores(self, pool: Pool, lexical: LexicalIndex) -> AsyncIterator[PostgresStores]:
        stores = PostgresStores(pool, lexical)
        yield stores
        collections = stores.collections
        for collection in await collections.list_readable(("user:ann", "user:bob"), after="", limit=100):
            await collections.delete(collection.collection_id)


async def test_a_lost_database_is_unavailable_and_names_no_host(pool: Pool) -> None:
    with pytest.raises(UnavailableError) as raised:
        async with acquire(pool) as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert raised.value.reason == "DATABASE_UNAVAILABLE"
    assert raised.value.message == "the database cannot be reached (ConnectionDoesNotExistError)"


async def test_the_page_of_a_chunk_is_metadata_of_its_own_unless_the_document_has_such(
    pool: Pool, lexical: LexicalIndex
) -> None:
    collections, documents = PostgresCollections(pool, lexical), PostgresDocuments(pool, lexical)
    collection = await collections.create(a_collection("pages", dimensions=2), "", "")
    version = a_version("a.pdf", "1", mime_type="application/pdf")
    chunks = [PreparedChunk(Section("text", 0, 4), "", "text", b"", page) for page in (1, 2)]

    async def stored_metadata() -> Sequence[object]:
        async with acquire(pool) as connection:
            rows = await connection.fetch(
                f"SELECT metadata FROM {chunk_table(collection.partition_id)} ORDER BY chunk_index"
            )
        return [row["metadata"] for row in rows]

    try:
        vectors = np.ones((2, 2), np.float16)
        await documents.store(collection, [NewVersion(version, chunks, vectors, [TextSegment("text")])])
        assert await stored_metadata() == [{"page": 1}, {"page": 2}]
        await documents.refresh(collection, replace(version, metadata={"team": "ops"}), ())
        assert await stored_metadata() == [{"page": 1, "team": "ops"}, {"page": 2, "team": "ops"}]
        await documents.refresh(collection, replace(version, metadata={"page": "cover"}), ())
        assert await stored_metadata() == [{"page": "cover"}] * 2
        await documents.refresh(collection, version, ())
        assert await stored_metadata() == [{}] * 2
    finally:
        await collections.delete("pages")


async def test_figures_of_a_partition_that_was_dropped_meanwhile_are_asked_for_again(
    pool: Pool, lexical: LexicalIndex
) -> None:
    collections, documents = PostgresCollections(pool, lexical), PostgresDocuments(pool, lexical)
    collection = await collections.create(a_collection("dropped", dimensions=2), "", "")
    gone = replace(collection, partition_id=collection.partition_id + 100_000)
    with pytest.raises(AbortedError) as raised:
        await documents.stats(gone, ())
    assert raised.value.reason == "COLLECTION_CHANGED"
    await collections.delete("dropped")
