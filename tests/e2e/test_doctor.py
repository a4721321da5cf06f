"""groundline doctor on a whole suite, of which parts are broken."""

import asyncio
import json
from typing import Any

import asyncpg
from groundline_tests.suite import Stack


async def examined(stack: Stack) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit code, and the last finding of each check."""
    code, found = await findings(stack)
    return code, {finding["check"]: finding for finding in found}


async def findings(stack: Stack) -> tuple[int, list[dict[str, str]]]:
    """Return the exit code, and all findings."""
    done = await stack.command("doctor", "--json", "--database-url", stack.ready["database_url"])
    return done.code, json.loads(done.out)["findings"]


async def test_a_suite_that_runs_has_no_error(stack: Stack) -> None:
    code, found = await examined(stack)
    assert code == 0, [finding for finding in found.values() if finding["level"] == "error"]
    for check in ("services", "key", "search", "answer", "keyword indexes", "ingestor schema", "clock"):
        assert found[check]["level"] == "ok", found[check]
    assert found["keyword engine"]["message"].startswith("pg_search")
    assert "retriever" in found["service versions"]["message"]


async def test_a_lost_keyword_index_is_an_error(stack: Stack, database: "asyncpg.Connection[Any]") -> None:
    index = await database.fetchrow(
        """
        SELECT i.indexname, i.tablename FROM collections c
        JOIN pg_indexes i ON i.tablename = 'chunks_p' || c.partition_id
        WHERE c.collection_id = 'examples' AND i.indexdef LIKE '%USING bm25%'
        """
    )
    assert index is not None
    name, table = index["indexname"], index["tablename"]
    await database.execute(f"DROP INDEX {name}")
    async with database.transaction():
        # Keeps the ingestor's worker from building it anew.
        await database.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
        code, found = await examined(stack)
    assert code == 1
    assert [finding["level"] for check, finding in found.items() if check.startswith("keyword index of")] == [
        "error"
    ]
    async with asyncio.timeout(60):
        while (await examined(stack))[0] == 1:
            continue


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


async def test_another_keyword_engine_is_an_error(stack: Stack, database: "asyncpg.Connection[Any]") -> None:
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


async def test_a_distributed_index_that_refuses_chunks_lacks_some_or_is_late_is_told(
    stack: Stack, database: "asyncpg.Connection[Any]"
) -> None:
    await database.execute(
        """
        INSERT INTO search_index_partitions (partition_id, embedding_model, dimensions)
        SELECT partition_id, embedding_model, dimensions FROM chunk_partitions LIMIT 1
        """
    )
    await database.execute(
        """
        INSERT INTO search_index_changes (partition_id, chunk_id, change_time, available_time)
        SELECT partition_id, chunk_id, clock_timestamp() - interval '1 hour', available_time
        FROM search_index_partitions,
            (VALUES (1, 'infinity'::timestamptz), (2, '-infinity')) AS c (chunk_id, available_time)
        """
    )
    try:
        code, found = await findings(stack)
    finally:
        await database.execute("TRUNCATE search_index_changes, search_index_partitions")
    _, without = await examined(stack)

    assert code == 1
    of_index = [(each["level"], each["message"]) for each in found if each["check"] == "distributed index"]
    assert [level for level, _ in of_index] == ["error", "warning", "warning"]
    refused, lacking, late = (message for _, message in of_index)
    assert refused.endswith(": 1")
    assert lacking.endswith(": 1 of 1")
    assert late.endswith(": 1")
    assert without["distributed index"]["message"] == "not used"
