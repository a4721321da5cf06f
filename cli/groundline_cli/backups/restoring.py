"""A backup brought back into an empty database, of this keyword engine or another."""

# ruff: noqa: S608 - what is put into SQL here are names that PostgreSQL has quoted

import re
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from groundline_database import Connection, Pool, database_errors, migrations_of, open_pool
from groundline_database.migrations import apply
from groundline_indexing.lexical_indexes import LexicalIndexes
from groundline_indexing.vector_indexes import VectorIndexes
from groundline_ingestor.adapters.postgres.documents.erasing_again import HeldBack, erase_again
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import LexicalIndex, LexicalIndexError, detect_lexical_index, has_index
from pydantic import SecretStr

from groundline_cli.backups.manifest import DUMP, SCHEMAS, Manifest
from groundline_cli.backups.programs import OnProgress, run, run_watched, watched
from groundline_cli.backups.writing import LONG_SECONDS, counts, settings_of
from groundline_cli.errors import CommandFailedError

_TABLES: Final = """
    SELECT relname::text FROM pg_class c
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e'
    ) ORDER BY relname
"""
_COLLECTIONS: Final = "SELECT collection_id FROM collections ORDER BY 1"
_ADD_SCHEMAS: Final = """
    INSERT INTO schema_migrations SELECT * FROM jsonb_populate_recordset(null::schema_migrations, $1)
"""
_MISSING_ROLES: Final = "SELECT role FROM unnest($1::text[]) role WHERE to_regrole(quote_ident(role)) IS NULL"
_WITHOUT_INDEX: Final = f"""
    SELECT count(*) FROM chunk_partitions
    WHERE drop_time IS NULL AND NOT {has_index("'chunks_p' || partition_id")}
"""
_BUILDING: Final = """
    SELECT index_relid::regclass::text AS index,
        CASE WHEN blocks_total > 0 THEN blocks_done::float8 / blocks_total
             WHEN tuples_total > 0 THEN tuples_done::float8 / tuples_total END AS share
    FROM pg_stat_progress_create_index WHERE datname = current_database()
"""

# Keyword indexes are of their engine, and graphs of vectors need more memory than a server's default: the
# suite builds both by itself. Its versions come last, so that no service takes what is half there for whole.
_LEFT_OUT: Final = re.compile(
    r" INDEX \S+ chunks_p\d+_(bm25|embedding)|"
    r" FUNCTION \S+ groundline_terms\(|"
    r" TABLE DATA \S+ schema_migrations "
)
_ROWS: Final = re.compile(r"\d+; \d+ \d+ TABLE DATA \S+ (\S+) ")


@dataclass(frozen=True, slots=True)
class Restored:
    """Outcome of a restore."""

    engine: str
    erased: int
    """Documents of the backup that had been deleted for good after it, and are gone again."""
    held: Sequence[HeldBack]
    """Likewise, but the backup has a legal hold on them, so that they stay."""
    is_fed: bool
    """Whether a distributed index has to be compared with the database."""
    missing_indexes: int
    """Keyword indexes that could not be built."""


async def restore(
    url: str,
    backup: Path,
    manifest: Manifest,
    erasures: Sequence[Mapping[str, Any]],
    on_progress: OnProgress,
) -> Restored:
    """Bring a backup back into an empty database, erase again what it still had, and build the indexes.

    A restore that was interrupted goes on when it is repeated. Raises CommandFailedError, GroundlineError.
    """
    manifest.require_known_schemas()
    settings = IngestorSettings(database_url=SecretStr(url))
    async with open_pool(settings_of(url)) as pool, pool.acquire() as connection:
        with database_errors():
            are_rows_there = await _require_room(connection, manifest)
            lexical = await _prepared(connection, settings.lexical_backend, manifest)
            if not are_rows_there:
                await restore_rows(pool, url, backup, manifest, on_progress)
            async with connection.transaction():
                await _require_same(connection, manifest)
                on_progress("migrating")
                await migrate_restored(connection, manifest)
                await connection.execute("UPDATE chunk_partitions SET lexical_backend = $1", lexical.name)
                erased, held = await erase_again(connection, erasures)
                is_fed = await connection.fetchval("SELECT EXISTS (SELECT FROM search_index_partitions)")
            # Whole from here on: the suite's workers would do the rest as well.
            on_progress("analyzing")
            await connection.execute("ANALYZE", timeout=LONG_SECONDS)
            await watch_builds(pool, LexicalIndexes(pool, lexical).rebuild_due, on_progress)
            vectors = VectorIndexes(pool, maximum_bytes=settings.vector_index_memory_bytes)
            await watch_builds(pool, vectors.build_due, on_progress)
            missing = await connection.fetchval(_WITHOUT_INDEX)
    return Restored(lexical.name, erased, held, is_fed, missing)


async def restore_rows(
    pool: Pool,
    url: str,
    backup: Path,
    manifest: Manifest,
    on_progress: OnProgress,
    *options: str,
    tables: Collection[str] | None = None,
) -> None:
    """Run pg_restore, with options, in one transaction, with the rows of all tables or of those given, but
    without what the suite does after it: see `migrate_restored`. Raises CommandFailedError."""
    dump = str(backup / DUMP)
    with tempfile.NamedTemporaryFile("w", prefix="groundline-") as wanted:
        for line in (await run("pg_restore", "--list", dump)).splitlines(keepends=True):
            rows = _ROWS.match(line)
            if not _LEFT_OUT.search(line) and (rows is None or tables is None or rows[1] in tables):
                wanted.write(line)
        wanted.flush()
        given = (*options, "--single-transaction", "--no-owner", f"--use-list={wanted.name}", dump)
        await run_watched(pool, "pg_restore", *given, url=url, rows=manifest.tables, on_progress=on_progress)


async def migrate_restored(connection: Connection, manifest: Manifest) -> None:
    """Say which versions the restored tables have, and bring them up to date; in a transaction."""
    await connection.execute(_ADD_SCHEMAS, manifest.schemas)
    for service in SCHEMAS:
        await apply(connection, service, migrations_of(service))


async def _require_room(connection: Connection, manifest: Manifest) -> bool:
    """Require a database without tables, or one in which a restore was interrupted; return whether it is the
    latter. Raises CommandFailedError that names what is there."""
    tables = [row["relname"] for row in await connection.fetch(_TABLES)]
    if not tables:
        missing = [row["role"] for row in await connection.fetch(_MISSING_ROLES, manifest.roles)]
        if missing:
            raise CommandFailedError(
                f"the backup gives rights to roles that this server does not have: {', '.join(missing)}; "
                "create them first, as for the suite that was backed up"
            )
        return False
    if "schema_migrations" in tables and not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM schema_migrations)"
    ):
        return True
    held = f"{len(tables)} tables ({_some(tables)})"
    if "collections" in tables:
        names = [row["collection_id"] for row in await connection.fetch(_COLLECTIONS)]
        documents = await connection.fetchval("SELECT count(*) FROM documents")
        held = f"{len(names)} collections ({_some(names)}) with {documents} documents"
    raise CommandFailedError(f"the database is not empty: it has {held}; restore into an empty one")


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:5], *(["…"] if len(names) > 5 else [])]) or "none"


async def _prepared(connection: Connection, backend: str | None, manifest: Manifest) -> LexicalIndex:
    """Create the extensions, and return the keyword engine. Raises CommandFailedError."""
    try:
        lexical = await detect_lexical_index(connection, backend)
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        await lexical.create_extension(connection)
    except LexicalIndexError as error:
        raise CommandFailedError(str(error)) from error
    if manifest.has_shared_partitions and not lexical.capabilities.filters_collections:
        raise CommandFailedError(
            f"{lexical.name} cannot search the small collections of the backup, which share a table: restore "
            f"into a server with {manifest.engine}"
        )
    return lexical


async def _require_same(connection: Connection, manifest: Manifest) -> None:
    """Compare the rows of each table with the manifest. Raises CommandFailedError."""
    found = {**await counts(connection), "schema_migrations": len(manifest.schemas)}
    different = [
        f"{table} ({found.get(table, 0)} in place of {rows} rows)"
        for table, rows in manifest.tables.items()
        if found.get(table) != rows
    ]
    if different:
        raise CommandFailedError(
            f"what was restored is not this backup: {', '.join(different[:5])}; begin with an empty database"
        )


async def watch_builds(pool: Pool, build: Callable[[], Awaitable[object]], on_progress: OnProgress) -> None:
    """Build indexes, and tell how far each is."""

    async def look() -> None:
        for row in await pool.probe.fetch(_BUILDING):
            on_progress(f"building {row['index']}" + (f": {row['share']:.0%}" if row["share"] else ""))

    await watched(build(), look)
