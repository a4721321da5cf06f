from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import DatabaseSettings
from pydantic import SecretStr

type MakeSettings = Callable[..., DatabaseSettings]


@asynccontextmanager
async def empty_database(postgres: EmbeddedPostgres, name: str) -> AsyncIterator[MakeSettings]:
    """Provide settings for an empty database, with what a test wants of them otherwise."""
    dsn = SecretStr(await postgres.create_database(name))

    def make(**values: Any) -> DatabaseSettings:
        return DatabaseSettings(database_url=dsn, **values)

    yield make
    await postgres.drop_database(name)


@pytest.fixture(scope="module")
async def settings(postgres: EmbeddedPostgres) -> AsyncIterator[MakeSettings]:
    """Settings for a database of the module, in which each table is a single test's."""
    async with empty_database(postgres, "database_library") as settings:
        yield settings


@pytest.fixture
async def fresh_settings(postgres: EmbeddedPostgres) -> AsyncIterator[MakeSettings]:
    """Settings for a database that is empty before each test."""
    async with empty_database(postgres, "database_library_fresh") as settings:
        yield settings
