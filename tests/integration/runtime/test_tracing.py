"""One trace over two services, received over OTLP."""

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from groundline_runtime.status import from_rpc_error
from groundline_tests.runtime import OtlpCollector, Span

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"
TRACEPARENT = (("traceparent", f"00-{TRACE_ID}-{PARENT_ID}-01"),)


def chain(spans: tuple[Span, ...]) -> list[Span]:
    """Return the spans of the trace from the root down; each has one child."""
    found, parent = [], PARENT_ID
    while children := [span for span in spans if span.parent_span_id == parent]:
        assert len(children) == 1
        found.append(children[0])
        parent = children[0].span_id
    return found


async def forwarded(stub: Any, probe: SimpleNamespace, method: str) -> None:
    if method == "Look":
        await stub.Look(probe.Ask(text="forward"), metadata=TRACEPARENT)
    else:
        async for _ in stub.Follow(probe.Ask(text="forward"), metadata=TRACEPARENT):
            pass


@pytest.mark.parametrize("method", ["Look", "Follow"])
async def test_a_failed_call_over_two_services_is_one_chain_with_its_status(
    start: Any, probe: SimpleNamespace, method: str
) -> None:
    async with OtlpCollector() as collector:
        backend = await start(otlp_endpoint=collector.endpoint, drain_seconds=0)
        port = (await backend.event("service_started"))["port"]
        front = await start(otlp_endpoint=collector.endpoint, drain_seconds=0, backend=f"127.0.0.1:{port}")
        port = (await front.event("service_started"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = probe.Stub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await forwarded(stub, probe, method)
        spans = await collector.wait_for(lambda spans: len(chain(spans)) == 3)
        logged = await backend.event("rpc_failed")
        for process in (front, backend):
            process.process.terminate()
            assert (await process.finish())[0] == 0
        assert "rpc.server.call.duration" in collector.metric_names()
        [record] = await collector.wait_for_records(1, body="rpc_failed")

    path = chain(spans)
    assert [(span.kind, span.name) for span in path] == [
        ("SERVER", f"/{probe.SERVICE}/{method}"),
        ("CLIENT", f"/{probe.SERVICE}/{method}"),
        ("SERVER", f"/{probe.SERVICE}/{method}"),
    ]
    assert {span.trace_id for span in path} == {TRACE_ID}
    assert [span.status for span in path] == ["ERROR"] * 3
    assert {span.attributes["rpc.grpc.status_code"] for span in path} == {13}
    error_id = from_rpc_error(caught.value).error_id
    assert path[2].attributes["groundline.error_id"] == error_id == logged["error_id"]
    assert (logged["trace_id"], logged["span_id"]) == (TRACE_ID, path[2].span_id)
    assert path[2].attributes["error.type"] == "RuntimeError"
    assert (record.trace_id, record.attributes["error_id"]) == (TRACE_ID, error_id)
    assert "hunter2" not in str(record)
    assert not [span for span in spans if "hunter2" in str(span)]


async def test_a_cancelled_call_still_has_its_span(start: Any, probe: SimpleNamespace) -> None:
    async with OtlpCollector() as collector:
        process = await start(otlp_endpoint=collector.endpoint, drain_seconds=0)
        port = (await process.event("service_started"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = probe.Stub(channel).Follow(probe.Ask(text="hold"), metadata=TRACEPARENT)
            await call.read()
            call.cancel()
        [span] = chain(await collector.wait_for(lambda spans: len(chain(spans)) == 1))
        assert span.attributes["rpc.grpc.status_code"] == grpc.StatusCode.CANCELLED.value[0]


async def test_a_stream_that_is_left_early_ends_its_span_at_once(start: Any, probe: SimpleNamespace) -> None:
    """Not when a garbage collection finds what read it."""
    async with OtlpCollector() as collector:
        backend = await start(otlp_endpoint=collector.endpoint, drain_seconds=0)
        port = (await backend.event("service_started"))["port"]
        front = await start(otlp_endpoint=collector.endpoint, drain_seconds=0, backend=f"127.0.0.1:{port}")
        port = (await front.event("service_started"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            replies = probe.Stub(channel).Follow(probe.Ask(text="leave"), metadata=TRACEPARENT)
            assert [reply.text async for reply in replies] == ["begun", "begun", "leave"]
        spans = await collector.wait_for(lambda spans: len(chain(spans)) == 3)
    left = chain(spans)[1]
    assert (left.kind, left.status) == ("CLIENT", "UNSET")
    assert left.attributes["rpc.grpc.status_code"] == grpc.StatusCode.CANCELLED.value[0]


async def test_health_checks_leave_no_span(start: Any, probe: SimpleNamespace) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with OtlpCollector() as collector:
        process = await start(otlp_endpoint=collector.endpoint, drain_seconds=0)
        port = (await process.event("service_started"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="liveness"))
            await probe.Stub(channel).Look(probe.Ask(text="x"))
        process.process.terminate()
        assert (await process.finish())[0] == 0
        assert [span.name for span in collector.spans()] == [f"/{probe.SERVICE}/Look"]


async def test_a_missing_collector_costs_a_warning_and_no_error(start: Any, probe: SimpleNamespace) -> None:
    process = await start(otlp_endpoint="http://127.0.0.1:1", drain_seconds=0)
    port = (await process.event("service_started"))["port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert (await probe.Stub(channel).Look(probe.Ask(text="x"))).text == "x"
    await process.event("telemetry_export_failed")
    process.process.terminate()
    async with asyncio.timeout(15):
        code, output, errors = await process.finish()
    assert (code, errors) == (0, "")
    assert output.count("127.0.0.1:1,") <= 1
    assert output.count("telemetry_export_failed") == 1
