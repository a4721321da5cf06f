"""A backup of the whole database, while the suite runs."""

# ruff: noqa: S608 - what is put into SQL here are names that PostgreSQL has quoted

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from groundline_database import (
    Connection,
    DatabaseSettings,
    Pool,
    database_errors,
    open_pool,
    schema_versions,
)
from groundline_ingestor.adapters.postgres.documents.erasing_again import read_erasures
from groundline_lexical.detection import BACKENDS
from pydantic import SecretStr

from groundline_cli.backups.manifest import DUMP, ERASURES, Manifest, hashes_of
from groundline_cli.backups.programs import OnProgress, run_watched
from groundline_cli.errors import CommandFailedError
from groundline_cli.stack.files import write_private

LONG_SECONDS: Final = 24 * 3600.0
"""Maximum time for a statement that reads or writes a whole table, in seconds."""

_FACTS: Final = """
    SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS create_time,
        current_setting('server_version') AS server, pg_export_snapshot() AS snapshot,
        (SELECT extname FROM pg_extension WHERE extname = ANY($1::text[])) AS engine,
        (SELECT jsonb_agg(to_jsonb(m) ORDER BY service, version) FROM schema_migrations m) AS schemas,
        EXISTS (
            SELECT FROM collections JOIN chunk_partitions p USING (partition_id) WHERE p.collection_id IS NULL
        ) AS has_shared_partitions,
        ARRAY(
            SELECT DISTINCT pg_get_userbyid(grantee)::text FROM pg_class c, aclexplode(relacl)
            WHERE relnamespace = current_schema()::regnamespace AND grantee NOT IN (0, relowner) ORDER BY 1
        ) AS roles
"""
_TABLES: Final = """
    SELECT relname::text AS name, quote_ident(relname) AS quoted FROM pg_class c
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e'
    ) ORDER BY relname
"""
# Documents that are only queued have nothing stored.
_COLLECTIONS: Final = """
    SELECT c.collection_id, c.partition_id, count(d.document_id) AS documents,
        coalesce(sum(d.chunk_count), 0)::bigint AS chunks
    FROM collections c LEFT JOIN documents d
        ON d.collection_id = c.collection_id AND d.ingestion_hash <> ''::bytea
    GROUP BY c.collection_id ORDER BY c.collection_id
"""


def settings_of(url: str) -> DatabaseSettings:
    """Return settings for work on whole tables."""
    return DatabaseSettings(database_url=SecretStr(url), pool_max_size=2, statement_timeout_seconds=3600)


async def back_up(url: str, target: Path, on_progress: OnProgress) -> Manifest:
    """Write a consistent backup of a database into the directory `target`, which must not exist.

    Until it is complete the directory has another name. Raises CommandFailedError, GroundlineError.
    """
    with _appearing_whole(target) as directory:
        async with open_pool(settings_of(url)) as pool:
            described = await _dump(pool, url, directory, on_progress)
        on_progress("computing checksums")
        manifest = Manifest(**described, files=await asyncio.to_thread(hashes_of, directory))
        manifest.write(directory)
    return manifest


async def write_erasures(url: str, target: Path) -> int:
    """Write the list of what was deleted for good to a file, in one step; return its length."""
    async with open_pool(settings_of(url)) as pool, pool.acquire() as connection:
        with database_errors():
            erasures = await read_erasures(connection)
    write_private(target, json.dumps(erasures))
    return len(erasures)


async def _dump(pool: Pool, url: str, directory: Path, on_progress: OnProgress) -> dict[str, Any]:
    """Run pg_dump on a snapshot; return what the manifest says of the snapshot."""
    async with pool.acquire() as connection:
        with database_errors():
            if not await schema_versions(connection):
                raise CommandFailedError("the database holds no suite: it has no schema_migrations")
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                row = await connection.fetchrow(_FACTS, list(BACKENDS))
                assert row is not None, "a SELECT without FROM has a row"
                facts = dict(row)
                on_progress("counting rows")
                tables = await counts(connection)
                collections = {
                    row["collection_id"]: {key: row[key] for key in ("partition_id", "documents", "chunks")}
                    for row in await connection.fetch(_COLLECTIONS, timeout=LONG_SECONDS)
                }
                (directory / ERASURES).write_text(json.dumps(await read_erasures(connection)))
                await run_watched(
                    pool,
                    "pg_dump",
                    "--format=directory",
                    # A fifth larger than by default, in a quarter of the processor time.
                    "--compress=gzip:1",
                    f"--file={directory / DUMP}",
                    f"--snapshot={facts.pop('snapshot')}",
                    "--exclude-extension=*",
                    "--exclude-schema=paradedb|bm25_catalog",
                    url=url,
                    rows=tables,
                    on_progress=on_progress,
                )
    return {**facts, "version": version("groundline-cli"), "tables": tables, "collections": collections}


async def counts(connection: Connection) -> dict[str, int]:
    """Return the number of rows of each table."""
    return {
        row["name"]: await connection.fetchval(f"SELECT count(*) FROM {row['quoted']}", timeout=LONG_SECONDS)
        for row in await connection.fetch(_TABLES)
    }


@contextmanager
def _appearing_whole(target: Path) -> Iterator[Path]:
    """Provide a directory that gets its name when the body has ended, and is removed if the body fails."""
    if target.exists():
        raise CommandFailedError(f"{target} exists: give the new backup a name of its own")
    try:
        made = tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.absolute().parent)
    except OSError as error:
        raise CommandFailedError(f"cannot write {target}: {error.strerror}") from error
    directory = Path(made)
    try:
        yield directory
        for path in (directory / DUMP, directory):
            _sync(path)
        directory.rename(target)
        _sync(target.absolute().parent)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
