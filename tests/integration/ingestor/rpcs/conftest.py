"""A replica of the ingestor, and a collection."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool
from groundline_tests.ingestor.replica import replica
from groundline_tests.ingestor.rpcs import ANN, everyones


@pytest.fixture(scope="module")
async def stub(pool: Pool, database_url: str) -> AsyncIterator[Any]:
    async with replica(pool, database_url, max_document_bytes=8_000_000) as stub:
        yield stub


@pytest.fixture
async def collection_id(stub: Any, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = request.node.name.split("[")[0]
    created = await stub.CreateCollection(pb.CreateCollectionRequest(name=name[:60], settings=everyones()))
    yield created.collection.collection_id
    await stub.DeleteCollection(
        pb.DeleteCollectionRequest(collection_id=created.collection.collection_id), metadata=ANN
    )
