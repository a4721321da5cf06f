"""What the PostgreSQL adapters share: connections that know our types, and errors in our terms."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import asyncpg
from groundline_runtime.errors import UnavailableError
from groundline_runtime.postgres import open_pool
from pgvector.asyncpg import register_vector
from pydantic import SecretStr

__all__ = ["Connection", "Pool", "acquire", "chunk_table", "open_database", "transaction"]

type Pool = asyncpg.Pool[asyncpg.Record]
type Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

# The binary form of jsonb is a version byte, which has been 1 since there is one, and the text. Needed in
# binary, since COPY takes no text codecs.
_JSONB_VERSION: Final = b"\x01"

_UNREACHABLE: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)


@asynccontextmanager
async def open_database(dsn: SecretStr, *, max_size: int) -> AsyncIterator[Pool]:
    """A pool whose connections read and write jsonb as values and halfvec as arrays.

    Raises what groundline_runtime.postgres.open_pool raises.
    """
    async with open_pool(
        dsn, max_size=max_size, init=_prepare, application_name="groundline-ingestor"
    ) as pool:
        yield pool


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn the loss of the database into UnavailableError, whose text names no host."""
    try:
        yield
    except _UNREACHABLE as error:
        raise _unavailable() from error
    except asyncpg.InterfaceError as error:
        # asyncpg says no more than this of a connection that closed under a statement; wrong arguments, which
        # are our own mistake, are of a subclass.
        if isinstance(error, asyncpg.exceptions.DataError):
            raise
        raise _unavailable() from error


@asynccontextmanager
async def acquire(pool: Pool) -> AsyncIterator[Connection]:
    """A connection; raises UnavailableError when the database cannot be reached or goes away."""
    with database_errors():
        async with pool.acquire() as connection:
            yield connection


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """A connection in a transaction, which is rolled back on any exception."""
    async with acquire(pool) as connection, connection.transaction():
        yield connection


def chunk_table(partition_id: int) -> str:
    """Name of a partition of chunks; safe in SQL."""
    return f"chunks_p{partition_id:d}"


async def _prepare(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=_encode_jsonb,
        decoder=lambda data: json.loads(bytes(data)[1:]),
    )
    schema = await connection.fetchval(
        """
        SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'
        """
    )
    if schema is not None:  # else the schema is not migrated yet, which the check of its version says better
        await register_vector(connection, schema=schema)


def _encode_jsonb(value: Any) -> bytes:
    return _JSONB_VERSION + json.dumps(value, ensure_ascii=False).encode()


def _unavailable() -> UnavailableError:
    return UnavailableError("DATABASE_UNAVAILABLE", "the database cannot be reached", retry_after_seconds=1)
