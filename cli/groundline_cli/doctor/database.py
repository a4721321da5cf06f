"""Checks of the database, for those who may connect to it. Nothing is changed."""

# ruff: noqa: S608 - what is put into SQL here are constants and names of tables that the suite made of numbers
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import asyncpg
from groundline_database import DatabaseSettings, migrations_of, open_pool, schema_versions
from groundline_database.pool import Connection
from groundline_indexing.feed.changes import FeedState
from groundline_indexing.feed.feeding import LATE_SECONDS
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.vector_indexes import LEAST_ROWS
from groundline_lexical import LAST_RECOVERY, LexicalIndex, LexicalIndexError, detect_lexical_index
from groundline_runtime.errors import GroundlineError
from pydantic import SecretStr

from groundline_cli.backups.manifest import SCHEMAS
from groundline_cli.doctor.findings import Finding, Level

OLDEST_MAJOR: Final = 16

MOST_SKEW_SECONDS: Final = 2.0

MOST_COUNTED: Final = 1_000_000
"""Maximum rows of a table that are counted against its keyword index, which takes seconds; of larger tables
two rows are looked up."""

LEAST_FREE_SHARE: Final = 0.1
LEAST_FREE_BYTES: Final = 2 * 1024**3
"""Free bytes of the disk below which the finding is an error; below the share above it is a warning."""

MOST_CONNECTIONS_SHARE: Final = 0.8

_SERVER: Final = """
    SELECT current_setting('server_version_num')::int / 10000 AS major,
        current_setting('server_version') AS version,
        pg_is_in_recovery() AS is_standby, extract(epoch FROM clock_timestamp())::float8 AS clock
"""
_STANDBYS: Final = """
    SELECT coalesce(application_name, '') AS name, state,
        pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS lag_bytes
    FROM pg_stat_replication ORDER BY 1
"""
_CONNECTIONS: Final = """
    SELECT count(*) AS used, current_setting('max_connections')::int AS most
    FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
_CLIENTS: Final = """
    SELECT application_name, count(*) FROM pg_stat_activity
    WHERE application_name LIKE 'groundline-%/%' GROUP BY 1 ORDER BY 1
"""
_EXTENSIONS: Final = "SELECT extname, extversion FROM pg_extension"
_PARTITIONS: Final = f"""
    SELECT p.partition_id, p.lexical_backend,
        p.lexical_built_after IS DISTINCT FROM {LAST_RECOVERY} AS is_due,
        coalesce(p.collection_id, 'small collections in ' || p.language) AS owner,
        to_regclass('chunks_p' || p.partition_id) IS NOT NULL AS exists
    FROM chunk_partitions p
    WHERE EXISTS (SELECT FROM collections c WHERE c.partition_id = p.partition_id)
    ORDER BY p.partition_id
"""
_INDEXES: Final = """
    SELECT a.amname AS method, x.indisvalid AS is_valid
    FROM pg_index x JOIN pg_class k ON k.oid = x.indexrelid JOIN pg_am a ON a.oid = k.relam
    WHERE x.indrelid = to_regclass($1)
"""
_HAS_ROWS: Final = "SELECT EXISTS (SELECT FROM {table} OFFSET {rows:d})"


async def database_findings(url: str, data_dir: Path | None) -> AsyncIterator[Finding]:
    """Check the database, from whether it can be reached to whether every index is complete.

    `data_dir` is where the server keeps its data on this machine, if it does.
    """
    settings = DatabaseSettings(database_url=SecretStr(url), pool_max_size=2)
    try:
        async with open_pool(settings) as pool, pool.acquire() as connection:
            async for finding in _server(connection):
                yield finding
            yield await _disk(connection, data_dir)
            behind = [finding async for finding in _schema(connection)]
            for finding in behind:
                yield finding
            if any(finding.level is Level.ERROR for finding in behind):
                return
            async for finding in _keywords(connection):
                yield finding
            async for finding in _vectors(connection):
                yield finding
            for finding in _fed_index(await IndexFeed(pool).state()):
                yield finding
    except GroundlineError as error:
        yield Finding("database", Level.ERROR, error.message, "look at the server, and at --database-url")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        # Of its class alone: the text may quote rows.
        yield Finding(
            "database", Level.ERROR, f"a check failed ({type(error).__name__})", "look at the server's log"
        )


async def _server(connection: Connection) -> AsyncIterator[Finding]:
    asked = time.time()
    server = await connection.fetchrow(_SERVER)
    here = (asked + time.time()) / 2
    assert server is not None
    role = "a standby" if server["is_standby"] else "the primary"
    if server["major"] < OLDEST_MAJOR:
        yield Finding(
            "database",
            Level.ERROR,
            f"PostgreSQL {server['version']} is too old",
            f"upgrade to {OLDEST_MAJOR} or newer; 17 is recommended",
        )
    else:
        yield Finding("database", Level.OK, f"PostgreSQL {server['version']}, {role}")
    skew = abs(server["clock"] - here)
    if skew > MOST_SKEW_SECONDS:
        yield Finding(
            "database clock",
            Level.WARNING,
            f"differs from the one here by {skew:.1f} s",
            "let NTP set both: leases and announcements go by the database's",
        )
    else:
        yield Finding("database clock", Level.OK, f"differs from the one here by {skew:.1f} s")
    if not server["is_standby"]:
        for standby in await connection.fetch(_STANDBYS):
            yield _standby(standby)
    used = await connection.fetchrow(_CONNECTIONS)
    assert used is not None
    message = f"{used['used']} of {used['most']} in use"
    if used["used"] > MOST_CONNECTIONS_SHARE * used["most"]:
        advice = "raise max_connections, or make the pools or the numbers of replicas smaller"
        yield Finding("connections", Level.WARNING, message, advice)
    else:
        yield Finding("connections", Level.OK, message)
    for finding in _clients(await connection.fetch(_CLIENTS)):
        yield finding


def _standby(row: "asyncpg.Record") -> Finding:
    check, lag = f"standby {row['name']}".rstrip(), row["lag_bytes"]
    if row["state"] is None:
        return Finding(check, Level.SKIPPED, "this role may not see how far it is (GRANT pg_read_all_stats)")
    if row["state"] != "streaming" or lag is None:
        return Finding(check, Level.WARNING, f"{row['state']}", "look at its log")
    return Finding(check, Level.OK, f"streaming, {int(lag)} bytes behind")


def _clients(rows: Iterable["asyncpg.Record"]) -> Iterable[Finding]:
    """Report the connected services by the version that they run."""
    named = [row["application_name"] for row in rows]
    own = version("groundline-cli")
    if not named:
        yield Finding("service versions", Level.SKIPPED, "no service is connected that this role may see")
    elif all(name.endswith(f"/{own}") for name in named):
        services = ", ".join(name.partition("/")[0].removeprefix("groundline-") for name in named)
        yield Finding("service versions", Level.OK, f"{own}: {services}")
    else:
        yield Finding(
            "service versions",
            Level.WARNING,
            f"{', '.join(named)}; this command is {own}",
            "roll the older ones out again, unless a rollout is under way",
        )


async def _disk(connection: Connection, data_dir: Path | None) -> Finding:
    if data_dir is None:
        try:
            data_dir = Path(await connection.fetchval("SHOW data_directory"))
        except asyncpg.InsufficientPrivilegeError:
            return Finding(
                "disk", Level.SKIPPED, "this role may not see the data directory (GRANT pg_read_all_settings)"
            )
        # Another machine's may have the same name; then the server has no process here.
        if not _is_here(data_dir):
            return Finding("disk", Level.SKIPPED, "the server is on another machine: look at its disk there")
    usage = shutil.disk_usage(data_dir)
    message = f"{usage.free / 1024**3:.1f} GiB of {usage.total / 1024**3:.0f} are free for {data_dir}"
    if usage.free < LEAST_FREE_BYTES:
        level = Level.ERROR
    elif usage.free < LEAST_FREE_SHARE * usage.total:
        level = Level.WARNING
    else:
        return Finding("disk", Level.OK, message)
    return Finding("disk", level, message, "give it more room; indexes are built anew beside the old ones")


def _is_here(data_dir: Path) -> bool:
    try:
        pid = int((data_dir / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        os.kill(pid, 0)
    except (OSError, ValueError):
        return False
    return True


async def _schema(connection: Connection) -> AsyncIterator[Finding]:
    found = await schema_versions(connection)
    for service in SCHEMAS:
        applied = found.get(service, 0)
        try:
            wanted = len(migrations_of(service))
        except ModuleNotFoundError:
            message = f"at version {applied}; groundline-{service} is not installed here to compare with"
            yield Finding(f"{service} schema", Level.SKIPPED, message)
            continue
        message = f"at version {applied}; this release has {wanted}"
        if applied < wanted:
            # Without keys in the database the gateway's need not be there.
            level = Level.WARNING if service == "gateway" and not applied else Level.ERROR
            yield Finding(f"{service} schema", level, message, f"run `groundline-{service} migrate`")
        elif applied > wanted:
            yield Finding(f"{service} schema", Level.WARNING, message, "install this command's newer version")
        else:
            yield Finding(f"{service} schema", Level.OK, f"at version {applied}")


async def _keywords(connection: Connection) -> AsyncIterator[Finding]:
    """Check the engine and its abilities, and that each index exists, is complete and is trusted."""
    try:
        lexical = await detect_lexical_index(connection)
    except LexicalIndexError as error:
        yield Finding("keyword engine", Level.ERROR, str(error), "install or update the extension")
        return
    versions = {row["extname"]: row["extversion"] for row in await connection.fetch(_EXTENSIONS)}
    yield _engine(lexical, versions.get(lexical.name, "not created"))
    sound = 0
    for row in await connection.fetch(_PARTITIONS):
        check = f"keyword index of {row['owner']}"
        if row["lexical_backend"] != lexical.name:
            yield Finding(
                check,
                Level.ERROR,
                f"made with {row['lexical_backend']}, but the server has {lexical.name}",
                "run `groundline reindex`",
            )
        elif (problem := await _keyword_problem(connection, lexical, row)) is not None:
            level, message = problem
            table = f"chunks_p{row['partition_id']}"
            yield Finding(check, level, message, f"let an ingestor run, or REINDEX INDEX {table}_bm25")
        else:
            sound += 1
    yield Finding("keyword indexes", Level.OK, f"{sound} are whole")


def _engine(lexical: LexicalIndex, extension: str) -> Finding:
    can = lexical.capabilities
    abilities = "; ".join(
        f"{'' if able else 'does not '}{verb if not able else verbs}"
        for able, verb, verbs in (
            (can.survives_unclean_stop, "survive an unclean stop", "survives an unclean stop"),
            (can.answers_on_standby, "answer on standbys", "answers on standbys"),
            (can.filters_in_index, "filter in the index", "filters in the index"),
        )
    )
    message = f"{lexical.name} {extension}: {abilities}"
    if can.survives_unclean_stop:
        return Finding("keyword engine", Level.OK, message)
    advice = "in production use pg_textsearch: here every index is built anew after an unclean stop"
    return Finding("keyword engine", Level.WARNING, message, advice)


async def _keyword_problem(
    connection: Connection, lexical: LexicalIndex, row: "asyncpg.Record"
) -> tuple[Level, str] | None:
    table = f"chunks_p{row['partition_id']}"
    if not row["exists"]:
        return Level.ERROR, f"the table {table} is not there"
    if not any(method == "bm25" and is_valid for method, is_valid in await _indexes(connection, table)):
        return Level.ERROR, "there is no valid index"
    if row["is_due"] and not lexical.capabilities.survives_unclean_stop:
        return Level.ERROR, "may lack chunks since the server stopped uncleanly, and is left out of searches"
    if not await lexical.probe(connection, table):
        return Level.ERROR, "does not find the oldest or the newest chunk"
    if not await connection.fetchval(_HAS_ROWS.format(table=table, rows=MOST_COUNTED)):
        missing = await lexical.missing_rows(connection, table)
        if missing:
            return Level.ERROR, f"lacks {missing} chunks"
    return None


async def _vectors(connection: Connection) -> AsyncIterator[Finding]:
    sound = 0
    for row in await connection.fetch(_PARTITIONS):
        if not row["exists"]:
            continue
        check, table = f"vector index of {row['owner']}", f"chunks_p{row['partition_id']}"
        validity = [is_valid for method, is_valid in await _indexes(connection, table) if method == "hnsw"]
        if any(validity):
            sound += 1
        elif validity or await connection.fetchval(_HAS_ROWS.format(table=table, rows=LEAST_ROWS)):
            yield Finding(
                check,
                Level.WARNING,
                "is not built: searches read every vector",
                "wait until ingestion has settled; if it stays so, look at the log of the ingestor",
            )
    yield Finding("vector indexes", Level.OK, f"{sound} are in use; small collections need none")


def _fed_index(state: FeedState) -> Sequence[Finding]:
    """Report how far behind the search index outside PostgreSQL is, if one is fed."""
    check = "distributed index"
    if not state.partition_count:
        return [Finding(check, Level.OK, "not used")]
    found = []
    if state.set_aside_count:
        found.append(
            Finding(
                check,
                Level.ERROR,
                f"refused chunks, which no search finds there: {state.set_aside_count}",
                "the ingestors' log says why (search_index_refused); then `groundline-ingestor index retry`",
            )
        )
    if state.unfilled_count:
        found.append(
            Finding(
                check,
                Level.WARNING,
                f"partitions that are not filled: {state.unfilled_count} of {state.partition_count}",
                "wait; `groundline-ingestor index status` shows how far each is",
            )
        )
    if state.pending_count and state.behind_seconds > LATE_SECONDS:
        found.append(
            Finding(
                check,
                Level.WARNING,
                f"{state.behind_seconds:.0f} s behind; changes that wait: {state.pending_count}",
                "see in the ingestors' log whether they reach it (search_index_feed_failed)",
            )
        )
    fed = f"partitions that are fed: {state.partition_count}; changes that wait: {state.pending_count}"
    return found or [Finding(check, Level.OK, fed)]


async def _indexes(connection: Connection, table: str) -> Sequence[tuple[str, bool]]:
    return [(row["method"], row["is_valid"]) for row in await connection.fetch(_INDEXES, table)]
