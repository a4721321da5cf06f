"""Migrations are applied once, in order, whole or not at all, by however many at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
from groundline_database import (
    DatabaseSettings,
    Pool,
    migrate,
    migrations,
    migrations_of,
    open_pool,
    require_schema,
)
from groundline_database.migrations import Migration, apply, read_migrations
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from pydantic import SecretStr

type MakeSettings = Callable[..., DatabaseSettings]

ONE = Migration(1, "one", "CREATE TABLE one (id int);")
TWO = Migration(2, "two", "CREATE TABLE two (id int); INSERT INTO two VALUES (2);")


@pytest.fixture
async def pool(fresh_settings: MakeSettings) -> AsyncIterator[Pool]:
    async with open_pool(fresh_settings()) as pool:
        yield pool


async def tables(pool: Pool) -> set[str]:
    rows = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {row["tablename"] for row in rows}


async def test_a_file_that_fails_leaves_nothing_of_it(pool: Pool) -> None:
    broken = replace(TWO, sql="CREATE TABLE two (id int); SELECT 1/0;")
    async with pool.acquire() as connection:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await apply(connection, "probe", [ONE, broken])
        assert await tables(pool) == {"schema_migrations", "one"}
        assert await apply(connection, "probe", [ONE, TWO]) == [TWO]


async def test_a_file_changed_after_it_was_applied_is_refused(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await apply(connection, "probe", [ONE])
        with pytest.raises(FailedPreconditionError) as raised:
            await apply(connection, "probe", [replace(ONE, sql="CREATE TABLE one (id bigint);"), TWO])
    assert raised.value.reason == "MIGRATION_CHANGED"
    assert "0001_one" in raised.value.message
    assert "two" not in await tables(pool)


async def test_a_newer_database_is_refused(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await apply(connection, "probe", [ONE, TWO])
        with pytest.raises(FailedPreconditionError) as raised:
            await apply(connection, "probe", [ONE])
    assert raised.value.reason == "SCHEMA_TOO_NEW"


async def test_a_database_of_before_the_first_release_is_refused(pool: Pool) -> None:
    await pool.execute("CREATE TABLE schema_migrations (version int PRIMARY KEY, name text, checksum text)")
    async with pool.acquire() as connection:
        with pytest.raises(FailedPreconditionError) as raised:
            await apply(connection, "probe", [ONE])
    assert raised.value.reason == "SCHEMA_TOO_OLD"
    assert "one" not in await tables(pool)
    with pytest.raises(FailedPreconditionError):
        await require_schema(pool, {"probe": 1})


def test_files_with_a_gap_in_their_numbers_are_refused(tmp_path: Path) -> None:
    for name in ("0001_a.sql", "0003_b.sql", "notes.txt"):
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(ValueError, match="numbered"):
        read_migrations(tmp_path)


async def test_a_database_out_of_reach_is_unavailable(tmp_path: Path) -> None:
    nowhere = SecretStr(f"postgresql://nobody@/none?host={tmp_path}")
    with pytest.raises(UnavailableError):
        await migrate(DatabaseSettings(database_url=nowhere), "gateway")


async def test_an_old_or_missing_schema_names_both_versions_and_the_command(pool: Pool) -> None:
    with pytest.raises(FailedPreconditionError) as missing:
        await require_schema(pool, {"probe": 3})
    async with pool.acquire() as connection:
        await apply(connection, "probe", [ONE, TWO])
    with pytest.raises(FailedPreconditionError) as old:
        await require_schema(pool, {"probe": 3})
    with pytest.raises(FailedPreconditionError) as other:
        await require_schema(pool, {"probe": 2, "coordinator": 1})
    await require_schema(pool, {"probe": 2})
    assert "version 0, this service needs 3" in missing.value.message
    assert "version 2, this service needs 3" in old.value.message
    assert "groundline-probe migrate" in old.value.message
    assert "groundline-coordinator migrate" in other.value.message


async def test_services_have_versions_of_their_own(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await apply(connection, "probe", [ONE, TWO])
        other = Migration(1, "other", "CREATE TABLE other (id int);")
        assert await apply(connection, "another", [other]) == [other]
        assert await apply(connection, "probe", [ONE, TWO]) == []
    await require_schema(pool, {"probe": 2, "another": 1})


async def test_several_at_once_apply_everything_once(pool: Pool, fresh_settings: MakeSettings) -> None:
    await asyncio.gather(*(migrate(fresh_settings(), "gateway") for _ in range(3)))
    versions = await pool.fetch("SELECT service, version FROM schema_migrations ORDER BY version")
    assert [tuple(row) for row in versions] == [
        ("gateway", migration.version) for migration in migrations_of("gateway")
    ]


async def test_what_prepares_runs_under_the_lock_and_its_failure_applies_nothing(
    pool: Pool, fresh_settings: MakeSettings
) -> None:
    async def prepare(connection: object) -> None:
        raise FailedPreconditionError("LEXICAL_INDEX_UNAVAILABLE", "no extension")

    with pytest.raises(FailedPreconditionError):
        await migrate(fresh_settings(), "gateway", prepare=prepare)
    assert await tables(pool) == set()
    await migrate(fresh_settings(), "gateway")


async def test_a_lock_that_others_hold_is_waited_for_in_short_turns_that_let_readers_pass(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = asyncio.Event()
    go_on = asyncio.Event()

    async def pause(_: float) -> None:
        paused.set()
        await go_on.wait()

    monkeypatch.setattr(asyncio, "sleep", pause)
    change = Migration(2, "change", "ALTER TABLE one ADD COLUMN name text;")
    async with pool.acquire() as connection, pool.acquire() as holder:
        await apply(connection, "probe", [ONE])
        async with holder.transaction():
            await holder.execute("LOCK TABLE one IN ACCESS SHARE MODE")
            applying = asyncio.create_task(apply(connection, "probe", [ONE, change]))
            await paused.wait()
            assert await pool.fetch("SELECT id FROM one", timeout=1) == []
        go_on.set()
        assert await applying == [change]


async def test_a_lock_that_is_never_free_is_an_error(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "LOCK_ATTEMPTS", 1)
    monkeypatch.setattr(migrations, "LOCK_PAUSE_SECONDS", 0.0)
    async with pool.acquire() as connection, pool.acquire() as holder:
        await apply(connection, "probe", [ONE])
        async with holder.transaction():
            await holder.execute("LOCK TABLE one IN ACCESS SHARE MODE")
            with pytest.raises(UnavailableError) as raised:
                await apply(connection, "probe", [ONE, replace(TWO, sql="DROP TABLE one;")])
    assert raised.value.reason == "DATABASE_BUSY"
    assert "0002_two of the probe gets no lock" in raised.value.message
