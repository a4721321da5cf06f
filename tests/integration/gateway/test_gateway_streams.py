"""Server-sent events: each message as it is sent, and an end that is passed on both ways."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from groundline.v1 import chat_pb2, coordinator_service_pb2, error_pb2, ingestor_service_pb2


def delta(sequence: int, text: str) -> coordinator_service_pb2.ChatResponse:
    return coordinator_service_pb2.ChatResponse(sequence=sequence, delta=chat_pb2.ChatDelta(text=text))


async def test_each_message_is_one_event_and_leaves_at_once(upstream: Any, alice: httpx.AsyncClient) -> None:
    go_on = asyncio.Semaphore(0)

    async def chat(_request: Any, _context: Any) -> AsyncIterator[Any]:
        for sequence, text in enumerate(("one\n\n", 'data: "two"', "dré"), start=1):
            yield delta(sequence, text)
            # The next message is not even made before the client has seen this one.
            await go_on.acquire()

    upstream.on("Chat", chat)
    seen = []
    async with asyncio.timeout(10), alice.stream("POST", "/api/chat", json={"query": "x"}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        async for chunk in response.aiter_bytes():
            assert chunk.startswith(b"data: ")
            assert chunk.endswith(b"\n\n")
            assert chunk.count(b"\n") == 2
            seen.append(json.loads(chunk.removeprefix(b"data: ")))
            go_on.release()

    assert seen == [
        {"sequence": 1, "delta": {"text": "one\n\n"}},
        {"sequence": 2, "delta": {"text": 'data: "two"'}},
        {"sequence": 3, "delta": {"text": "dré"}},
    ]
    (call,) = upstream.calls
    assert call.remaining_seconds == pytest.approx(120, abs=10)


async def test_a_client_that_leaves_ends_the_services_work(upstream: Any, alice: httpx.AsyncClient) -> None:
    async def endless(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield delta(1, "x")
        await asyncio.Event().wait()

    upstream.on("Chat", endless)
    async with asyncio.timeout(10):
        async with alice.stream("POST", "/api/chat", json={"query": "x"}) as response:
            await anext(response.aiter_bytes())
        (call,) = upstream.calls
        await call.ended.wait()


async def test_a_client_that_leaves_a_silent_request_ends_it_too(
    upstream: Any, alice: httpx.AsyncClient
) -> None:
    async def silent(_request: Any, _context: Any) -> Any:
        await asyncio.Event().wait()

    upstream.on("Answer", silent)
    async with asyncio.timeout(10):
        request = asyncio.create_task(alice.post("/api/answer", json={"query": "x"}))
        call = await upstream.arrived.get()
        request.cancel()
        await call.ended.wait()


async def test_what_was_sent_before_a_failure_still_arrives(upstream: Any, alice: httpx.AsyncClient) -> None:
    async def failing(_request: Any, context: Any) -> AsyncIterator[Any]:
        error = chat_pb2.ChatError(code=14, reason=error_pb2.UNAVAILABLE, retryable=True)
        yield coordinator_service_pb2.ChatResponse(sequence=1, error=error)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "down")

    upstream.on("Chat", failing)
    response = await alice.post("/api/chat", json={"query": "x"})

    assert response.status_code == 200
    (event,) = response.text.split("\n\n")[:-1]
    assert json.loads(event.removeprefix("data: "))["error"]["reason"] == "UNAVAILABLE"


async def test_a_job_is_watched_as_events_for_as_long_as_set(upstream: Any, alice: httpx.AsyncClient) -> None:
    async def watch(request: Any, _context: Any) -> AsyncIterator[Any]:
        response = ingestor_service_pb2.WatchJobResponse()
        response.job.job_id = request.job_id
        yield response

    upstream.on("WatchJob", watch)
    response = await alice.get("/api/jobs/j-1:watch")

    assert response.headers["content-type"] == "text/event-stream"
    assert json.loads(response.text.removeprefix("data: "))["job"]["jobId"] == "j-1"
    (call,) = upstream.calls
    assert call.remaining_seconds == pytest.approx(3600, abs=60)
