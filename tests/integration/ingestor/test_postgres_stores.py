"""The stores in PostgreSQL keep the contract of the ports, and address what they must."""

from collections.abc import AsyncIterator, Sequence

import pytest
from groundline_database import DatabaseSettings, Pool, acquire, open_pool, register_vectors
from groundline_ingestor.adapters.postgres import chunk_table
from groundline_ingestor.adapters.postgres_collections import PostgresCollections
from groundline_ingestor.adapters.postgres_crawls import PostgresCrawls
from groundline_ingestor.adapters.postgres_documents import PostgresDocuments
from groundline_ingestor.adapters.postgres_jobs import PostgresJobs
from groundline_ingestor.adapters.postgres_queue import PostgresQueue
from groundline_ingestor.domain.collections import StoredCollection
from groundline_lexical import detect_lexical_index
from groundline_runtime.errors import UnavailableError
from groundline_tests.ingestor import StoreContract
from pydantic import SecretStr


class PostgresStores:
    def __init__(self, pool: Pool, collections: PostgresCollections) -> None:
        self.collections = collections
        self.documents = PostgresDocuments(pool)
        self.jobs = PostgresJobs(pool)
        self.queue = PostgresQueue(pool)
        self.crawls = PostgresCrawls(pool)
        self._pool = pool

    async def texts_of(self, collection: StoredCollection, document_id: str) -> Sequence[str]:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"SELECT original_text FROM {chunk_table(collection.partition_id)} "
                "WHERE document_id = $1::uuid ORDER BY chunk_index",
                document_id,
            )
        return [row["original_text"] for row in rows]


@pytest.fixture(scope="module")
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(
        DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=8), init=register_vectors
    ) as pool:
        yield pool


class TestPostgresStores(StoreContract):
    @pytest.fixture
    async def stores(self, pool: Pool) -> AsyncIterator[PostgresStores]:
        async with acquire(pool) as connection:
            collections = PostgresCollections(pool, await detect_lexical_index(connection))
        yield PostgresStores(pool, collections)
        for collection in await collections.list_readable(("user:ann", "user:bob"), after="", limit=100):
            await collections.delete(collection.collection_id)


async def test_a_lost_database_is_unavailable_and_names_no_host(pool: Pool) -> None:
    with pytest.raises(UnavailableError) as raised:
        async with acquire(pool) as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert raised.value.reason == "DATABASE_UNAVAILABLE"
    assert raised.value.message == "the database cannot be reached (ConnectionDoesNotExistError)"
