"""The driver's errors in the suite's terms, the same in every service.

| reason | what happened | retry after |
|---|---|---|
| DATABASE_UNAVAILABLE | the connection was refused or lost, the server stops, starts or only reads | 1 s |
| DATABASE_BUSY | a wait for a connection, a lock or a statement ended; memory or connections ran out | 1 s |
| DATABASE_FULL | the server's disk is full | 30 s |

All are UnavailableError: the same request can succeed later. Everything else stays what it is: a wrong number
or type of arguments or a syntax error is our own mistake, a violated constraint for the adapter to explain.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg
from groundline_runtime.errors import FailedPreconditionError, UnavailableError

_FULL: Final = (asyncpg.DiskFullError,)

_BUSY: Final = (
    TimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InsufficientResourcesError,  # memory, connections
)

_UNAVAILABLE: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # a primary that became a standby
    asyncpg.InternalClientError,  # a connection whose server has just told it that it ends
    # At start these are wrong settings (see open_pool); later they mean that somebody changes a running
    # service's database.
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)

# asyncpg has one class for a closed connection and for mistakes such as a wrong number of arguments. A
# connection that is lost while it is held goes back to its pool at once.
_CLOSED: Final = re.compile(r"\b(connection|pool) (is (closed|closing)|has been released)\b")

# Errors of files that an adapter uses while it holds a connection; a socket never fails in this way.
_OF_FILES: Final = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


_HELD: Final = "LEGAL_HOLD"


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise UnavailableError in place of those driver errors that a retry can cure, and
    FailedPreconditionError (LEGAL_HOLD) where something is deleted that is held.

    Its text names the driver's class and holds nothing of the driver's text, which may hold SQL, values or
    the DSN.
    """
    try:
        yield
    except Exception as error:
        raise_translated(error)
        raise


def raise_translated(error: BaseException) -> None:
    """Raise what database_errors() raises in place of an error; do nothing for one that it lets through."""
    if isinstance(error, asyncpg.RaiseError):
        # By a trigger of the suite, whose text is for callers.
        if getattr(error, "hint", None) == _HELD:
            raise FailedPreconditionError(_HELD, str(error.args[0])) from None
    elif (unavailable := to_unavailable(error)) is not None:
        raise unavailable from None


def to_unavailable(error: BaseException) -> UnavailableError | None:
    """Return the error that database_errors() raises in place of another; None for one that it lets
    through."""
    name = type(error).__name__
    if isinstance(error, _FULL):
        return UnavailableError(
            "DATABASE_FULL", f"the database's disk is full ({name})", retry_after_seconds=30.0
        )
    if isinstance(error, _BUSY):
        return UnavailableError(
            "DATABASE_BUSY", f"the database did not answer in time ({name})", retry_after_seconds=1.0
        )
    is_lost = (
        _CLOSED.search(str(error)) is not None
        if isinstance(error, asyncpg.InterfaceError)
        else isinstance(error, _UNAVAILABLE) and getattr(error, "errno", None) not in _OF_FILES
    )
    if not is_lost:
        return None
    return UnavailableError(
        "DATABASE_UNAVAILABLE", f"the database cannot be reached ({name})", retry_after_seconds=1.0
    )
