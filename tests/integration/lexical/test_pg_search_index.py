"""Properties of pg_search alone."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_lexical.pg_search import PgSearchIndex

WRITES = 200


@pytest.fixture
async def written(postgres: EmbeddedPostgres) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to a database with an indexed table that was written row by row."""
    connection = await asyncpg.connect(await postgres.create_database("lexical_segments"))
    await connection.execute("CREATE TABLE rows (chunk_id bigint PRIMARY KEY, lexical_text text NOT NULL)")
    await PgSearchIndex().create_index(connection, "rows", "english")
    for number in range(WRITES):
        text = f"row {number} of the lease register " * 20
        await connection.execute("INSERT INTO rows VALUES ($1, $2)", number, text)
    yield connection
    await connection.close()
    await postgres.drop_database("lexical_segments")


async def test_no_segment_is_left_for_searches_to_build_and_few_for_them_to_open(
    written: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    segments = await written.fetch("SELECT mutable, num_docs FROM paradedb.index_info('rows_bm25')")

    assert sum(segment["num_docs"] for segment in segments) == WRITES
    assert not any(segment["mutable"] for segment in segments)
    assert len(segments) <= WRITES / 5


async def test_positions_nobody_asks_for_are_not_kept(
    written: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    fields = await written.fetch("SELECT name, record FROM paradedb.schema('rows_bm25')")

    assert ("lexical_text", "freq") in [tuple(field) for field in fields]


async def test_the_best_come_from_the_index_alone(
    written: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await written.execute("ALTER TABLE rows ADD collection_id text NOT NULL DEFAULT 'registers'")
    await written.execute("DROP INDEX rows_bm25")
    await PgSearchIndex().create_index(written, "rows", "english", is_shared=True)
    for collections, arguments in (("", []), ("$2", [["registers"]])):
        sql = PgSearchIndex().search_sql("rows", "english", limit=5, collections=collections)
        statement = await written.prepare(f"EXPLAIN (ANALYZE, COSTS OFF) {sql}")
        plan = "\n".join(row[0] for row in await statement.fetch("lease", *arguments))
        assert "TopNScanExecState" in plan
