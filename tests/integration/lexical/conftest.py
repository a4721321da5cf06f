"""A database for each lexical backend: on the server that is named, else on one of the tests' own."""

import os
from collections.abc import AsyncIterator

import asyncpg
import pytest
from groundline_lexical import Connection, LexicalIndex
from groundline_lexical.detection import BACKENDS
from groundline_tests.lexical import (
    ROLE,
    SEARCH_SETTINGS,
    URL_VARIABLE,
    Database,
    create_role,
    database_with,
    lexical_server_settings,
)
from groundline_tests.postgres import PostgresServer


@pytest.fixture(scope="session")
async def lexical_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """URL of the server."""
    if url := os.environ.get(URL_VARIABLE):
        yield url
        return
    directory = tmp_path_factory.mktemp("lexical")
    async with PostgresServer(directory, await lexical_server_settings()) as server:
        await create_role(server.dsn)
        yield server.dsn


@pytest.fixture(scope="session")
def lexical_owner() -> str | None:
    """Owner of the databases: on a given server, the role that its URL names."""
    return None if os.environ.get(URL_VARIABLE) else ROLE


@pytest.fixture(scope="module", params=BACKENDS)
async def database(
    request: pytest.FixtureRequest, lexical_server: str, lexical_owner: str | None
) -> AsyncIterator[Database]:
    name = f"lexical_{request.param}"
    async with database_with(request.param, lexical_server, name=name, owner=lexical_owner) as database:
        yield database


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database.url, server_settings=SEARCH_SETTINGS)
    yield connection
    await connection.close()


@pytest.fixture
def index(database: Database) -> LexicalIndex:
    return database.index
