"""One suite for the session, with the examples ingested by the command."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest
from groundline_tests.runtime import OtlpCollector
from groundline_tests.suite import EXAMPLES, Stack, running_stack


@pytest.fixture(scope="session")
async def collector() -> AsyncIterator[OtlpCollector]:
    async with OtlpCollector() as collector:
        yield collector


@pytest.fixture(scope="session")
async def stack(collector: OtlpCollector, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """The suite with the examples in the collection `examples`; tests leave that collection as it is."""
    data_dir = tmp_path_factory.mktemp("e2e") / "data"
    environment = {
        "GROUNDLINE_OTLP_ENDPOINT": collector.endpoint,
        "GROUNDLINE_COLLECTOR_PRIVATE_ADDRESSES": "true",
        # One client sends what many would.
        "GROUNDLINE_GATEWAY_RATE_LIMIT_PER_MINUTE": "1000000",
        "GROUNDLINE_GATEWAY_RATE_LIMIT_BURST": "1000000",
        "GROUNDLINE_GATEWAY_MAX_CONCURRENT_REQUESTS": "10000",
    }
    async with running_stack(data_dir, **environment) as stack:
        ingested = await stack.command(
            "ingest", str(EXAMPLES), "--collection", "examples", "--exclude", "questions.json"
        )
        assert ingested.code == 0, ingested.err
        yield stack


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with stack.client() as client:
        yield client


@pytest.fixture
async def database(stack: Stack) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(stack.ready["database_url"])
    yield connection
    await connection.close()
