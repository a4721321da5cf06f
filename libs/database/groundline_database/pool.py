"""Pools of connections in which every wait has a bound."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet

import asyncpg
import structlog
from asyncpg.pool import PoolAcquireContext, PoolConnectionProxy
from asyncpg.transaction import Transaction
from groundline_runtime.context import Waits, current_caller, current_waits, remaining_seconds
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_runtime.metrics.declaring import SECONDS, Histogram, ObservedGauge
from groundline_runtime.turns import ClientTurns

from groundline_database.codecs import register_codecs
from groundline_database.errors import raise_translated
from groundline_database.settings import DatabaseSettings

type Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
type OnConnection = Callable[["asyncpg.Connection[Any]"], Awaitable[None]]

CLOSE_SECONDS: Final = 5.0

REQUEST_SECONDS: Final = 20.0
"""Maximum time that a request waits for connections and statements together, in seconds; in a stream, for
each statement. Nobody waits longer for a table that is locked, or for a server that hangs."""

RELEASE_SECONDS: Final = 2.0
"""Maximum wait for a cancelled statement's end, for a rollback, and for the reset of a returned connection,
in seconds."""

CONNECTIONS: Final = ObservedGauge(
    "groundline.database.connections",
    "Connections of the process's pools, by state: used or idle.",
    unit="{connection}",
    labels=("state",),
)
CONNECTION_WAIT: Final = Histogram(
    "groundline.database.connection.wait",
    "Time that a request waited for a connection, by outcome: given, late (none was free in time), failed or "
    "cancelled.",
    unit="s",
    buckets=SECONDS,
    labels=("outcome",),
)

if TYPE_CHECKING:
    _Pool = asyncpg.Pool[asyncpg.Record]
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Pool = asyncpg.Pool  # generic in its stubs only
    _Connection = asyncpg.Connection

_log = structlog.get_logger(__name__)

# asyncpg reports each attempt at a lost connection with its traceback, to the terminal of whoever configures
# no logs. That the database is away is reported, once, by those who need it.
logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)


_is_bulk: Final = ContextVar("groundline_bulk", default=False)


@contextmanager
def in_bulk() -> Iterator[None]:
    """Let statements inside, which change as many rows as there are, take as long in a request as outside."""
    token = _is_bulk.set(True)
    try:
        yield
    finally:
        _is_bulk.reset(token)


def _allowed_seconds(waits: Waits | None, maximum_seconds: float) -> float:
    """Return the maximum of one more wait, in seconds, never more than the request has left. Raises
    TimeoutError if it has nothing left."""
    if waits is None:
        return maximum_seconds
    left = REQUEST_SECONDS - waits.seconds
    if left <= 0:
        raise TimeoutError("the request has waited for the database as long as it may")
    return min(maximum_seconds, left)


def _bounded[Method: Callable[..., Any]](method: Method) -> Method:
    """Bound a method's statement by REQUEST_SECONDS in a request."""
    name = method.__name__

    @wraps(method)
    async def call(self: Any, *args: Any, **options: Any) -> Any:
        waits = None
        if options.get("timeout") is None and remaining_seconds() is not None and not _is_bulk.get():
            if args[0].startswith("ROLLBACK"):  # which a request does that may wait no longer
                options["timeout"] = RELEASE_SECONDS
            else:
                waits = current_waits()
                maximum = min(REQUEST_SECONDS, self._config.command_timeout)
                options["timeout"] = _allowed_seconds(waits, maximum)
        # Looked up for each call, since tracing puts its own in the place of the driver's.
        run = getattr(_Connection, name)
        if waits is None:
            return await run(self, *args, **options)
        with waits:
            return await run(self, *args, **options)

    return cast("Method", call)


class _RequestConnection(_Connection):
    """Connection whose statements are bounded more narrowly in requests than in a worker's tasks."""

    __slots__ = ()

    copy_records_to_table = _bounded(_Connection.copy_records_to_table)
    execute = _bounded(_Connection.execute)
    executemany = _bounded(_Connection.executemany)
    fetch = _bounded(_Connection.fetch)
    fetchrow = _bounded(_Connection.fetchrow)
    fetchval = _bounded(_Connection.fetchval)


class Probe:
    """A connection beside the pool's, to check whether the database answers.

    Requests that hold all of the pool's connections do not make the database look dead; and if it does not
    answer, giving up does not wait, as returning a pool's connection would.
    """

    def __init__(self, connect: Callable[[], Awaitable["asyncpg.Connection[Any]"]]) -> None:
        self._connect = connect
        self._connection: asyncpg.Connection[Any] | None = None

    async def fetch(self, query: str) -> list[asyncpg.Record]:
        """Fetch the rows of a query. Raises asyncpg's errors; after any failure the next call opens a new
        connection."""
        connection, self._connection = self._connection, None
        try:
            if connection is None or connection.is_closed():
                connection = await self._connect()
            rows = await connection.fetch(query)
        except BaseException:
            if connection is not None:
                connection.terminate()
            raise
        self.close()  # ends another call at the same time
        self._connection = connection
        return rows

    def close(self) -> None:
        """Close the connection at once."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


class Pool(_Pool):
    """asyncpg's pool; by default its waits for a free connection, and for the return of one, are bounded.

    Clients take turns at the connections: whoever holds fewest gets the next one, however many requests of
    another wait. A client alone has all of them.
    """

    acquire_timeout_seconds: float
    probe: Probe
    turns: ClientTurns
    given: dict["PoolConnectionProxy[asyncpg.Record]", Callable[[], None]]
    """Connections in use, with what gives the turn of each back."""

    def acquire(self, *, timeout: float | None = None) -> "PoolAcquireContext[asyncpg.Record]":
        return super().acquire(timeout=self.acquire_timeout_seconds if timeout is None else timeout)

    async def _acquire(self, timeout: float) -> "PoolConnectionProxy[asyncpg.Record]":  # noqa: ASYNC109
        """Wait for a connection; whatever asks for one ends here."""
        waits = None if _is_bulk.get() else current_waits()
        seconds = _allowed_seconds(waits, timeout)
        with waits or nullcontext():
            async with asyncio.timeout(seconds):
                give_back = await self.turns.take(current_caller().owner)
                try:
                    connection = await super()._acquire(None)  # type: ignore[misc]
                except BaseException:
                    give_back()
                    raise
        self.given[connection] = give_back
        return connection  # type: ignore[no-any-return]

    async def release(
        self,
        connection: "PoolConnectionProxy[asyncpg.Record]",
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        give_back = self.given.pop(connection, None)
        token = _is_bulk.set(True)  # a request that may wait no longer gives its connection back as it was
        try:
            await super().release(connection, timeout=RELEASE_SECONDS if timeout is None else timeout)
        finally:
            _is_bulk.reset(token)
            if give_back:
                give_back()


_pools: Final[WeakSet[Pool]] = WeakSet()


def _connections() -> Iterable[tuple[float, Mapping[str, str]]]:
    pools = [*_pools]
    idle = sum(pool.get_idle_size() for pool in pools)
    return [(sum(pool.get_size() for pool in pools) - idle, {"state": "used"}), (idle, {"state": "idle"})]


CONNECTIONS.observe(_connections)


@asynccontextmanager
async def open_pool(
    settings: DatabaseSettings,
    *,
    init: OnConnection | None = None,
    reset: OnConnection | None = None,
    server_settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Pool]:
    """Provide a pool of connections with the suite's codecs, closed on exit.

    `init` prepares each new connection further. `reset` replaces asyncpg's resetting of session state when a
    connection is given back; see keep_session.

    TLS and socket directories are part of the DSN. Raises UnavailableError when the server cannot be reached
    and FailedPreconditionError when it refuses the DSN's user, password or database; neither repeats the
    DSN.
    """

    async def prepare(connection: "asyncpg.Connection[Any]") -> None:
        # The wait for the connection has its own bound, and the pool opens some that no request waits for.
        with in_bulk():
            await register_codecs(connection)
            if init is not None:
                await init(connection)

    async def connect() -> "asyncpg.Connection[Any]":
        return await asyncpg.connect(
            settings.database_url.get_secret_value(),
            timeout=settings.connect_timeout_seconds,
            server_settings={"application_name": _application_name(settings)},
        )

    with _clear_errors():
        pool = Pool(
            settings.database_url.get_secret_value(),
            min_size=settings.pool_min_size,
            max_size=settings.pool_max_size,
            max_queries=50_000,
            max_inactive_connection_lifetime=300.0,
            init=prepare,
            reset=reset,
            loop=None,
            connection_class=_RequestConnection,
            record_class=asyncpg.Record,
            timeout=settings.connect_timeout_seconds,
            command_timeout=settings.statement_timeout_seconds,
            server_settings={"application_name": _application_name(settings), **(server_settings or {})},
        )
        pool.acquire_timeout_seconds = settings.pool_timeout_seconds
        pool.probe = Probe(connect)
        pool.turns = ClientTurns(settings.pool_max_size, share=settings.pool_max_size)
        pool.given = {}
        await pool
    _pools.add(pool)
    try:
        yield pool
    finally:
        _pools.discard(pool)
        pool.probe.close()
        await _close(pool)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Raise what a driver says of a server as errors that do not repeat its address."""
    try:
        yield
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


def _application_name(settings: DatabaseSettings) -> str:
    """Return the service's name and version, which `groundline doctor` shows."""
    return f"{settings.service_name()}/{version('groundline-database')}"


async def keep_session(connection: "asyncpg.Connection[Any]") -> None:
    """Keep the session's state; a `reset` for services that set nothing outside a transaction, or only in a
    `session`.

    asyncpg's own is a round trip whenever a connection is given back.
    """


class Acquired(AbstractAsyncContextManager[Connection]):
    """A pool's connection for a block. A class, since a search takes three of them and a generator costs more
    time."""

    __slots__ = ("_connection", "_pool", "_translate")

    def __init__(self, pool: Pool, translate: Callable[[BaseException], None] = raise_translated) -> None:
        """Take the pool, and what raises another error in place of one of the block, if it should."""
        self._pool = pool
        self._translate = translate

    async def __aenter__(self) -> Connection:
        begun, outcome = time.perf_counter(), "cancelled"
        try:
            self._connection = await self._pool.acquire()
            outcome = "given"
        except Exception as error:
            outcome = "late" if isinstance(error, TimeoutError) else "failed"
            raise_translated(error)
            raise
        finally:
            CONNECTION_WAIT.record(time.perf_counter() - begun, {"outcome": outcome})
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._pool.release(self._connection)
        except Exception as failure:
            raise_translated(failure)
            raise
        if error is not None:
            self._translate(error)


def acquire(pool: Pool) -> Acquired:
    """Provide a connection; the driver's errors inside are translated by database_errors()."""
    return Acquired(pool)


@asynccontextmanager
async def session(pool: Pool) -> AsyncIterator[Connection]:
    """Provide a connection for state that outlives a transaction, such as settings and advisory locks; the
    state is reset when it is given back, whatever the pool's `reset`."""
    async with acquire(pool) as connection:
        try:
            yield connection
        finally:
            if not connection.is_closed():
                try:
                    with in_bulk():
                        await connection.reset(timeout=RELEASE_SECONDS)
                except BaseException:
                    connection.terminate()
                    raise


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """Provide a connection in a transaction, which is rolled back on any exception."""
    async with acquire(pool) as connection:
        begun = connection.transaction()
        await begun.start()
        try:
            yield connection
        except BaseException:
            await _roll_back(connection, begun)
            raise
        await begun.commit()


async def _roll_back(connection: Connection, begun: Transaction) -> None:
    """Roll a transaction back; a server that does not do so at once does it because its connection ends."""
    try:
        async with asyncio.timeout(RELEASE_SECONDS):
            await begun.rollback()
    except BaseException as error:
        connection.terminate()
        if not isinstance(error, Exception):
            raise


async def _close(pool: Pool) -> None:
    # close() waits for connections in use; one that never comes back must not hold up the exit.
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await pool.close()
    except TimeoutError:
        _log.warning("pool_terminated")
        pool.terminate()
