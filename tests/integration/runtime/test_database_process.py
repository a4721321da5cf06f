"""A service process with a database."""

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import DatabaseSettings, open_pool
from groundline_database.migrations import Migration, apply
from groundline_tests.runtime import OtlpCollector
from pydantic import SecretStr


@pytest.fixture
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    yield await postgres.create_database("runtime_process")
    await postgres.drop_database("runtime_process")


async def test_a_service_does_not_start_on_an_old_schema(dsn: str, start: Any) -> None:
    code, output, errors = await (await start(database_url=dsn)).finish()
    assert (code, errors) == (1, "")
    stopped = [json.loads(line) for line in output.splitlines() if line.startswith("{")][-1]
    assert (stopped["event"], stopped["reason"]) == ("stopped", "SCHEMA_TOO_OLD")


async def test_a_statement_is_a_span_of_its_request_without_its_parameters(
    dsn: str, start: Any, probe: SimpleNamespace
) -> None:
    async with open_pool(DatabaseSettings(database_url=SecretStr(dsn))) as pool, pool.acquire() as connection:
        await apply(connection, "probe", [Migration(number, "nothing", "SELECT 1") for number in (1, 2, 3)])
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
