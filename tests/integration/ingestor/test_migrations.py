"""Migrations are applied once, in order, whole or not at all, by however many at once."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_ingestor.adapters.postgres import open_database
from groundline_ingestor.migrate import SCHEMA_VERSION, Migration, apply, migrate, migrations
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_runtime.postgres import require_schema_version
from pydantic import SecretStr

ONE = Migration(1, "one", "CREATE TABLE one (id int);")
TWO = Migration(2, "two", "CREATE TABLE two (id int); INSERT INTO two VALUES (2);")


@pytest.fixture
async def empty_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    yield await postgres.create_database("migrations_empty")
    await postgres.drop_database("migrations_empty")


@pytest.fixture
async def connection(empty_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(empty_url)
    yield connection
    await connection.close()


async def tables(connection: "asyncpg.Connection[asyncpg.Record]") -> set[str]:
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {row["tablename"] for row in rows}


async def test_a_file_that_fails_leaves_nothing_of_it(
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    broken = replace(TWO, sql="CREATE TABLE two (id int); SELECT 1/0;")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await apply(connection, [ONE, broken])
    assert await tables(connection) == {"schema_migrations", "one"}
    assert await apply(connection, [ONE, TWO]) == [TWO]


async def test_a_file_changed_after_it_was_applied_is_refused(
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await apply(connection, [ONE])
    with pytest.raises(FailedPreconditionError) as raised:
        await apply(connection, [replace(ONE, sql="CREATE TABLE one (id bigint);"), TWO])
    assert raised.value.reason == "MIGRATION_CHANGED"
    assert "0001_one" in raised.value.message
    assert "two" not in await tables(connection)


async def test_a_newer_database_is_refused(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await apply(connection, [ONE, TWO])
    with pytest.raises(FailedPreconditionError) as raised:
        await apply(connection, [ONE])
    assert raised.value.reason == "SCHEMA_TOO_NEW"


def test_files_with_a_gap_in_their_numbers_are_refused(tmp_path: Path) -> None:
    for name in ("0001_a.sql", "0003_b.sql", "notes.txt"):
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(ValueError, match="numbered"):
        migrations(tmp_path)


async def test_several_at_once_apply_everything_once(empty_url: str) -> None:
    await asyncio.gather(*(migrate(SecretStr(empty_url)) for _ in range(3)))
    connection = await asyncpg.connect(empty_url)
    try:
        versions = await connection.fetch("SELECT version FROM schema_migrations ORDER BY version")
        extensions = {row["extname"] for row in await connection.fetch("SELECT extname FROM pg_extension")}
    finally:
        await connection.close()
    assert [row["version"] for row in versions] == list(range(1, SCHEMA_VERSION + 1))
    assert {"vector", "pg_search"} <= extensions


async def test_a_service_tells_that_the_schema_is_missing(empty_url: str) -> None:
    async with open_database(SecretStr(empty_url), max_size=1) as pool:
        with pytest.raises(FailedPreconditionError) as raised:
            await require_schema_version(pool, SCHEMA_VERSION)
    assert raised.value.reason == "SCHEMA_TOO_OLD"


async def test_a_database_out_of_reach_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        await migrate(SecretStr(f"postgresql://nobody@/none?host={tmp_path}"))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLINE_")}
    return subprocess.run(
        [sys.executable, "-m", "groundline_ingestor", *arguments],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_missing_database_url_is_one_clear_line(command: str) -> None:
    done = run(command)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "GROUNDLINE_INGESTOR_DATABASE_URL" in done.stderr


def test_the_command_refuses_without_showing_the_password(tmp_path: Path) -> None:
    done = run("migrate", GROUNDLINE_DATABASE_URL=f"postgresql://u:hunter2@/none?host={tmp_path}")
    assert done.returncode == 1
    assert "DATABASE_UNAVAILABLE" in done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_the_command_explains_itself() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "migrate" in done.stdout
