"""groundline doctor on a whole suite, of which parts are broken."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from groundline_tests.suite import Stack


@pytest.fixture
async def database(stack: Stack) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(stack.ready["database_url"])
    yield connection
    await connection.close()


async def examined(stack: Stack) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and the last finding of each check."""
    done = await stack.command("doctor", "--json", "--database-url", stack.ready["database_url"])
    return done.code, {finding["check"]: finding for finding in json.loads(done.out)["findings"]}


async def test_a_suite_that_runs_has_no_error(stack: Stack) -> None:
    code, found = await examined(stack)
    assert code == 0, [finding for finding in found.values() if finding["level"] == "error"]
    for check in ("services", "key", "search", "answer", "keyword indexes", "ingestor schema", "clock"):
        assert found[check]["level"] == "ok", found[check]
    assert found["keyword engine"]["message"].startswith("pg_search")
    assert "retriever" in found["service versions"]["message"]


async def test_a_keyword_index_that_is_gone_is_an_error(
    stack: Stack, database: "asyncpg.Connection[Any]"
) -> None:
    index = await database.fetchrow(
        """
        SELECT i.indexname, i.indexdef FROM collections c
        JOIN pg_indexes i ON i.tablename = 'chunks_p' || c.partition_id
        WHERE c.collection_id = 'examples' AND i.indexdef LIKE '%USING bm25%'
        """
    )
    assert index is not None
    await database.execute(f"DROP INDEX {index['indexname']}")
    try:
        code, found = await examined(stack)
    finally:
        await database.execute(index["indexdef"])
    assert code == 1
    assert [finding["level"] for check, finding in found.items() if check.startswith("keyword index of")] == [
        "error"
    ]


async def test_a_schema_that_is_behind_is_an_error_and_names_the_command(
    stack: Stack, database: "asyncpg.Connection[Any]"
) -> None:
    row = await database.fetchrow(
        """
        DELETE FROM schema_migrations WHERE service = 'coordinator' AND version = (
            SELECT max(version) FROM schema_migrations WHERE service = 'coordinator'
        ) RETURNING *
        """
    )
    assert row is not None
    try:
        code, found = await examined(stack)
    finally:
        await database.execute("INSERT INTO schema_migrations VALUES ($1, $2, $3, $4, $5)", *row)
    assert code == 1
    assert found["coordinator schema"]["level"] == "error"
    assert found["coordinator schema"]["advice"] == "run `groundline-coordinator migrate`"
    # Without its tables no more is asked of the database.
    assert "keyword engine" not in found


async def test_a_collection_of_another_keyword_engine_is_an_error(
    stack: Stack, database: "asyncpg.Connection[Any]"
) -> None:
    await database.execute("UPDATE chunk_partitions SET lexical_backend = 'vchord_bm25'")
    try:
        code, found = await examined(stack)
    finally:
        await database.execute("UPDATE chunk_partitions SET lexical_backend = 'pg_search'")
    assert code == 1
    messages = {
        finding["message"] for check, finding in found.items() if check.startswith("keyword index of")
    }
    assert messages == {"made with vchord_bm25, but the server has pg_search"}
