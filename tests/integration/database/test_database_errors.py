"""Translation of real failures of a real PostgreSQL."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest
from groundline_database import DatabaseSettings, Pool, acquire, database_errors, open_pool, transaction
from groundline_runtime.errors import NotFoundError, UnavailableError

type MakeSettings = Callable[..., DatabaseSettings]


@pytest.fixture
async def pool(settings: MakeSettings) -> AsyncIterator[Pool]:
    async with open_pool(settings(pool_max_size=4)) as pool:
        yield pool


async def execute(pool: Pool, *statements: str) -> None:
    async with acquire(pool) as connection:
        for statement in statements:
            await connection.execute(statement)


async def reason_of(pool: Pool, *statements: str) -> str:
    with pytest.raises(UnavailableError) as caught:
        await execute(pool, *statements)
    assert caught.value.retry_after_seconds
    assert caught.value.__cause__ is None, "the driver's text may hold SQL or values"
    assert "secret" not in caught.value.message
    return caught.value.reason


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("disk_full", "DATABASE_FULL"),
        ("out_of_memory", "DATABASE_BUSY"),
        ("too_many_connections", "DATABASE_BUSY"),
        ("lock_not_available", "DATABASE_BUSY"),
        ("deadlock_detected", "DATABASE_BUSY"),
        ("serialization_failure", "DATABASE_BUSY"),
        ("query_canceled", "DATABASE_BUSY"),
        ("read_only_sql_transaction", "DATABASE_UNAVAILABLE"),
        ("cannot_connect_now", "DATABASE_UNAVAILABLE"),
        ("admin_shutdown", "DATABASE_UNAVAILABLE"),
        ("connection_failure", "DATABASE_UNAVAILABLE"),
    ],
)
async def test_an_error_of_the_server_has_one_reason(pool: Pool, condition: str, reason: str) -> None:
    raised = f"DO $$ BEGIN RAISE EXCEPTION 'of a secret value' USING ERRCODE = '{condition}'; END $$"
    assert await reason_of(pool, raised) == reason


async def test_a_lock_that_is_not_given_in_time_is_busy(pool: Pool) -> None:
    await pool.execute("CREATE TABLE held (id int)")
    async with transaction(pool) as holder:
        await holder.execute("LOCK TABLE held")
        assert await reason_of(pool, "SET lock_timeout = '20ms'", "SELECT * FROM held") == "DATABASE_BUSY"


async def test_a_statement_that_somebody_cancels_is_busy(pool: Pool) -> None:
    cancelled = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)"
    assert await reason_of(pool, cancelled) == "DATABASE_BUSY"


async def test_a_backend_that_is_ended_is_unavailable_and_the_next_statement_works(pool: Pool) -> None:
    ended = "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)"
    assert await reason_of(pool, ended) == "DATABASE_UNAVAILABLE"
    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_a_connection_that_has_closed_is_unavailable(pool: Pool) -> None:
    async def close_and_execute() -> None:
        async with acquire(pool) as connection:
            connection.terminate()
            await connection.execute("SELECT 1")

    with pytest.raises(UnavailableError) as caught:
        await close_and_execute()
    assert caught.value.reason == "DATABASE_UNAVAILABLE"


async def test_a_pool_that_is_closed_is_unavailable(settings: MakeSettings) -> None:
    async with open_pool(settings()) as pool:
        pass
    with pytest.raises(UnavailableError) as caught:
        async with acquire(pool):
            pass
    assert caught.value.reason == "DATABASE_UNAVAILABLE"


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        ("SELECT $1::int", ()),
        ("SELECT $1::int", (1, 2)),
        ("SELECT $1::int", ("one",)),
        ("SELECT $1::uuid", ("no uuid",)),
        ("SELECT $1::jsonb", ({1, 2},)),
        ("SELEC 1", ()),
        ("SELECT 1/0", ()),
        ("SELECT * FROM missing", ()),
    ],
    ids=["too few", "too many", "type", "uuid", "jsonb", "syntax", "division", "no table"],
)
async def test_our_mistakes_are_never_outages(pool: Pool, statement: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        async with acquire(pool) as connection:
            await connection.fetchval(statement, *arguments)


async def test_a_connection_that_is_used_twice_at_once_is_our_mistake(pool: Pool) -> None:
    async def execute_twice() -> None:
        async with acquire(pool) as connection:
            await asyncio.gather(*(connection.execute("SELECT pg_sleep(0.05)") for _ in range(2)))

    with pytest.raises(asyncpg.InterfaceError, match="another operation"):
        await execute_twice()


def test_a_full_disk_of_this_machine_is_not_the_database() -> None:
    with pytest.raises(OSError, match="No space left"), database_errors():
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_suites_own_errors_pass() -> None:
    with pytest.raises(NotFoundError), database_errors():
        raise NotFoundError("THREAD_NOT_FOUND", "no such thread")
