"""Notifications of a real PostgreSQL, over connections that are lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from groundline_database import DatabaseSettings, Pool, listening, open_pool
from pydantic import SecretStr

type MakeSettings = Callable[..., DatabaseSettings]

CHANNEL = "probe"
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'groundline-listen'
"""


class Heard:
    """Counts what was heard and waits for more of it."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._more.set()

    async def more_than(self, count: int) -> None:
        async with asyncio.timeout(20):
            while self.count <= count:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
async def pool(settings: MakeSettings) -> AsyncIterator[Pool]:
    async with open_pool(settings()) as pool:
        yield pool


async def test_a_database_out_of_reach_does_not_end_the_caller(tmp_path: Path) -> None:
    nowhere = DatabaseSettings(database_url=SecretStr(f"postgresql://nobody@/none?host={tmp_path}"))
    heard = Heard()
    async with listening(nowhere, CHANNEL, heard):
        await asyncio.sleep(0.05)
    assert heard.count == 0


async def test_a_lost_connection_is_opened_again_and_counts_as_heard(
    pool: Pool, settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundline_database.notifications.LEAST_PAUSE_SECONDS", 0.01)
    heard = Heard()
    async with listening(settings(), CHANNEL, heard):
        await heard.more_than(0)
        assert await pool.fetchval(CUT)
        await heard.more_than(1)
        before = heard.count
        await pool.execute(f"NOTIFY {CHANNEL}")
        await heard.more_than(before)


async def test_only_committed_notifications_of_a_channel_count(pool: Pool, settings: MakeSettings) -> None:
    heard = Heard()
    async with listening(settings(), CHANNEL, heard):
        await heard.more_than(0)
        await pool.execute("NOTIFY another")
        await pool.execute(f"BEGIN; NOTIFY {CHANNEL}; ROLLBACK")
        await pool.execute(f"NOTIFY {CHANNEL}")
        await heard.more_than(1)
    assert heard.count == 2
