"""Schema migrations: each service's ordered SQL files, each applied once, in a transaction."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import asyncpg
import structlog
from groundline_runtime.errors import FailedPreconditionError

from groundline_database.errors import database_errors
from groundline_database.pool import Connection, Pool, open_pool
from groundline_database.settings import DatabaseSettings

__all__ = ["Migration", "apply", "migrate", "migrations_of", "read_migrations", "require_schema"]

# Any constant of our own will do. One lock for all services: they share extensions and the table below.
_LOCK: Final = 0x67726F756E64
_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")

MIGRATION_SECONDS: Final = 6 * 3600.0
"""Maximum time for one file, and for the wait until another process has migrated."""

_CREATE: Final = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
        service text NOT NULL,
        version integer NOT NULL,
        name text NOT NULL,
        checksum text NOT NULL,
        apply_time timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (service, version)
    )
"""
_VERSIONS: Final = "SELECT service, max(version) AS version FROM schema_migrations GROUP BY service"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Migration:
    """One file: its number, its name without number, its SQL."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations_of(service: str) -> Sequence[Migration]:
    """The migrations of a service's package: its folder `migrations`."""
    return read_migrations(resources.files(f"groundline_{service}") / "migrations")


def read_migrations(folder: Traversable) -> Sequence[Migration]:
    """The files `NNNN_name.sql` of a folder, in order. Raises ValueError for gaps in their numbers."""
    found = []
    for file in folder.iterdir():
        if match := _NAME.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 and so on")
    return found


async def migrate(
    settings: DatabaseSettings,
    service: str,
    *,
    prepare: Callable[[Connection], Awaitable[None]] | None = None,
) -> None:
    """Bring a service's tables up to date; running it again, or several at once, is safe.

    `prepare` runs before the files, for what SQL cannot decide. Raises FailedPreconditionError and
    UnavailableError.
    """
    wanted = migrations_of(service)
    # The files set nothing that has to be reset, and a session's advisory lock goes with its connection.
    async with open_pool(settings) as pool, pool.acquire() as connection:
        with database_errors():
            await connection.execute("SELECT pg_advisory_lock($1)", _LOCK, timeout=MIGRATION_SECONDS)
            try:
                if prepare is not None:
                    await prepare(connection)
                applied = await apply(connection, service, wanted)
            finally:
                if not connection.is_closed():
                    await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
    _log.info(
        "schema_migrated",
        schema=service,
        applied=[migration.version for migration in applied],
        version=len(wanted),
    )


async def apply(connection: Connection, service: str, wanted: Sequence[Migration]) -> Sequence[Migration]:
    """Apply what is missing, each file in a transaction of its own, and return it.

    Raises FailedPreconditionError when an applied file has changed since, or the database is newer than
    `wanted`.
    """
    await connection.execute(_CREATE)
    try:
        rows = await connection.fetch(
            "SELECT version, checksum FROM schema_migrations WHERE service = $1", service
        )
    except asyncpg.UndefinedColumnError:
        raise FailedPreconditionError(
            "SCHEMA_TOO_OLD",
            "the database is of a version before the first release, which cannot be migrated: "
            "give an empty one and ingest again",
        ) from None
    applied = {row["version"]: row["checksum"] for row in rows}
    if newer := sorted(set(applied) - {migration.version for migration in wanted}):
        raise FailedPreconditionError(
            "SCHEMA_TOO_NEW",
            f"the {service}'s schema is at version {newer[-1]}, newer than this release knows",
        )
    for migration in wanted:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise FailedPreconditionError(
                "MIGRATION_CHANGED",
                f"migration {migration.version:04d}_{migration.name} of the {service} has changed since it "
                "was applied; restore the file and put the change into a new one",
            )
    missing = [migration for migration in wanted if migration.version not in applied]
    for migration in missing:
        async with connection.transaction():
            await connection.execute(migration.sql, timeout=MIGRATION_SECONDS)
            await connection.execute(
                "INSERT INTO schema_migrations (service, version, name, checksum) VALUES ($1, $2, $3, $4)",
                service,
                migration.version,
                migration.name,
                migration.checksum,
            )
        _log.info("migration_applied", schema=service, version=migration.version, name=migration.name)
    return missing


async def require_schema(pool: Pool, minimum: Mapping[str, int]) -> None:
    """Raise FailedPreconditionError unless each service's schema has its minimum version, or a newer one.

    A service names its own tables and those that it reads of others. UnavailableError where the database does
    not answer; requests that hold all connections of the pool do not matter.
    """
    try:
        with database_errors():
            rows = await pool.probe.fetch(_VERSIONS)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
        rows = []
    found = {row["service"]: row["version"] for row in rows}
    for service, required in minimum.items():
        version = found.get(service, 0)
        if version < required:
            raise FailedPreconditionError(
                "SCHEMA_TOO_OLD",
                f"the {service}'s schema is at version {version}, this service needs {required}; "
                f"run `groundline-{service} migrate`",
                metadata={"schema": service, "found": str(version), "required": str(required)},
            )
