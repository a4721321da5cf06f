"""A database of the development before the first release is adopted with all its data, or refused."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import DatabaseSettings, Pool, migrate, open_pool, require_schema
from groundline_runtime.errors import FailedPreconditionError
from pydantic import SecretStr

SERVICES = ("ingestor", "coordinator", "gateway")
FOLDER = Path(__file__).parent
DEVELOPMENT = (FOLDER / "development.sql").read_text()
ROWS = (FOLDER / "development_rows.sql").read_text()
TABLES = """
    SELECT quote_ident(tablename) FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'schema_migrations' ORDER BY tablename
"""
CATALOGUE = (FOLDER / "catalogue.sql").read_text()


async def catalogue(pool: Pool) -> list[str]:
    return [row[0] for row in await pool.fetch(CATALOGUE)]


async def content(pool: Pool) -> dict[str, list[str]]:
    tables = [row[0] for row in await pool.fetch(TABLES)]
    return {
        table: [
            row[0]
            for row in await pool.fetch(
                f"SELECT jsonb_strip_nulls(to_jsonb(t))::text FROM {table} AS t ORDER BY 1"
            )
        ]
        for table in tables
    }


@pytest.fixture
async def settings(postgres: EmbeddedPostgres) -> AsyncIterator[DatabaseSettings]:
    """A database that was migrated with the last development version."""
    url = SecretStr(await postgres.create_database("development"))
    yield DatabaseSettings(database_url=url)
    await postgres.drop_database("development")


@pytest.fixture
async def pool(settings: DatabaseSettings) -> AsyncIterator[Pool]:
    async with open_pool(settings) as pool:
        await pool.execute(DEVELOPMENT)
        yield pool


@pytest.fixture
async def fresh(postgres: EmbeddedPostgres) -> AsyncIterator[Pool]:
    url = SecretStr(await postgres.create_database("fresh"))
    async with open_pool(DatabaseSettings(database_url=url)) as pool:
        for service in SERVICES:
            await migrate(DatabaseSettings(database_url=url), service)
        yield pool
    await postgres.drop_database("fresh")


async def test_it_gets_the_schema_and_keeps_rows(pool: Pool, settings: DatabaseSettings, fresh: Pool) -> None:
    await pool.execute(ROWS)
    before = await content(pool)
    for service in SERVICES:
        await migrate(settings, service)
    after = await content(pool)  # of tables that are new too
    assert {name: after[name] for name in before} == before
    await pool.execute("DROP TABLE chunks_p7")
    assert await catalogue(pool) == await catalogue(fresh)
    applied = "SELECT service, version, checksum FROM schema_migrations ORDER BY service, version"
    assert await pool.fetch(applied) == await fresh.fetch(applied)


async def test_it_is_not_used_before_it_is_adopted(pool: Pool, settings: DatabaseSettings) -> None:
    with pytest.raises(FailedPreconditionError) as raised:
        await require_schema(pool, {"ingestor": 1})
    assert raised.value.message.endswith("run `groundline-ingestor migrate`")
    await migrate(settings, "ingestor")
    await require_schema(pool, {"ingestor": 1})


async def test_one_without_a_migration_is_refused_untouched(pool: Pool, settings: DatabaseSettings) -> None:
    await pool.execute("DELETE FROM schema_migrations WHERE service = 'ingestor' AND version = 28")
    before = await pool.fetch("SELECT * FROM schema_migrations")
    with pytest.raises(FailedPreconditionError) as raised:
        await migrate(settings, "ingestor")
    assert raised.value.reason == "SCHEMA_TOO_OLD"
    assert raised.value.message == (
        "the ingestor's schema is of a development version before the first release: migrate it with the "
        "commit e18be48 first, or begin with an empty database (groundline up: another --data-dir) and "
        "ingest again"
    )
    assert await pool.fetch("SELECT * FROM schema_migrations") == before
