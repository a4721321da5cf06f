"""A replica of the ingestor, with the folders that its sources may read."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool
from groundline_tests.ingestor.replica import replica
from groundline_tests.ingestor.sources import OWNER


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that sources may read."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def folder(shared: Path, request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own, which sources may read."""
    folder = shared / re.sub(r"\W", "-", request.node.name)
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
async def stub(pool: Pool, database_url: str, shared: Path, secrets: Path) -> AsyncIterator[Any]:
    async with replica(
        pool, database_url, collecting={"source_directories": (shared,), "secrets_directory": secrets}
    ) as stub:
        yield stub


@pytest.fixture
async def collection_id(stub: Any, secrets: Path, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A collection of user:ann's with a folder for secrets."""
    settings = {"crawl": {"allowPrivateAddresses": True}}
    message = json_format.ParseDict(
        {"name": request.node.name[5:60], "settings": settings}, pb.CreateCollectionRequest()
    )
    created = (await stub.CreateCollection(message, metadata=OWNER)).collection.collection_id
    (secrets / created).mkdir(exist_ok=True)
    yield created
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id=created), metadata=OWNER)
