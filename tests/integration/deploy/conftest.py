"""The services' environments are made once a session."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from groundline_tests.images.installed import Installation
from groundline_tests.listening import free_ports


@pytest.fixture(scope="session")
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    made = await asyncio.to_thread(Installation, tmp_path_factory.mktemp("installed"))
    yield made
    await asyncio.to_thread(made.close)


@pytest.fixture
def unused_port() -> int:
    """A port where nothing listens."""
    [port] = free_ports(1)
    return port
