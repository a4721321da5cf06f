"""Pages of other origins, and compressed answers."""

import gzip
import itertools
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from groundline.v1 import chat_pb2, coordinator_service_pb2

APP = "https://app.example.com"


def preflight(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": "content-type,x-api-key",
    }


async def test_no_other_origin_may_call_unless_it_is_named(
    upstream: Any, anonymous: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    asked = await anonymous.options("/api/answer", headers=preflight(APP))
    answered = await alice.post("/api/answer", json={}, headers={"origin": APP})

    assert asked.status_code == 404
    assert answered.status_code == 200
    for response in (asked, answered):
        assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("path", ["/api/answer", "/api/chat", "/api/collections/docs"])
async def test_a_page_of_a_named_origin_is_told_it_may_call(upstream: Any, shared: Any, path: str) -> None:
    gateway = await shared(cors_origins=[APP])
    async with gateway.client(None) as client:
        asked = await client.options(path, headers=preflight(APP, "PATCH"))
        stranger = await client.options(path, headers=preflight("https://evil.example.com"))

    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == APP
    assert "PATCH" in asked.headers["access-control-allow-methods"]
    allowed = asked.headers["access-control-allow-headers"].split(", ")
    assert {"x-api-key", "authorization", "content-type", "last-event-id"} <= set(allowed)
    assert "access-control-allow-credentials" not in asked.headers
    assert "access-control-allow-origin" not in stranger.headers
    assert upstream.calls == []


async def test_a_page_of_a_named_origin_reads_answers_and_refusals(upstream: Any, shared: Any) -> None:
    gateway = await shared(cors_origins=[APP])
    async with gateway.client(None) as client:
        refused = await client.post("/api/answer", json={}, headers={"origin": APP})
        key = {"x-api-key": "alice-key-0123456789"}
        answered = await client.post("/api/answer", json={}, headers={"origin": APP} | key)
        stranger = await client.post("/api/answer", json={}, headers={"origin": f"{APP}.evil"} | key)

    assert (refused.status_code, answered.status_code) == (401, 200)
    for response in (refused, answered):
        assert response.headers["access-control-allow-origin"] == APP
    assert "access-control-allow-origin" not in stranger.headers


async def test_every_origin_may_be_named(upstream: Any, launch: Any) -> None:
    async with launch(cors_origins=["*"]) as gateway, gateway.client(None) as client:
        asked = await client.options("/api/search", headers=preflight("http://localhost:3000"))

    assert asked.headers["access-control-allow-origin"] in ("*", "http://localhost:3000")


async def test_a_question_about_origins_leads_to_no_service(upstream: Any, launch: Any) -> None:
    paths = ("/api/answer", "/groundline.v1.CoordinatorService/Answer", "/v1/models")
    kinds = ("application/json", "application/grpc", "application/grpc-web+proto")
    async with launch(cors_origins=[APP]) as gateway, gateway.client() as client:
        for path, kind in itertools.product(paths, kinds):
            asked = await client.options(path, headers={"content-type": kind, "te": "trailers"})
            # Envoy answers gRPC in its own words.
            assert asked.status_code == 404 or asked.headers["grpc-status"] == "12", (path, kind)

    assert '"upstream"' not in gateway.log.read_text()


async def raw(client: httpx.AsyncClient, path: str, encodings: str) -> tuple[httpx.Response, bytes]:
    """Return the response with its raw body."""
    headers = {"accept-encoding": encodings}
    async with client.stream("POST", path, json={"query": "x"}, headers=headers) as response:
        body = b"".join([part async for part in response.aiter_raw()])
    return response, body


@pytest.mark.parametrize(("length", "is_compressed"), [(100_000, True), (10, False)])
async def test_a_large_answer_is_compressed_for_whom_takes_it(
    upstream: Any, alice: httpx.AsyncClient, length: int, is_compressed: bool
) -> None:
    upstream.gives(coordinator_service_pb2.AnswerResponse(answer="words " * length))
    plain, whole = await raw(alice, "/api/answer", "identity")
    response, body = await raw(alice, "/api/answer", "gzip, br")

    assert "content-encoding" not in plain.headers
    if is_compressed:
        assert response.headers["content-encoding"] == "gzip"
        assert len(body) < len(whole) / 10
        assert gzip.decompress(body) == whole
    else:
        assert "content-encoding" not in response.headers
        assert body == whole


async def test_events_are_not_compressed(upstream: Any, alice: httpx.AsyncClient) -> None:
    async def chat(_request: Any, _context: Any) -> AsyncIterator[Any]:
        for sequence in (1, 2):
            yield coordinator_service_pb2.ChatResponse(sequence=sequence, delta=chat_pb2.ChatDelta(text="x"))

    upstream.on("Chat", chat)
    response, body = await raw(alice, "/api/chat", "gzip")

    assert response.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in response.headers
    assert body.count(b"data: ") == 2
