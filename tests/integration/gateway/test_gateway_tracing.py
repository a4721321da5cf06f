"""The gateway's part of a trace."""

from typing import Any

import pytest
from groundline_tests.runtime import OtlpCollector, Span


@pytest.fixture
async def collector() -> Any:
    async with OtlpCollector() as collector:
        yield collector


def parts(traceparent: str) -> tuple[str, str, str]:
    _, trace_id, span_id, flags = traceparent.split("-")
    return trace_id, span_id, flags


def gateways(spans: tuple[Span, ...]) -> list[Span]:
    return [span for span in spans if span.service == "groundline-gateway"]


async def test_the_gateway_begins_a_trace_and_the_service_continues_it(
    upstream: Any, launch: Any, collector: OtlpCollector
) -> None:
    async with launch(otlp_endpoint=collector.endpoint) as gateway:
        await gateway.becomes(200)
        async with gateway.client() as client:
            await client.post("/api/answer", json={"query": "x"})
        (span,) = gateways(await collector.wait_for(lambda spans: bool(gateways(spans))))

    (traceparent,) = upstream.calls[0].values("traceparent")
    assert parts(traceparent) == (span.trace_id, span.span_id, "01")
    assert span.parent_span_id == ""
    assert span.name == "Answer"


async def test_a_callers_trace_is_continued(upstream: Any, launch: Any, collector: OtlpCollector) -> None:
    trace_id, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with launch(otlp_endpoint=collector.endpoint) as gateway:
        await gateway.becomes(200)
        async with gateway.client() as client:
            await client.get("/api/threads", headers={"traceparent": f"00-{trace_id}-{caller}-01"})
        (span,) = gateways(await collector.wait_for(lambda spans: bool(gateways(spans))))

    assert (span.trace_id, span.parent_span_id) == (trace_id, caller)
    assert parts(upstream.calls[0].values("traceparent")[0])[0] == trace_id


async def test_a_collector_that_is_down_costs_nothing(upstream: Any, launch: Any, unused: int) -> None:
    async with launch(otlp_endpoint=f"http://127.0.0.1:{unused}") as gateway:
        await gateway.becomes(200)
        async with gateway.client() as client:
            assert (await client.get("/api/threads")).status_code == 200
