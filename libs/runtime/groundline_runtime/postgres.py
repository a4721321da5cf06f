"""PostgreSQL pools (extra `postgres`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import structlog
from pydantic import SecretStr

from groundline_runtime.errors import FailedPreconditionError, UnavailableError

__all__ = ["open_pool", "require_schema_version"]

CONNECT_TIMEOUT_SECONDS = 10.0

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_pool(
    dsn: SecretStr,
    *,
    min_size: int = 1,
    max_size: int = 10,
    init: Callable[[asyncpg.Connection], Coroutine[Any, Any, None]] | None = None,
    reset: Callable[[asyncpg.Connection], Coroutine[Any, Any, None]] | None = None,
    server_settings: Mapping[str, str] | None = None,
    application_name: str,
    command_timeout_seconds: float = 60.0,
    close_timeout_seconds: float = 5.0,
) -> AsyncIterator[asyncpg.Pool]:
    """A pool of connections, closed on exit; `init` prepares each new connection (codecs);
    `reset` replaces asyncpg's resetting of session state, a round trip each time a connection goes back.

    TLS and socket directories are part of the DSN. Raises UnavailableError when the server cannot be reached
    and FailedPreconditionError when it refuses the DSN's user, password or database; neither repeats the DSN.
    """
    try:
        pool = await asyncpg.create_pool(
            dsn.get_secret_value(),
            min_size=min_size,
            max_size=max_size,
            init=init,
            reset=reset,
            timeout=CONNECT_TIMEOUT_SECONDS,
            command_timeout=command_timeout_seconds,
            server_settings={"application_name": application_name, **(server_settings or {})},
        )
    except (
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.InsufficientPrivilegeError,
    ) as error:
        raise FailedPreconditionError(
            "DATABASE_REFUSED", f"the database refuses the connection ({type(error).__name__})"
        ) from None
    except (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError) as error:
        raise UnavailableError(
            "DATABASE_UNAVAILABLE", f"the database cannot be reached ({type(error).__name__})"
        ) from None
    except (ValueError, asyncpg.InterfaceError, asyncpg.ClientConfigurationError) as error:
        raise FailedPreconditionError(
            "DATABASE_URL_INVALID", f"the database URL cannot be used ({type(error).__name__})"
        ) from None
    try:
        yield pool
    finally:
        await _close(pool, close_timeout_seconds)


async def require_schema_version(pool: asyncpg.Pool, minimum: int) -> None:
    """Raise FailedPreconditionError unless the database's schema is at `minimum` or newer."""
    try:
        found = await pool.fetchval("SELECT max(version) FROM schema_migrations") or 0
    except asyncpg.UndefinedTableError:
        found = 0
    if found < minimum:
        raise FailedPreconditionError(
            "SCHEMA_TOO_OLD",
            f"the database schema is at version {found}, this service needs {minimum}; "
            "run `groundline-ingestor migrate`",
            metadata={"found": str(found), "required": str(minimum)},
        )


async def _close(pool: asyncpg.Pool, seconds: float) -> None:
    # close() waits for connections in use; one that never comes back must not hold up the exit.
    try:
        async with asyncio.timeout(seconds):
            await pool.close()
    except TimeoutError:
        _log.warning("pool_terminated")
        pool.terminate()
