"""Following of keys in the database, and of key sets and candidates' shares in files: a withdrawn key stops
working, and a candidate gets no more requests, without a restart."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path

import structlog
from groundline_database import DatabaseSettings, keep_session, open_pool, require_schema
from groundline_runtime.errors import GroundlineError
from groundline_runtime.settings import SettingsError

from groundline_gateway.auditing.recording import AuditLog, recording
from groundline_gateway.envoy.bootstrap import own_socket
from groundline_gateway.envoy.canary import share_percent
from groundline_gateway.envoy.files import write, write_routes, write_shares, write_tokens
from groundline_gateway.envoy.tokens import key_set
from groundline_gateway.keys import SCHEMA, Holder, KeyDatabaseSettings, KeyStore
from groundline_gateway.own import answering
from groundline_gateway.settings import GatewaySettings

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def configured(settings: GatewaySettings, path: Path) -> AsyncIterator[None]:
    """Write the configuration to `path`. While the body runs, keep its keys up to date with the database and
    the issuers' key sets with their files, store the audit log, and answer what the gateway answers itself.

    Waits until the database is reachable: a gateway without keys would refuse everyone. If it becomes
    unreachable later, the keys stay as they were, and expire. Raises SettingsError for a file that is not a
    key set, and if the socket cannot be created.
    """
    following = []
    audited: AbstractAsyncContextManager[None] = nullcontext()
    database = None
    if settings.database_url is None:
        write(settings, path)
    else:
        database = KeyDatabaseSettings(database_url=settings.database_url)
        holders = await _first(database, settings.key_refresh_seconds)
        log = AuditLog.beside(path) if settings.audit_retention_days else None
        if log is not None:
            audited = recording(
                database,
                path,
                log,
                retention_days=settings.audit_retention_days,
                with_reads=settings.audit_reads,
            )
        write(settings, path, holders, log.path if log is not None else None)
        following.append(asyncio.create_task(_follow(settings, database, path, holders)))
    if files := key_set_files(settings):
        following.append(asyncio.create_task(_follow_files(settings, files, path)))
    if settings.canary_addresses:
        following.append(asyncio.create_task(_follow_shares(settings, path)))
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(audited)
            if database is not None or settings.grpc_port is not None:
                own = answering(
                    own_socket(path),
                    database,
                    timeout_seconds=settings.request_timeout_seconds,
                    with_reflection=settings.grpc_port is not None,
                )
                await stack.enter_async_context(own)
            yield
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


def follows(settings: GatewaySettings) -> bool:
    """Tell whether there is something to do while Envoy runs."""
    return bool(
        settings.database_url is not None
        or key_set_files(settings)
        or settings.canary_addresses
        or settings.grpc_port is not None
    )


def key_set_files(settings: GatewaySettings) -> Sequence[Path]:
    """Return the files that hold issuers' keys."""
    return [issuer.jwks_file for issuer in settings.jwt_issuers if issuer.jwks_file is not None]


async def _follow_files(settings: GatewaySettings, files: Sequence[Path], path: Path) -> None:
    def read() -> Sequence[str]:
        return [key_set(file) for file in files]

    known, is_unreadable = await asyncio.to_thread(read), False
    while True:
        await asyncio.sleep(settings.key_refresh_seconds)
        try:
            found = await asyncio.to_thread(read)
            if found != known:
                await asyncio.to_thread(write_tokens, settings, path)
                known = found
                _log.info("key_sets_changed")
            is_unreadable = False
        except (SettingsError, OSError) as error:  # perhaps it is being written; the keys stay as they are
            if not is_unreadable:
                is_unreadable = True
                _log.warning("key_sets_not_read", error=str(error))


async def _follow_shares(settings: GatewaySettings, path: Path) -> None:
    known = None
    while True:
        found = await asyncio.to_thread(share_percent, settings)
        if found != known:
            try:
                await asyncio.to_thread(write_shares, settings, path)
                known = found
                _log.info("canary_share", percent=found, services=sorted(settings.canary_addresses))
            except OSError as error:  # such as a full disk; the share stays as it is, and is tried again
                _log.warning("canary_share_not_written", error=str(error))
        await asyncio.sleep(settings.key_refresh_seconds)


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
            async with open_pool(database, reset=keep_session) as pool:
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
