"""Schema migrations: each service's ordered SQL files, each applied once, in a transaction."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import asyncpg
import structlog
from groundline_runtime.errors import FailedPreconditionError, UnavailableError

from groundline_database.development import COMMIT, DEVELOPMENT
from groundline_database.errors import database_errors
from groundline_database.pool import Connection, Pool, Probe, open_pool
from groundline_database.settings import DatabaseSettings

# An arbitrary constant. One lock for all services: they share extensions and the table below.
_LOCK: Final = 0x67726F756E64
_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")

MIGRATION_SECONDS: Final = 6 * 3600.0
"""Maximum time for one file, and for the wait until another process has migrated, in seconds."""

# A statement that waits for a lock on a table holds up all that come after it, reads too: so it gives up
# soon, lets them pass and tries again.
LOCK_TIMEOUT_SECONDS: Final = 2
LOCK_PAUSE_SECONDS: Final = 3.0
LOCK_ATTEMPTS: Final = 60

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
_VERSIONS: Final = """
    SELECT service, max(version) AS version, min(checksum) FILTER (WHERE version = 1) AS first
    FROM schema_migrations GROUP BY service
"""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Migration:
    """A file: its number, its name without number, its SQL."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations_of(service: str) -> Sequence[Migration]:
    """Return the migrations of a service's package, from its folder `migrations`."""
    return read_migrations(resources.files(f"groundline_{service}") / "migrations")


def read_migrations(folder: Traversable) -> Sequence[Migration]:
    """Return the files `NNNN_name.sql` of a folder, in order. Raises ValueError for gaps in their numbers."""
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

    `prepare` runs before the files, for decisions that SQL cannot make. Raises FailedPreconditionError and
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
    """Apply the missing files, each in a transaction of its own, and return them.

    Raises FailedPreconditionError if an applied file has changed since, or the database is newer than
    `wanted` or older than the first release; UnavailableError if the locks of its
    tables are held by others for minutes.
    """
    await connection.execute(_CREATE)
    applied = await _applied(connection, service, wanted[0])
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
        await _run(connection, service, migration)
        _log.info("migration_applied", schema=service, version=migration.version, name=migration.name)
    return missing


async def _applied(connection: Connection, service: str, initial: Migration) -> dict[int, str]:
    """Return version and checksum of what was applied, after a development database has been adopted."""
    try:
        rows = await connection.fetch(
            "SELECT version, checksum FROM schema_migrations WHERE service = $1", service
        )
    except asyncpg.UndefinedColumnError:
        raise _too_old("the database") from None
    applied = {row["version"]: row["checksum"] for row in rows}
    development = DEVELOPMENT.get(service)
    if development is None or applied.get(1) != development.first_checksum:
        return applied
    if applied.get(max(applied)) != development.last_checksum:
        raise _too_old(f"the {service}'s schema")
    async with connection.transaction():
        await connection.execute("DELETE FROM schema_migrations WHERE service = $1", service)
        await _record(connection, service, initial)
    _log.info("schema_adopted", schema=service, from_version=max(applied), to_version=initial.version)
    return {initial.version: initial.checksum}


def _too_old(schema: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "SCHEMA_TOO_OLD",
        f"{schema} is of a development version before the first release: migrate it with the commit "
        f"{COMMIT} first, or begin with an empty database (groundline up: another --data-dir) and ingest "
        "again",
    )


async def _run(connection: Connection, service: str, migration: Migration) -> None:
    """Run a file in a transaction, again and again while others hold the locks that it needs."""
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
                await connection.execute(migration.sql, timeout=MIGRATION_SECONDS)
                await _record(connection, service, migration)
        except asyncpg.LockNotAvailableError:
            _log.warning("migration_waits_for_lock", schema=service, name=migration.name, attempt=attempt)
            await asyncio.sleep(LOCK_PAUSE_SECONDS)
        else:
            return
    raise UnavailableError(
        "DATABASE_BUSY",
        f"migration {migration.version:04d}_{migration.name} of the {service} gets no lock on its tables; "
        "end long transactions (pg_stat_activity) and migrate again",
    )


async def _record(connection: Connection, service: str, migration: Migration) -> None:
    await connection.execute(
        "INSERT INTO schema_migrations (service, version, name, checksum) VALUES ($1, $2, $3, $4)",
        service,
        migration.version,
        migration.name,
        migration.checksum,
    )


async def schema_versions(database: Connection | Probe) -> dict[str, int]:
    """Return the version of each service's schema; 0 for a development database that is to be adopted."""
    try:
        rows = await database.fetch(_VERSIONS)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
        return {}
    return {row["service"]: 0 if _is_development(row) else row["version"] for row in rows}


def _is_development(row: asyncpg.Record) -> bool:
    development = DEVELOPMENT.get(row["service"])
    return development is not None and row["first"] == development.first_checksum


async def require_schema(pool: Pool, minimum: Mapping[str, int]) -> None:
    """Raise FailedPreconditionError unless each service's schema has its minimum version, or a newer one.

    A service names its own tables and those that it reads of others. Raises UnavailableError if the database
    does not answer; requests that hold all connections of the pool do not matter.
    """
    with database_errors():
        found = await schema_versions(pool.probe)
    for service, required in minimum.items():
        version = found.get(service, 0)
        if version < required:
            raise FailedPreconditionError(
                "SCHEMA_TOO_OLD",
                f"the {service}'s schema is at version {version}, this service needs {required}; "
                f"run `groundline-{service} migrate`",
                metadata={"schema": service, "found": str(version), "required": str(required)},
            )
