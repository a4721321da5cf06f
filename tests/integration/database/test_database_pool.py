"""Pools on a real PostgreSQL."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from groundline_database import (
    DatabaseSettings,
    Pool,
    acquire,
    database_errors,
    in_bulk,
    keep_session,
    open_pool,
    session,
    transaction,
)
from groundline_database.pool import REQUEST_SECONDS
from groundline_runtime.context import Caller, Waits, acting_as, counting, deadline_at
from groundline_runtime.errors import FailedPreconditionError, GroundlineError, UnavailableError
from pydantic import SecretStr, ValidationError

type MakeSettings = Callable[..., DatabaseSettings]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://user:hunter2@127.0.0.1:1/x", UnavailableError),
        ("postgresql://user:hunter2@/x?host=/nowhere", UnavailableError),
        ("mysql://user:hunter2@127.0.0.1/x", FailedPreconditionError),
        ("postgresql://user:hunter2@127.0.0.1:port/x", FailedPreconditionError),
    ],
    ids=["refused", "no socket", "other scheme", "bad port"],
)
async def test_an_unusable_database_is_named_without_url(url: str, expected: type[GroundlineError]) -> None:
    with pytest.raises(expected) as caught:
        async with open_pool(DatabaseSettings(database_url=SecretStr(url))):
            pass
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_an_unknown_database_is_a_failed_precondition(settings: MakeSettings) -> None:
    dsn = settings().database_url.get_secret_value()
    elsewhere = SecretStr(dsn.replace("/database_library?", "/elsewhere?"))
    with pytest.raises(FailedPreconditionError) as caught:
        async with open_pool(DatabaseSettings(database_url=elsewhere)):
            pass
    assert caught.value.reason == "DATABASE_REFUSED"


def test_a_pool_that_is_smaller_than_what_it_keeps_open_is_refused(settings: MakeSettings) -> None:
    with pytest.raises(ValidationError, match="pool_min_size is greater than pool_max_size"):
        settings(pool_min_size=3, pool_max_size=2)


async def test_a_pool_without_a_free_connection_is_busy_in_bounded_time(settings: MakeSettings) -> None:
    async with open_pool(settings(pool_max_size=1, pool_timeout_seconds=0.05)) as pool, acquire(pool):
        with pytest.raises(UnavailableError) as caught:
            async with acquire(pool):
                pass
        with pytest.raises(TimeoutError):
            await pool.fetchval("SELECT 1")
    assert caught.value.reason == "DATABASE_BUSY"
    assert caught.value.retry_after_seconds


async def test_who_gave_up_waiting_or_cannot_connect_holds_no_connection(
    settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError

    async with open_pool(settings(pool_max_size=1, pool_timeout_seconds=5)) as pool:
        async with acquire(pool) as connection:
            with pytest.raises(TimeoutError):
                await pool.acquire(timeout=0.05)
            connection.terminate()
        with monkeypatch.context() as patched:
            patched.setattr(pool, "_connect", refuse)
            for _ in range(2):
                with pytest.raises(ConnectionRefusedError):
                    await pool.fetchval("SELECT 1")
        assert await pool.fetchval("SELECT 1") == 1
        assert not pool.given


async def test_a_client_that_holds_no_connection_gets_the_next(settings: MakeSettings) -> None:
    order: list[str] = []

    async def ask(pool: Pool, client: str) -> None:
        with acting_as(Caller((client,))):
            async with acquire(pool):
                order.append(client)

    async with asyncio.timeout(30), open_pool(settings(pool_max_size=2)) as pool:
        with acting_as(Caller(("user:busy",))):
            async with acquire(pool), acquire(pool):
                clients = ("user:busy", "user:busy", "user:quiet")
                waiting = [asyncio.create_task(ask(pool, client)) for client in clients]
                await asyncio.sleep(0)
        await asyncio.gather(*waiting)

    assert order[0] == "user:quiet"


async def sleep(pool: Pool) -> None:
    async with acquire(pool) as connection:
        await connection.execute("SELECT pg_sleep(60)")


async def test_a_statement_is_ended_in_time_and_its_connection_used_again(settings: MakeSettings) -> None:
    async with open_pool(settings(pool_max_size=1, statement_timeout_seconds=0.1)) as pool:
        with pytest.raises(UnavailableError) as caught:
            await sleep(pool)
        async with acquire(pool) as connection:
            assert await connection.fetchval("SELECT 1") == 1
            sleeping = (
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND state = 'active'"
            )
            assert await connection.fetchval(sleeping) == 0
    assert caught.value.reason == "DATABASE_BUSY"


async def test_nobody_waits_for_a_statement_of_a_request_as_long_as_a_worker_does(
    settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundline_database.pool.REQUEST_SECONDS", 0.1)
    slow = "SELECT 1 FROM pg_sleep(0.5)"
    async with asyncio.timeout(30), open_pool(settings()) as pool:
        assert await pool.fetchval(slow) == 1
        with deadline_at(time.monotonic() + 600):
            with pytest.raises(UnavailableError) as caught:
                await sleep(pool)
            with in_bulk():
                assert await pool.fetchval(slow) == 1
            assert await pool.fetchval(slow, timeout=20) == 1
    assert caught.value.reason == "DATABASE_BUSY"
    assert caught.value.retry_after_seconds


async def test_a_request_that_may_wait_no_longer_asks_for_nothing_more(settings: MakeSettings) -> None:
    clock = SimpleNamespace(now=0.0)
    waits = Waits(lambda: clock.now)
    async with asyncio.timeout(30), open_pool(settings(pool_max_size=1)) as pool:
        with deadline_at(time.monotonic() + 600), counting(waits):
            async with acquire(pool) as connection:
                assert await connection.fetchval("SELECT 1") == 1
                with waits:
                    clock.now += REQUEST_SECONDS
                for refused in (connection.fetchval("SELECT 1"), pool.fetchval("SELECT 1")):
                    with pytest.raises(UnavailableError) as caught, database_errors():
                        await refused
                    assert caught.value.reason == "DATABASE_BUSY"
                with in_bulk():
                    assert await connection.fetchval("SELECT 1") == 1
                with counting(Waits()):
                    assert await connection.fetchval("SELECT 1") == 1


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_statement_that_is_given_up_does_not_wait_for_a_server_that_hangs(
    settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundline_database.pool.RELEASE_SECONDS", 0.05)
    async with asyncio.timeout(30), open_pool(settings(pool_timeout_seconds=600)) as pool:
        with stopped(await pool.fetchval("SELECT pg_backend_pid()")):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await pool.execute("SELECT 1")
            assert await pool.fetchval("SELECT 1") == 1


async def test_a_transaction_that_is_given_up_does_not_wait_for_a_server_that_hangs(
    settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundline_database.pool.RELEASE_SECONDS", 0.05)

    async def begin_and_hang(pool: Pool, hung: ExitStack) -> None:
        async with transaction(pool) as connection:
            hung.enter_context(stopped(await connection.fetchval("SELECT pg_backend_pid()")))
            async with asyncio.timeout(0.1):
                await connection.execute("SELECT 1")

    async with asyncio.timeout(30), open_pool(settings(pool_max_size=1)) as pool:
        with ExitStack() as hung:
            with pytest.raises(UnavailableError) as caught:
                await begin_and_hang(pool, hung)
            assert await pool.fetchval("SELECT 1") == 1
    assert caught.value.reason == "DATABASE_BUSY"


async def test_the_database_is_known_to_answer_while_all_connections_are_held(settings: MakeSettings) -> None:
    async with open_pool(settings(pool_max_size=1)) as pool, acquire(pool):
        assert [row["one"] for row in await pool.probe.fetch("SELECT 1 AS one")] == [1]


async def test_a_probe_that_was_not_answered_asks_on_a_new_connection(settings: MakeSettings) -> None:
    process = "SELECT pg_backend_pid() AS pid"
    async with asyncio.timeout(30), open_pool(settings()) as pool:
        [row] = await pool.probe.fetch(process)
        [again] = await pool.probe.fetch(process)
        with stopped(row["pid"]):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await pool.probe.fetch(process)
            [another] = await pool.probe.fetch(process)
    assert row["pid"] == again["pid"] != another["pid"]


async def create_and_fail(pool: Pool) -> None:
    async with transaction(pool) as connection:
        await connection.execute("CREATE TABLE half (id int)")
        raise KeyError


async def test_a_server_that_is_away_is_no_traceback_for_each_attempt_to_find_it_again(
    settings: MakeSettings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = asyncio.Semaphore(0)

    async def refuse(*_: Any, **__: Any) -> None:
        attempts.release()
        raise ConnectionRefusedError

    async with asyncio.timeout(30), open_pool(settings()) as pool:
        monkeypatch.setattr(pool, "_connect", refuse)
        with pytest.raises(asyncpg.PostgresError):
            await pool.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        for _ in range(2):
            await attempts.acquire()
    assert not [record for record in caplog.records if record.name.startswith("asyncpg")]


async def test_a_transaction_is_undone_by_any_exception(settings: MakeSettings) -> None:
    async with open_pool(settings()) as pool:
        with pytest.raises(KeyError):
            await create_and_fail(pool)
        assert await pool.fetchval("SELECT to_regclass('half')") is None


async def test_a_connection_that_never_comes_back_does_not_hold_up_the_close(
    settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundline_database.pool.CLOSE_SECONDS", 0.05)
    async with asyncio.timeout(10):
        async with open_pool(settings()) as pool:
            await pool.acquire()


async def test_connections_are_prepared_and_named(settings: MakeSettings) -> None:
    prepared: list[str] = []

    async def init(connection: "asyncpg.Connection[Any]") -> None:
        prepared.append(str(await connection.fetchval("SHOW application_name")))

    async with open_pool(settings(), init=init, server_settings={"work_mem": "7MB"}) as pool:
        assert await pool.fetchval("SHOW work_mem") == "7MB"
    assert prepared == [f"groundline/{version('groundline-database')}"]
    assert pool.is_closing()


async def test_what_a_session_sets_is_kept_only_where_the_service_says_so(settings: MakeSettings) -> None:
    for reset, expected in ((None, "4MB"), (keep_session, "9MB")):
        async with open_pool(
            settings(pool_max_size=1), reset=reset, server_settings={"work_mem": "4MB"}
        ) as pool:
            await pool.execute("SET work_mem = '9MB'")
            assert await pool.fetchval("SHOW work_mem") == expected


async def set_and_lock(pool: Pool, *, then_fail: bool) -> None:
    async with session(pool) as connection:
        await connection.execute("SET work_mem = '9MB'")
        await connection.execute("SELECT pg_advisory_lock(7)")
        if then_fail:
            raise KeyError("in the session")


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_is_left_of_a_session_in_a_keeping_pool(settings: MakeSettings, fails: bool) -> None:
    async with open_pool(
        settings(pool_max_size=1), reset=keep_session, server_settings={"work_mem": "4MB"}
    ) as pool:
        with pytest.raises(KeyError) if fails else nullcontext():
            await set_and_lock(pool, then_fail=fails)
        assert await pool.fetchval("SHOW work_mem") == "4MB"
        assert not await pool.fetchval(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"
        )
