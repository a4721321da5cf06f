"""The command that brings the tables of a service up to date."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_ingestor.migrate import SCHEMA, migrate
from groundline_ingestor.settings import MigrationSettings
from groundline_runtime.errors import FailedPreconditionError
from pydantic import SecretStr

SERVICES = ["ingestor", "coordinator"]


@pytest.fixture
async def empty_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    yield await postgres.create_database("migrations_empty")
    await postgres.drop_database("migrations_empty")


def run(service: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLINE_")}
    return subprocess.run(
        [sys.executable, "-m", f"groundline_{service}", *arguments],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_missing_database_url_is_one_clear_line(service: str, command: str) -> None:
    done = run(service, command)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"GROUNDLINE_{service.upper()}_DATABASE_URL" in done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_the_command_refuses_without_showing_the_password(service: str, tmp_path: Path) -> None:
    done = run(service, "migrate", GROUNDLINE_DATABASE_URL=f"postgresql://u:hunter2@/none?host={tmp_path}")
    assert done.returncode == 1
    assert "DATABASE_UNAVAILABLE" in done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr


async def test_an_unknown_lexical_backend_leaves_the_database_as_it_is(empty_url: str) -> None:
    with pytest.raises(FailedPreconditionError) as raised:
        await migrate(MigrationSettings(database_url=SecretStr(empty_url), lexical_backend="none"))
    assert raised.value.reason == "LEXICAL_INDEX_UNAVAILABLE"
    connection = await asyncpg.connect(empty_url)
    try:
        assert await connection.fetchval("SELECT to_regclass('collections')") is None
    finally:
        await connection.close()


async def test_the_coordinator_is_migrated_after_the_ingestor_and_both_again(empty_url: str) -> None:
    early = run("coordinator", "migrate", GROUNDLINE_DATABASE_URL=empty_url)
    assert early.returncode == 1
    assert "groundline-ingestor migrate" in early.stdout + early.stderr
    for service in (*SERVICES, *SERVICES):
        done = run(service, "migrate", GROUNDLINE_DATABASE_URL=empty_url)
        assert done.returncode == 0, done.stdout + done.stderr
    connection = await asyncpg.connect(empty_url)
    try:
        versions = await connection.fetch(
            "SELECT service, max(version) FROM schema_migrations GROUP BY service"
        )
        extensions = {row["extname"] for row in await connection.fetch("SELECT extname FROM pg_extension")}
    finally:
        await connection.close()
    assert dict(tuple(row) for row in versions)["ingestor"] == SCHEMA["ingestor"]
    assert {"vector", "pg_search"} <= extensions


def test_the_command_explains_itself() -> None:
    for service in SERVICES:
        done = run(service, "--help")
        assert done.returncode == 0
        assert "migrate" in done.stdout
