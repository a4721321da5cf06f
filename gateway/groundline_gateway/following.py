"""Follows the keys in the database, so that a revoked one stops working without a restart."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from groundline_database import DatabaseSettings, open_pool, require_schema
from groundline_runtime.errors import GroundlineError
from pydantic_settings import SettingsConfigDict

from groundline_gateway.config import write, write_routes
from groundline_gateway.keys import SCHEMA, Holder, KeyStore
from groundline_gateway.settings import GatewaySettings

__all__ = ["KeyDatabaseSettings", "configured"]

_log = structlog.get_logger(__name__)


class KeyDatabaseSettings(DatabaseSettings):
    """The database as the gateway uses it: one query at a time."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_GATEWAY_")

    pool_max_size: int = 1


@asynccontextmanager
async def configured(settings: GatewaySettings, path: Path) -> AsyncIterator[None]:
    """Write the configuration to path, and keep its keys those of the database while the body runs.

    Without a database it is written once. Waits until the database is there: a gateway that knows no keys
    would refuse everyone. While the database is away later on, the keys stay as they were, and expire.
    """
    if settings.database_url is None:
        write(settings, path)
        yield
        return
    database = KeyDatabaseSettings(database_url=settings.database_url)
    holders = await _first(database, settings.key_refresh_seconds)
    write(settings, path, holders)
    following = asyncio.create_task(_follow(settings, database, path, holders))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _first(database: DatabaseSettings, seconds: float) -> Mapping[str, Holder]:
    while True:
        try:
            async with open_pool(database) as pool:
                await require_schema(pool, SCHEMA)
                return await KeyStore(pool).holders()
        except GroundlineError as error:
            _log.warning("keys_not_read", reason=error.reason, error=error.message)
            await asyncio.sleep(seconds)


async def _follow(
    settings: GatewaySettings, database: DatabaseSettings, path: Path, holders: Mapping[str, Holder]
) -> None:
    is_away = False
    while True:
        try:
            async with open_pool(database) as pool:
                store = KeyStore(pool)
                while True:
                    await asyncio.sleep(settings.key_refresh_seconds)
                    found = await store.holders()
                    if is_away:
                        is_away = False
                        _log.info("keys_followed_again")
                    if found != holders:
                        await asyncio.to_thread(write_routes, settings, path, found)
                        holders = found
                        _log.info("keys_changed", keys=len(found))
        except Exception as error:  # whatever it was, the keys must go on being followed
            if not is_away:
                is_away = True
                _log.warning("keys_not_followed", error=type(error).__name__)
            await asyncio.sleep(settings.key_refresh_seconds)
