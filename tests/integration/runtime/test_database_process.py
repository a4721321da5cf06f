"""A service process with a database."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import DatabaseSettings, acquire, keep_session, open_pool, transaction
from groundline_database.migrations import Migration, apply
from groundline_runtime.errors import UnavailableError
from groundline_runtime.status import from_rpc_error
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


async def test_a_request_waits_for_a_locked_table_once_not_with_each_statement(
    dsn: str, probe: SimpleNamespace, reach: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = DatabaseSettings(database_url=SecretStr(dsn), pool_max_size=1)
    process = "SELECT pg_backend_pid()"
    async with (
        asyncio.timeout(60),
        open_pool(settings) as locking,
        open_pool(settings, reset=keep_session) as pool,
    ):

        async def ask_twice(_: str) -> str:
            with pytest.raises(UnavailableError):
                async with transaction(pool) as connection:
                    await connection.fetch("SELECT FROM locked")
            async with acquire(pool) as connection:
                return str(await connection.fetchval(process))

        async def ask_again_and_again(text: str) -> AsyncIterator[str]:
            yield await ask_twice(text)

        await locking.execute("CREATE TABLE locked ()")
        connected = str(await pool.fetchval(process))
        async with reach(look=ask_twice, follow=ask_again_and_again) as stub, transaction(locking) as holder:
            await holder.execute("LOCK TABLE locked")
            monkeypatch.setattr("groundline_database.pool.REQUEST_SECONDS", 1.0)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Look(probe.Ask())
            streamed = [reply.text async for reply in stub.Follow(probe.Ask())]
    refused = from_rpc_error(caught.value)
    assert (refused.code.name, refused.reason) == ("UNAVAILABLE", "DATABASE_BUSY")
    assert refused.retry_after_seconds
    assert streamed == [connected], "each statement of a stream has its time, and no connection was lost"
