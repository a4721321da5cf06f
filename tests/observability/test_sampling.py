"""Traces that the real Collector keeps with the configuration that deploy/ ships."""

from collections.abc import AsyncIterator, Sequence
from typing import Final
from uuid import uuid4

import grpc
import pytest
from groundline_tests.generator.providers import Reply
from groundline_tests.observability.sampled import WIRE, Sampled, sampled_suite, spans_of
from groundline_tests.runtime import Span
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

ORDINARY: Final = 40
"""Chats of which half are kept: all or none would be by chance once in 10¹²."""

SLOW_SECONDS: Final = 6.0
"""Silence of the model, longer than the threshold."""

DECISION_SECONDS: Final = 60
"""Patience with a decision, which takes some ten seconds."""


@pytest.fixture(scope="module")
async def sampled(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sampled]:
    async with sampled_suite(tmp_path_factory.mktemp("sampled")) as sampled:
        yield sampled


async def kept(sampled: Sampled, trace_ids: Sequence[str]) -> set[str]:
    """Return those of the traces that are kept, once the Collector has decided on them.

    It decides in the order of the roots, so it has decided on all when it keeps a chat that comes after them.
    """
    last = await sampled.asked(WIRE.answer("NO_ANSWER"))
    await arrived(sampled, last)
    return {span.trace_id for span in sampled.kept.spans()} & set(trace_ids)


async def arrived(sampled: Sampled, trace_id: str) -> Sequence[Span]:
    """Return the spans of a trace that is kept, once all of those that were sent are there."""

    def is_whole(spans: Sequence[Span]) -> bool:
        here = {span.span_id for span in spans if span.trace_id == trace_id}
        sent = spans_of(trace_id, sampled.sent)
        roots = [span for span in sent.values() if span.parent_span_id not in sent]
        return (
            bool(here) and here == sent.keys() and [span.service for span in roots] == ["groundline-gateway"]
        )

    await sampled.kept.wait_for(is_whole, timeout_seconds=DECISION_SECONDS)
    return [*spans_of(trace_id, sampled.kept).values()]


async def test_a_refused_chat_is_kept_whole(sampled: Sampled) -> None:
    spans = await arrived(sampled, await sampled.asked(WIRE.answer("NO_ANSWER")))
    assert "no_answer" in {span.attributes.get("groundline.answer.finish_reason") for span in spans}


async def test_a_slow_chat_is_kept_whole(sampled: Sampled) -> None:
    spans = await arrived(sampled, await sampled.asked(Reply([SLOW_SECONDS, *sampled.reply.steps])))
    assert {span.status for span in spans} == {"UNSET"}


async def test_an_answer_that_left_something_out_is_kept(sampled: Sampled) -> None:
    # As the coordinator tells it; to break a part of the suite would make the chat slow as well.
    degraded = [uuid4().hex for _ in range(ORDINARY)]
    request = trace_service_pb2.ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for trace_id in degraded:
        span = scope.spans.add(name="Chat", trace_id=bytes.fromhex(trace_id), span_id=b"spanspan")
        span.attributes.add(key="groundline.answer.degraded").value.bool_value = True
    async with grpc.aio.insecure_channel(sampled.address) as channel:
        await trace_service_pb2_grpc.TraceServiceStub(channel).Export(request)  # type: ignore[no-untyped-call]

    def are_kept(spans: Sequence[Span]) -> bool:
        return {span.trace_id for span in spans} >= set(degraded)

    await sampled.kept.wait_for(are_kept, timeout_seconds=DECISION_SECONDS)


async def test_a_share_of_the_others_is_kept_and_nothing_of_the_rest(sampled: Sampled) -> None:
    asked = [await sampled.asked() for _ in range(ORDINARY)]
    found = await kept(sampled, asked)
    assert 0 < len(found) < ORDINARY
    for trace_id in found:
        await arrived(sampled, trace_id)


async def test_a_failed_chat_is_kept_whole(sampled: Sampled) -> None:
    spans = await arrived(sampled, await sampled.asked(WIRE.failure(400)))
    assert "ERROR" in {span.status for span in spans}
