"""Pools on a real PostgreSQL."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import asyncpg
import grpc
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_runtime.errors import FailedPreconditionError, GroundlineError, UnavailableError
from groundline_runtime.postgres import open_pool, require_schema_version
from groundline_tests.runtime import OtlpCollector
from pydantic import SecretStr


@pytest.fixture(scope="module")
async def dsn(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with EmbeddedPostgres(tmp_path_factory.mktemp("runtime-postgres")) as server:
        yield server.dsn


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://user:hunter2@127.0.0.1:1/x", UnavailableError),
        ("postgresql://user:hunter2@/x?host=/nowhere", UnavailableError),
        ("mysql://user:hunter2@127.0.0.1/x", FailedPreconditionError),
        ("postgresql://user:hunter2@127.0.0.1:port/x", FailedPreconditionError),
    ],
    ids=["refused", "no socket", "other scheme", "bad port"],
)
async def test_a_database_that_cannot_be_used_is_named_without_its_url(
    url: str, expected: type[GroundlineError]
) -> None:
    with pytest.raises(expected) as caught:
        async with open_pool(SecretStr(url), application_name="x"):
            pass
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_an_unknown_database_is_a_failed_precondition(dsn: str) -> None:
    with pytest.raises(FailedPreconditionError) as caught:
        async with open_pool(SecretStr(dsn.replace("/groundline?", "/elsewhere?")), application_name="x"):
            pass
    assert caught.value.reason == "DATABASE_REFUSED"


async def test_connections_are_prepared_and_named(dsn: str) -> None:
    prepared: list[str] = []

    async def init(connection: "asyncpg.Connection[Any]") -> None:
        prepared.append(str(await connection.fetchval("SHOW application_name")))

    async with open_pool(
        SecretStr(dsn), application_name="groundline-x", init=init, server_settings={"work_mem": "7MB"}
    ) as pool:
        assert await pool.fetchval("SHOW work_mem") == "7MB"
    assert prepared == ["groundline-x"]
    assert pool.is_closing()


async def test_a_connection_that_never_comes_back_does_not_hold_up_the_close(dsn: str) -> None:
    async with asyncio.timeout(10):
        async with open_pool(SecretStr(dsn), application_name="x", close_timeout_seconds=0.05) as pool:
            await pool.acquire()


async def test_an_old_or_missing_schema_names_both_versions_and_the_command(dsn: str) -> None:
    async with open_pool(SecretStr(dsn), application_name="x") as pool:
        with pytest.raises(FailedPreconditionError) as missing:
            await require_schema_version(pool, 3)
        await pool.execute("CREATE TABLE schema_migrations (version int PRIMARY KEY)")
        await pool.execute("INSERT INTO schema_migrations VALUES (1), (2)")
        with pytest.raises(FailedPreconditionError) as old:
            await require_schema_version(pool, 3)
        await require_schema_version(pool, 2)
        await pool.execute("DROP TABLE schema_migrations")
    assert "version 0, this service needs 3" in missing.value.message
    assert "version 2, this service needs 3" in old.value.message
    assert "groundline-ingestor migrate" in old.value.message


async def test_a_statement_is_a_span_of_its_request_without_its_parameters(
    dsn: str, start: Any, probe: SimpleNamespace
) -> None:
    async with open_pool(SecretStr(dsn), application_name="x") as pool:
        await pool.execute("CREATE TABLE schema_migrations AS SELECT 3 AS version")
    async with OtlpCollector() as collector:
        process = await start(database_url=dsn, otlp_endpoint=collector.endpoint, drain_seconds=0)
        port = (await process.event("service_started"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert (await probe.Stub(channel).Look(probe.Ask(text="select"))).text == "found a private value"
        process.process.terminate()
        code, output, _ = await process.finish()
        spans = collector.spans()
    assert code == 0
    [request] = [span for span in spans if span.kind == "SERVER"]
    statements = [span for span in spans if span.parent_span_id == request.span_id]
    assert "SELECT 'found ' || $1::text" in [span.attributes["db.statement"] for span in statements]
    assert "a private value" not in str(spans) + output


async def test_a_service_does_not_start_on_an_old_schema(dsn: str, start: Any) -> None:
    async with open_pool(SecretStr(dsn), application_name="x") as pool:
        await pool.execute("DROP TABLE IF EXISTS schema_migrations")
    code, output, errors = await (await start(database_url=dsn)).finish()
    assert (code, errors) == (1, "")
    stopped = [json.loads(line) for line in output.splitlines() if line.startswith("{")][-1]
    assert (stopped["event"], stopped["reason"]) == ("stopped", "SCHEMA_TOO_OLD")
