"""The services' environments are made once a session."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from groundline_tests.installed import Installation


@pytest.fixture(scope="session")
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    made = await asyncio.to_thread(Installation, tmp_path_factory.mktemp("installed"))
    yield made
    await asyncio.to_thread(made.close)
