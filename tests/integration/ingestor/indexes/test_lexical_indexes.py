"""Keyword indexes that an unclean stop of the server may have damaged are rebuilt by the workers."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from datetime import datetime

import asyncpg
import pytest
from groundline_database import DatabaseSettings, Pool, acquire, migrate, open_pool, register_vectors
from groundline_indexing.lexical_indexes import LexicalIndexes
from groundline_indexing.partitions import PartitionKind, chunk_table, create_partition
from groundline_lexical import LAST_RECOVERY, LexicalIndex
from groundline_lexical.pg_search import PgSearchIndex
from groundline_lexical.pg_textsearch import PgTextsearchIndex
from groundline_tests.postgres import PostgresServer
from pydantic import SecretStr

KIND = PartitionKind("model", 8, "english")
ROWS = 200
LAST_RECOVERY_NOW = f"SELECT {LAST_RECOVERY}"
PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    """One that goes on by itself when one of its processes is killed, as PostgreSQL does by default."""
    folder = tmp_path_factory.mktemp("lexical-indexes")
    async with PostgresServer(folder, {"restart_after_crash": "on"}) as server:
        yield server


@pytest.fixture
async def pool(server: PostgresServer) -> AsyncIterator[Pool]:
    superuser = await asyncpg.connect(server.dsn)
    await superuser.execute("DROP DATABASE IF EXISTS suite WITH (FORCE)")
    await superuser.execute("CREATE DATABASE suite")
    await superuser.close()
    settings = DatabaseSettings(database_url=SecretStr(server.dsn_of("suite")))

    async def create_extension(connection: object) -> None:
        assert isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy)
        await PgSearchIndex().create_extension(connection)

    await migrate(settings, "ingestor", prepare=create_extension)
    async with open_pool(settings, init=register_vectors) as pool:
        yield pool


@pytest.fixture
def indexes(pool: Pool) -> LexicalIndexes:
    return LexicalIndexes(pool, PgSearchIndex())


async def filled(pool: Pool, rows: int = ROWS, lexical: LexicalIndex | None = None) -> int:
    """Fill a shared partition with a number of chunks; return its id."""
    async with acquire(pool) as connection, connection.transaction():
        partition_id = await create_partition(connection, lexical or PgSearchIndex(), None, KIND)
        await connection.execute(
            f"""
            INSERT INTO {chunk_table(partition_id)} (
                partition_id, collection_id, document_id, chunk_index, original_text, context_annotation,
                lexical_text, embedding, start_offset, end_offset, source_type, metadata,
                allowed_principals, update_time
            )
            SELECT {partition_id}, 'docs', gen_random_uuid(), 0, '', '', 'lease ' || n, '[1,0,0,0,0,0,0,0]',
                0, 0, 'file', '{{}}', '{{}}', now()
            FROM generate_series(1, {rows}) AS n
            """
        )
    return partition_id


async def found(pool: Pool, partition_id: int) -> int:
    index = PgSearchIndex()
    statement = index.search_sql(chunk_table(partition_id), "english", limit=None)
    async with acquire(pool) as connection:
        return len(await connection.fetch(statement, index.prepare_query("lease", "english")))


async def test_after_kill_9_every_index_is_rebuilt_once(
    server: PostgresServer, pool: Pool, indexes: LexicalIndexes
) -> None:
    partition_id = await filled(pool)
    assert await indexes.rebuild_due() == []
    assert await found(pool, partition_id) == ROWS
    await server.kill()
    await server.start()
    await pool.expire_connections()
    assert await found(pool, partition_id) < ROWS, "nothing was lost: this tests nothing"
    assert await indexes.rebuild_due() == [partition_id]
    assert await found(pool, partition_id) == ROWS
    assert await indexes.rebuild_due() == []


async def test_a_process_of_the_server_that_was_killed_is_an_unclean_stop_too(
    server: PostgresServer, pool: Pool, indexes: LexicalIndexes
) -> None:
    partition_id = await filled(pool)
    victim = await asyncpg.connect(server.dsn)
    before = await victim.fetchval(LAST_RECOVERY_NOW)
    os.kill(victim.get_server_pid(), signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await last_recovery(server) in (None, before):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)
    victim.terminate()
    await pool.expire_connections()
    assert await indexes.rebuild_due() == [partition_id]
    assert await found(pool, partition_id) == ROWS


async def last_recovery(server: PostgresServer) -> datetime | None:
    """Return the time of the last recovery; None while nobody can connect, or the server ends the
    connection."""
    try:
        connection = await asyncpg.connect(server.dsn)
        recovery: datetime | None = await connection.fetchval(LAST_RECOVERY_NOW)
        await connection.close()
    except (OSError, asyncpg.PostgresError):
        return None
    return recovery


async def test_a_clean_restart_rebuilds_nothing(
    server: PostgresServer, pool: Pool, indexes: LexicalIndexes
) -> None:
    await filled(pool)
    before = await last_recovery(server)
    await server.restart()
    await pool.expire_connections()
    assert await last_recovery(server) == before
    assert await indexes.rebuild_due() == []


async def test_a_partition_of_an_older_release_is_rebuilt(pool: Pool, indexes: LexicalIndexes) -> None:
    partition_id = await filled(pool)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE chunk_partitions SET lexical_built_after = NULL")
    assert await indexes.rebuild_due() == [partition_id]


async def test_a_backend_that_survives_unclean_stops_rebuilds_nothing(pool: Pool) -> None:
    await filled(pool)
    async with acquire(pool) as connection:
        await connection.execute(
            "UPDATE chunk_partitions SET lexical_built_after = NULL, lexical_backend = 'pg_textsearch'"
        )
    assert await LexicalIndexes(pool, PgTextsearchIndex()).rebuild_due() == []


@pytest.mark.parametrize("is_there", [True, False], ids=["rebuild", "build of a missing one"])
async def test_a_build_may_take_longer_than_other_statements_may(
    server: PostgresServer, pool: Pool, is_there: bool
) -> None:
    partition_id = await filled(pool)
    statement_seconds = 0.5
    settings = DatabaseSettings(
        database_url=SecretStr(server.dsn_of("suite")), statement_timeout_seconds=statement_seconds
    )
    async with acquire(pool) as writer, open_pool(settings) as impatient:
        await writer.execute("UPDATE chunk_partitions SET lexical_built_after = NULL")
        if not is_there:
            await writer.execute(f"DROP INDEX {chunk_table(partition_id)}_bm25")
        transaction = writer.transaction()
        await transaction.start()
        # The build waits for a writer to end.
        await writer.execute(f"UPDATE {chunk_table(partition_id)} SET chunk_index = 1")
        building = asyncio.create_task(LexicalIndexes(impatient, PgSearchIndex()).rebuild_due())
        await asyncio.wait({building}, timeout=3 * statement_seconds)
        await transaction.commit()
        assert await building == [partition_id]
    assert await found(pool, partition_id) == ROWS


async def test_of_several_processes_one_rebuilds(pool: Pool) -> None:
    partition_id = await filled(pool)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE chunk_partitions SET lexical_built_after = NULL")
    replicas = [LexicalIndexes(pool, PgSearchIndex()) for _ in range(3)]
    rebuilt = await asyncio.gather(*(replica.rebuild_due() for replica in replicas))
    assert [one for some in rebuilt for one in some] == [partition_id]


async def test_a_failed_rebuild_rests_and_leaves_others_alone(pool: Pool, indexes: LexicalIndexes) -> None:
    broken = await filled(pool)
    async with acquire(pool) as connection:
        # A table has the index's name, so that none can be built.
        await connection.execute(f"DROP INDEX {chunk_table(broken)}_bm25")
        await connection.execute(f"CREATE TABLE {chunk_table(broken)}_bm25 ()")
        whole = await create_partition(connection, PgSearchIndex(), None, KIND._replace(language="german"))
        await connection.execute("UPDATE chunk_partitions SET lexical_built_after = NULL")
    assert await indexes.rebuild_due() == [whole]
    assert await indexes.rebuild_due() == []
