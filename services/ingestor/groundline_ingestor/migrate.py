"""Schema migrations: ordered SQL files, each applied once, in a transaction, under an advisory lock."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import structlog
from groundline_lexical import Connection, LexicalIndexError, detect_lexical_index
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.postgres import open_pool
from pydantic import SecretStr

__all__ = ["SCHEMA_VERSION", "Migration", "apply", "migrate", "migrations"]

# Any constant of our own will do.
_LOCK: Final = 0x67726F756E64
_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")

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


def migrations(folder: Traversable | None = None) -> Sequence[Migration]:
    """The files `NNNN_name.sql` of a folder, by default the package's, in order. Raises ValueError for
    gaps."""
    folder = folder or resources.files("groundline_ingestor") / "migrations"
    found = []
    for file in folder.iterdir():
        if match := _NAME.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 and so on")
    return found


SCHEMA_VERSION: Final = len(migrations())
"""The version that this release of the suite needs."""


async def migrate(dsn: SecretStr, lexical_backend: str | None = None) -> None:
    """Bring a database up to date; running it again, or several at once, is safe.

    Raises FailedPreconditionError, UnavailableError.
    """
    async with (
        open_pool(dsn, max_size=1, application_name="groundline-ingestor-migrate") as pool,
        pool.acquire() as connection,
    ):
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK, timeout=None)
        try:
            await _create_lexical_extension(connection, lexical_backend)
            applied = await apply(connection, migrations())
        finally:
            await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
    _log.info("schema_migrated", applied=[migration.version for migration in applied], version=SCHEMA_VERSION)


async def apply(connection: Connection, wanted: Sequence[Migration]) -> Sequence[Migration]:
    """Apply what is missing, each file in a transaction of its own, and return it.

    Raises FailedPreconditionError when an applied file has changed since, or the database is newer than
    `wanted`.
    """
    await connection.execute(
        """
        CREATE TABLE IF NOT EXISTS schema_migrations (
            version integer PRIMARY KEY,
            name text NOT NULL,
            checksum text NOT NULL,
            apply_time timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    applied = {
        row["version"]: row["checksum"]
        for row in await connection.fetch("SELECT version, checksum FROM schema_migrations")
    }
    if newer := sorted(set(applied) - {migration.version for migration in wanted}):
        raise FailedPreconditionError(
            "SCHEMA_TOO_NEW",
            f"the database's schema is at version {newer[-1]}, newer than this release knows",
        )
    for migration in wanted:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise FailedPreconditionError(
                "MIGRATION_CHANGED",
                f"migration {migration.version:04d}_{migration.name} has changed since it was applied; "
                "restore the file and put the change into a new one",
            )
    missing = [migration for migration in wanted if migration.version not in applied]
    for migration in missing:
        async with connection.transaction():
            await connection.execute(migration.sql, timeout=None)
            await connection.execute(
                "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.checksum,
            )
        _log.info("migration_applied", version=migration.version, name=migration.name)
    return missing


async def _create_lexical_extension(connection: Connection, backend: str | None) -> None:
    try:
        index = await detect_lexical_index(connection, backend)
        await index.create_extension(connection)
    except LexicalIndexError as error:
        raise FailedPreconditionError("LEXICAL_INDEX_UNAVAILABLE", str(error)) from error
