"""Settings of a process that uses the database."""

from typing import Annotated, Self

from groundline_runtime.settings import Seconds, Settings
from pydantic import Field, SecretStr, model_validator


class DatabaseSettings(Settings):
    """Settings of a process with a database, in addition to its own."""

    database_url: SecretStr
    """PostgreSQL, as postgresql://user:password@host/database, with TLS parameters if needed;
    `?host=/directory` for a unix socket."""

    pool_min_size: Annotated[int, Field(ge=1, le=1000)] = 1
    """Minimum connections that are kept open."""

    pool_max_size: Annotated[int, Field(ge=1, le=1000)] = 10
    """Maximum connections that requests use; one more checks whether the database answers."""

    connect_timeout_seconds: Seconds = 10.0
    """Maximum time for opening a connection."""

    pool_timeout_seconds: Seconds = 5.0
    """Maximum wait for a connection of the pool."""

    statement_timeout_seconds: Seconds = 60.0
    """Maximum time for one SQL statement. A request waits at most 20 s for all of its statements
    together, unless many rows are changed: nobody waits longer for a table that is locked, or for a server
    that hangs."""

    @model_validator(mode="after")
    def _pool_sizes_fit(self) -> Self:
        if self.pool_min_size > self.pool_max_size:
            raise ValueError("pool_min_size is greater than pool_max_size")
        return self
