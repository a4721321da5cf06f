"""Metrics of a service process as Prometheus reads them."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import grpc
import httpx
import pytest
from groundline_tests.runtime import OtlpCollector
from prometheus_client.openmetrics.parser import text_string_to_metric_families

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = (("traceparent", f"00-{TRACE_ID}-b7ad6b7169203331-01"),)
OPEN_METRICS = {"accept": "application/openmetrics-text; version=1.0.0"}


async def read(port: int, headers: dict[str, str] | None = None) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.get(f"http://127.0.0.1:{port}/metrics", headers=headers)


def samples(text: str) -> list[Any]:
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return [sample for family in families for sample in family.samples]


async def test_a_call_is_in_the_metrics_with_its_trace(start: Any, probe: SimpleNamespace) -> None:
    async with OtlpCollector() as collector:
        process = await start(metrics_port=0, otlp_endpoint=collector.endpoint, drain_seconds=0)
        metrics = (await process.event("metrics_served"))["port"]
        port = (await process.event("service_started"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await probe.Stub(channel).Look(probe.Ask(text="hello"), metadata=TRACEPARENT)
        response = await read(metrics, OPEN_METRICS)
    found = samples(response.text)
    called = {
        "rpc_method": f"{probe.SERVICE}/Look",
        "rpc_response_status_code": "OK",
        "rpc_system_name": "grpc",
    }
    [count] = [each for each in found if each.name == "rpc_server_call_duration_seconds_count"]
    assert (count.labels, count.value) == (called, 1)
    [exemplar] = {
        each.exemplar.labels["trace_id"]
        for each in found
        if each.name == "rpc_server_call_duration_seconds_bucket" and each.exemplar
    }
    assert exemplar == TRACE_ID
    assert any(each.name == "process_resident_memory_bytes" for each in found)
    [target] = [each for each in found if each.name == "target_info"]
    assert "service_name" in target.labels


async def test_without_a_collector_metrics_are_served_and_no_spans_are_made(
    start: Any, probe: SimpleNamespace
) -> None:
    process = await start(metrics_port=0, drain_seconds=0)
    metrics = (await process.event("metrics_served"))["port"]
    port = (await process.event("service_started"))["port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await probe.Stub(channel).Look(probe.Ask(text="crash"))
    counts: list[Any] = []
    async with asyncio.timeout(30):
        while not counts:  # the client has the status before the call is counted
            found = samples((await read(metrics, OPEN_METRICS)).text)
            counts = [each for each in found if each.name == "rpc_server_call_duration_seconds_count"]
    [count] = counts
    assert count.labels["rpc_response_status_code"] == "INTERNAL"
    assert not any(each.exemplar for each in found)
    process.process.terminate()
    assert (await process.finish())[0] == 0


async def test_a_stream_is_under_way_from_its_beginning_until_its_client_leaves(
    start: Any, probe: SimpleNamespace
) -> None:
    async def under_way() -> float:
        found = samples((await read(metrics, OPEN_METRICS)).text)
        [gauge] = [each for each in found if each.name == "groundline_streams_under_way"]
        return float(gauge.value)

    process = await start(metrics_port=0, drain_seconds=0)
    metrics = (await process.event("metrics_served"))["port"]
    port = (await process.event("service_started"))["port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel, asyncio.timeout(30):
        stub = probe.Stub(channel)
        await stub.Look(probe.Ask(text="no stream"))
        assert await under_way() == 0
        calls = [stub.Follow(probe.Ask(text="hold")) for _ in range(2)]
        for call in calls:
            await call.read()
        assert await under_way() == 2
        calls[0].cancel()
        while await under_way() != 1:  # noqa: ASYNC110 (asks a server)
            await asyncio.sleep(0.05)


async def test_a_client_that_says_nothing_keeps_the_metrics_from_nobody_for_long(start: Any) -> None:
    process = await start(metrics_port=0, drain_seconds=0)
    port = (await process.event("metrics_served"))["port"]
    with socket.create_connection(("127.0.0.1", port)) as silent:
        assert (await read(port)).status_code == 200
        silent.settimeout(30)
        assert silent.recv(1) == b"", "the silent client's connection is closed"


async def test_a_port_that_is_taken_ends_the_start_with_the_reason(start: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = await start(metrics_port=taken.getsockname()[1])
        stopped = await process.event("stopped")
        assert (await process.finish())[0] == 1
    assert stopped["reason"] == "ADDRESS_UNUSABLE"
    assert "metrics" in stopped["error"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", b"200"),
        (b"POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc", b"405"),
        (b"DELETE /metrics HTTP/1.1\r\nhost: x\r\n\r\n", b"405"),
        # A version of HTTP that has no status line.
        (b"\x00\xff\xfe\r\n\r\n", b"<!DOCTYPE HTML>"),
        (b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\na: " + b"b" * 70_000 + b"\r\n\r\n", b"431"),
    ],
)
async def test_what_is_no_request_for_metrics_is_refused_and_the_next_is_answered(
    start: Any, sent: bytes, status: bytes
) -> None:
    process = await start(metrics_port=0, drain_seconds=0)
    port = (await process.event("metrics_served"))["port"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    head = await reader.read(64)
    writer.close()
    assert status in head
    assert (await read(port)).status_code == 200
