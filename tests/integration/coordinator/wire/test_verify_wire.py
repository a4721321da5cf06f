"""Verification at the coordinator's port."""

import asyncio
from typing import Any

import grpc
import pytest
from groundline.v1 import coordinator_service_pb2 as pb
from groundline.v1 import verification_pb2
from groundline_runtime.context import Caller, acting_as
from groundline_runtime.errors import UnavailableError
from groundline_tests.coordinator.wire import Stub

TEXT = "The gateway listens on port 8081. Backups run every night."


async def verified(stub: Stub, **fields: Any) -> tuple[list[pb.VerifyResponse], grpc.aio.AioRpcError | None]:
    """Return every event that arrived, and the status when it was not OK."""
    request = pb.VerifyRequest(**{"text": TEXT, "collection_ids": ["docs"], **fields})
    events: list[pb.VerifyResponse] = []
    try:
        async for event in stub.Verify(request, timeout=20):
            events.append(event)
    except grpc.aio.AioRpcError as error:
        return events, error
    return events, None


@pytest.mark.parametrize("service", ["retriever", "judging"])
async def test_a_failure_is_the_last_event_and_status(coordinator: Stub, backends: Any, service: str) -> None:
    backends.error[service] = UnavailableError("DATABASE_UNAVAILABLE", "gone")
    events, error = await verified(coordinator)
    assert [event.WhichOneof("event") for event in events] == ["started", "error"]
    assert error is not None
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    last = events[-1].error
    assert (last.code, last.retryable) == (grpc.StatusCode.UNAVAILABLE.value[0], True)


async def test_claims_come_in_their_order_with_what_decides(coordinator: Stub, backends: Any) -> None:
    with acting_as(Caller(("user:vera",))):
        events, error = await verified(coordinator)
    assert error is None
    assert [event.WhichOneof("event") for event in events] == ["started", "claim", "claim", "completed"]
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    assert {backends.principals[name] for name in ("retriever", "judging")} == {"user:vera"}
    first = events[1].claim
    assert (first.text, first.verdict) == (TEXT[:33], verification_pb2.VERDICT_REFUTED)
    [evidence] = first.evidence
    assert (evidence.text, list(evidence.words)) == ("The gateway", ["gateway"])
    assert evidence.source.title == "Operations"
    completed = events[-1].completed
    assert (completed.refuted_count, completed.usage.prompt_tokens, completed.model) == (2, 10, "scripted")


async def test_cancelling_stops_the_work(coordinator: Stub, backends: Any) -> None:
    backends.hang.add("judging")
    call = coordinator.Verify(pb.VerifyRequest(text=TEXT, collection_ids=["docs"]))
    await call.read()
    await backends.entered["judging"].wait()
    call.cancel()
    async with asyncio.timeout(10):
        await backends.left["judging"].wait()
