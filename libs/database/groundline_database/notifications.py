"""Notifications of changes by the database, in place of polling."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import structlog

from groundline_database.settings import DatabaseSettings

LEAST_PAUSE_SECONDS: Final = 1.0
MAXIMUM_PAUSE_SECONDS: Final = 30.0
"""Maximum pause between two attempts to connect again, in seconds; it doubles up to this."""

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def listening(
    settings: DatabaseSettings, channel: str, heard: Callable[[], None]
) -> AsyncIterator[None]:
    """Call `heard` whenever the channel is notified, on a connection of its own that is opened again if lost.

    `heard` is also called after each connecting, since a notification may have been missed. Callers still
    have to poll now and then: a connection that died silently says nothing, nor does one through a pooler
    that shares connections between transactions.
    """
    task = asyncio.create_task(_listen(settings, channel, heard), name=f"listen-{channel}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(settings: DatabaseSettings, channel: str, heard: Callable[[], None]) -> None:
    pause = LEAST_PAUSE_SECONDS
    while True:
        try:
            connection = await asyncpg.connect(
                settings.database_url.get_secret_value(),
                timeout=settings.connect_timeout_seconds,
                command_timeout=settings.statement_timeout_seconds,
                server_settings={"application_name": f"{settings.service_name()}-listen"},
            )
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            _log.warning("listening_failed", channel=channel, error=type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAXIMUM_PAUSE_SECONDS)
            continue
        try:
            if await _hear(connection, channel, heard):
                pause = LEAST_PAUSE_SECONDS
        finally:
            # No statement runs on it, and the server may be gone.
            connection.terminate()
        await asyncio.sleep(pause)


async def _hear(
    connection: "asyncpg.Connection[asyncpg.Record]", channel: str, heard: Callable[[], None]
) -> bool:
    """Listen until the connection is lost; return whether it was ever established."""
    lost = asyncio.Event()
    connection.add_termination_listener(lambda _: lost.set())

    def on_notification(*_: Any) -> None:
        heard()

    try:
        await connection.add_listener(channel, on_notification)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        _log.warning("listening_failed", channel=channel, error=type(error).__name__)
        return False
    heard()
    await lost.wait()
    _log.info("listening_lost", channel=channel)
    return True
