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
    return coordinator_service_pb2.ChatResponse(
        sequence=sequence, delta=chat_pb2.ChatDelta(text=text), event_id=f"ab-{sequence}"
    )


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
            name, event_id, data = chunk.decode().removesuffix("\n\n").split("\n")
            assert name == "event: delta"
            event = json.loads(data.removeprefix("data: "))
            assert event_id == f"id: {event['eventId']}"
            seen.append(event)
            go_on.release()

    assert seen == [
        {"sequence": 1, "delta": {"text": "one\n\n"}, "eventId": "ab-1"},
        {"sequence": 2, "delta": {"text": 'data: "two"'}, "eventId": "ab-2"},
        {"sequence": 3, "delta": {"text": "dré"}, "eventId": "ab-3"},
    ]
    (call,) = upstream.calls
    assert call.remaining_seconds == pytest.approx(120, abs=10)


async def test_an_event_is_named_after_what_it_holds(upstream: Any, alice: httpx.AsyncClient) -> None:
    async def chat(_request: Any, _context: Any) -> AsyncIterator[Any]:
        # A document may say what it likes.
        source = chat_pb2.Source(title='","eventId":"x"}\n\nevent: error', snippet='{"error":{')
        sources = chat_pb2.ChatSources(sources=[source])
        completed = chat_pb2.ChatCompleted(model="m")
        yield coordinator_service_pb2.ChatResponse(sequence=1, sources=sources, event_id="ab-1-0")
        yield coordinator_service_pb2.ChatResponse(sequence=2, completed=completed, event_id="ab-2-0")

    upstream.on("Chat", chat)
    events = (await alice.post("/api/chat", json={"query": "x"})).text.split("\n\n")[:-1]

    assert [event.split("\n")[:2] for event in events] == [
        ["event: sources", "id: ab-1-0"],
        ["event: completed", "id: ab-2-0"],
    ]
    assert json.loads(events[0].split("\n")[2][6:])["sources"]["sources"][0]["snippet"] == '{"error":{'


async def test_large_events_stay_whole(upstream: Any, alice: httpx.AsyncClient) -> None:
    snippet = "é{}\n\n" * 100_000

    async def chat(_request: Any, _context: Any) -> AsyncIterator[Any]:
        for sequence in (1, 2):
            sources = chat_pb2.ChatSources(sources=[chat_pb2.Source(snippet=snippet)])
            yield coordinator_service_pb2.ChatResponse(
                sequence=sequence, sources=sources, event_id=f"ab-{sequence}-0"
            )

    upstream.on("Chat", chat)
    events = (await alice.post("/api/chat", json={"query": "x"})).text.split("\n\n")[:-1]

    assert len(events) == 2
    for event in events:
        assert event.startswith("event: sources\nid: ab-")
        assert json.loads(event.partition("data: ")[2])["sources"]["sources"][0]["snippet"] == snippet


async def test_a_sign_of_life_is_a_comment(upstream: Any, alice: httpx.AsyncClient) -> None:
    upstream.gives(coordinator_service_pb2.ChatResponse(), delta(1, "one"))
    upstream.gives(ingestor_service_pb2.WatchJobResponse())

    assert (await alice.post("/api/chat", json={"query": "x"})).text.startswith(":\n\nevent: delta\n")
    assert (await alice.get("/api/jobs/j-1:watch")).text == ":\n\n"


async def test_an_event_of_a_release_without_ids_has_a_name(upstream: Any, alice: httpx.AsyncClient) -> None:
    upstream.gives(coordinator_service_pb2.ChatResponse(sequence=1, delta=chat_pb2.ChatDelta(text="x")))

    assert (await alice.post("/api/chat", json={"query": "x"})).text.startswith("event: delta\ndata: {")


async def test_a_service_learns_where_a_stream_is_to_go_on(upstream: Any, alice: httpx.AsyncClient) -> None:
    async def chat(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield delta(8, "x")

    upstream.on("Chat", chat)
    await alice.post("/api/chat", json={"query": "x"}, headers={"last-event-id": "ab-7-3"})

    (call,) = upstream.calls
    assert call.values("last-event-id") == ["ab-7-3"]
    assert call.values("x-groundline-transcoded") == ["true"]


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


async def test_who_leaves_a_silent_request_ends_it_too(upstream: Any, alice: httpx.AsyncClient) -> None:
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
        yield coordinator_service_pb2.ChatResponse(sequence=1, error=error, event_id="ab-1")
        await context.abort(grpc.StatusCode.UNAVAILABLE, "down")

    upstream.on("Chat", failing)
    response = await alice.post("/api/chat", json={"query": "x"})

    assert response.status_code == 200
    (event,) = response.text.split("\n\n")[:-1]
    assert event.startswith("event: error\n")
    assert json.loads(event.partition("data: ")[2])["error"]["reason"] == "UNAVAILABLE"


async def test_a_job_is_watched_as_events_for_as_long_as_set(upstream: Any, alice: httpx.AsyncClient) -> None:
    async def watch(request: Any, _context: Any) -> AsyncIterator[Any]:
        response = ingestor_service_pb2.WatchJobResponse(event_id="1700000000000")
        response.job.job_id = request.job_id
        yield response

    upstream.on("WatchJob", watch)
    response = await alice.get("/api/jobs/j-1:watch")

    assert response.headers["content-type"] == "text/event-stream"
    assert response.text.startswith("event: job\nid: 1700000000000\n")
    assert json.loads(response.text.partition("data: ")[2])["job"]["jobId"] == "j-1"
    (call,) = upstream.calls
    assert call.remaining_seconds == pytest.approx(3600, abs=60)
