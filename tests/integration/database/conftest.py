from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import DatabaseSettings
from pydantic import SecretStr

type MakeSettings = Callable[..., DatabaseSettings]


@pytest.fixture
async def settings(postgres: EmbeddedPostgres) -> AsyncIterator[MakeSettings]:
    """Settings for an empty database, with what a test wants of them otherwise."""
    dsn = SecretStr(await postgres.create_database("database_library"))

    def make(**values: Any) -> DatabaseSettings:
        return DatabaseSettings(database_url=dsn, **values)

    yield make
    await postgres.drop_database("database_library")
