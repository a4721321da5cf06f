"""The module's database as the ingestor uses it."""

from collections.abc import AsyncIterator

import pytest
from groundline_database import DatabaseSettings, Pool, acquire, open_pool, register_vectors
from groundline_ingestor.adapters.postgres.stores import Stores, stores_on
from groundline_lexical import LexicalIndex, detect_lexical_index
from pydantic import SecretStr


@pytest.fixture(scope="module")
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(
        DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=12), init=register_vectors
    ) as pool:
        yield pool


@pytest.fixture(scope="module")
async def lexical(pool: Pool) -> LexicalIndex:
    async with acquire(pool) as connection:
        return await detect_lexical_index(connection)


@pytest.fixture
async def stores(pool: Pool, lexical: LexicalIndex) -> AsyncIterator[Stores]:
    """The ingestor's stores, which hold no collection and no cached embedding after the test."""
    stores = stores_on(pool, lexical)
    yield stores
    async with acquire(pool) as connection:
        left = await connection.fetch("SELECT collection_id FROM collections")
        await connection.execute("TRUNCATE embedding_cache, legal_holds, thread_holds, spending")
    for row in left:
        await stores.collections.delete(row["collection_id"])
    await stores.reindex.settle(0)
