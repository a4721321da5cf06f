"""Properties of pg_textsearch alone."""

import logging
from collections.abc import AsyncIterator

import asyncpg
import pytest
from groundline_lexical import Connection, LexicalIndexError, lexical_text
from groundline_lexical.pg_textsearch import PgTextsearchIndex
from groundline_tests.lexical import Database, database_with
from groundline_tests.postgres import PostgresServer

pytestmark = pytest.mark.filterwarnings("default:LEXICAL BACKEND NOT TESTED:pytest.PytestWarning")


@pytest.fixture(scope="module", params=["pg_textsearch"])
async def database(lexical_server: str, lexical_owner: str | None) -> AsyncIterator[Database]:
    async with database_with(
        "pg_textsearch", lexical_server, name="pg_textsearch_alone", owner=lexical_owner
    ) as database:
        yield database


async def test_a_language_without_a_configuration_is_indexed_as_simple_and_said_once(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await asyncpg.connect(database.url)
    with caplog.at_level(logging.WARNING, "groundline_lexical"):
        for table in ("polish_1", "polish_2"):
            await connection.execute(f"CREATE TABLE {table} (chunk_id bigint, lexical_text text)")
            await database.index.create_index(connection, table, "polish")
    await connection.close()
    assert [record.getMessage() for record in caplog.records] == [
        "PostgreSQL has no text search configuration for polish: it is indexed as simple"
    ]


async def test_scores_come_from_the_scan_not_from_rows(database: Database, connection: Connection) -> None:
    version = await connection.fetchval("SELECT extversion FROM pg_extension WHERE extname = 'pg_textsearch'")
    if version.startswith("0."):
        pytest.skip(f"pg_textsearch {version} computes them")
    await connection.execute("CREATE TABLE scanned (chunk_id bigint PRIMARY KEY, lexical_text text)")
    await database.index.create_index(connection, "scanned", "english")
    for number in range(500):
        text = lexical_text(f"The lease of number {number}", context="", title="", uri="")
        await connection.execute("INSERT INTO scanned VALUES ($1, $2)", number, text)
    sql = database.index.search_sql("scanned", "english", limit=5)
    for _ in range(3):
        rows = await connection.fetch(f"EXPLAIN (VERBOSE, COSTS OFF) {sql}", "lease number")
        plan = "\n".join(row[0] for row in rows)
        assert "Index Scan using scanned_bm25" in plan
        assert plan.count("bm25_get_current_score()") >= plan.count("Output") - 1
        assert "Output: scanned_1.chunk_id, (scanned_1.lexical_text <@>" not in plan


async def test_an_extension_that_is_not_loaded_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with PostgresServer(tmp_path_factory.mktemp("unloaded"), {}) as server:
        connection = await asyncpg.connect(server.dsn)
        with pytest.raises(LexicalIndexError, match="add it to shared_preload_libraries"):
            await PgTextsearchIndex().create_extension(connection)
        await connection.close()
