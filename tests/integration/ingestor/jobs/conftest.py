"""An ingestor, with its worker at work or not, and a collection."""

from collections.abc import AsyncIterator

import pytest
from groundline_database import Pool, acquire
from groundline_indexing.collections import StoredCollection
from groundline_ingestor.__main__ import working
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_tests.ingestor.messages import a_collection
from groundline_tests.ingestor.workers import Ingestor, ingestor_on


@pytest.fixture
async def idle(stores: Stores, database_url: str) -> AsyncIterator[Ingestor]:
    """A replica that does no work until it is told to."""
    async with ingestor_on(stores, database_url) as ingestor:
        yield ingestor


@pytest.fixture
async def busy(idle: Ingestor) -> AsyncIterator[Ingestor]:
    async with working(idle.worker, idle.settings):
        yield idle


@pytest.fixture
async def collection(
    pool: Pool, idle: Ingestor, request: pytest.FixtureRequest
) -> AsyncIterator[StoredCollection]:
    name = request.node.name.split("[")[0].replace("_", "-")[:60].rstrip("-")
    async with acquire(pool) as connection:
        await connection.execute("TRUNCATE embedding_cache")  # the tests have texts in common
    new = a_collection(name, model=idle.embedder.model, dimensions=idle.embedder.dimensions)
    yield await idle.stores.collections.create(new, "", "")
    await idle.stores.collections.delete(name)
