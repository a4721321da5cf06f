"""The bridge's addresses at the gateway: the same keys, limits and deadlines as elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import httpx
import httpx2
import openai
import pytest
from groundline.v1 import chat_pb2, coordinator_service_pb2
from groundline_tests.listening import listening
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

type Gateway = Any
type Upstream = Any
type Launch = Callable[..., AbstractAsyncContextManager[Gateway]]
type Share = Callable[..., Awaitable[Gateway]]

ASK: dict[str, Any] = {"model": "groundline", "messages": [{"role": "user", "content": "How long?"}]}
KEYS: dict[str, dict[str, Any]] = {
    scope: {
        "key": f"only-{scope}-0123456789",
        "client": scope,
        "principals": ["user:carol"],
        "scopes": [scope],
    }
    for scope in ("search", "chat", "ingest")
}


def client_of(gateway: Gateway, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)


@pytest.fixture
async def alice(gateway: Gateway) -> openai.AsyncOpenAI:
    return client_of(gateway, "alice-key-0123456789")


async def test_without_a_key_nothing_is_reached(gateway: Gateway, upstream: Upstream) -> None:
    async with client_of(gateway, "no-such-key-0123456789") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.models.list()
    assert refused.value.body == {
        "message": "send a valid API key as x-api-key or as Authorization: Bearer",
        "type": "authentication_error",
        "param": None,
        "code": "api_key_invalid",
    }
    assert upstream.calls == []


async def test_asking_needs_the_scope_chat(shared: Share, upstream: Upstream) -> None:
    gateway = await shared(api_keys=list(KEYS.values()))
    for scope in ("search", "ingest"):
        async with client_of(gateway, KEYS[scope]["key"]) as client:
            for ask in (
                client.chat.completions.create(**ASK),
                client.responses.create(model="groundline", input="How long?"),
            ):
                with pytest.raises(openai.PermissionDeniedError) as refused:
                    await ask
                assert refused.value.code == "scope_missing"
            assert [model.id async for model in client.models.list()] == ["groundline"]
    assert [call.method for call in upstream.calls] == ["ListCollections"] * 2


async def test_an_agent_sees_the_tools_of_its_keys_scopes_whatever_it_says_of_them(shared: Share) -> None:
    gateway = await shared(api_keys=list(KEYS.values()))
    headers = {"x-api-key": KEYS["search"]["key"], "x-groundline-scopes": "chat,admin"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(f"{gateway.url}/mcp", http_client=http)) as agent,
    ):
        tools = [tool.name for tool in (await agent.list_tools()).tools]
    assert tools == ["search_documents", "query_tables", "get_document", "list_collections"]


async def test_identity_cannot_be_sent_along(gateway: Gateway, upstream: Upstream) -> None:
    headers = {"x-groundline-principals": "user:root", "grpc-timeout": "1H"}
    async with gateway.client() as client:
        await client.post("/v1/chat/completions", json=ASK, headers=headers)
    (call,) = upstream.calls
    assert call.values("x-groundline-principals") == ["user:alice,group:staff"]
    assert call.remaining_seconds < 121


async def test_a_body_beyond_the_limit_is_refused_openais_way(gateway: Gateway, upstream: Upstream) -> None:
    async with gateway.client() as client:
        response = await client.post("/v1/chat/completions", json=ASK | {"user": "x" * (65 << 10)})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")
    assert upstream.calls == []


async def test_who_leaves_a_stream_cancels_the_answer(alice: openai.AsyncOpenAI, upstream: Upstream) -> None:
    async def talks(request: Any, context: Any) -> Any:
        yield coordinator_service_pb2.ChatResponse(started=chat_pb2.ChatStarted(message_id="m"))
        yield coordinator_service_pb2.ChatResponse(delta=chat_pb2.ChatDelta(text="Well, "))
        await asyncio.get_running_loop().create_future()

    upstream.on("Chat", talks)
    async with asyncio.timeout(30):
        async with await alice.chat.completions.create(**ASK, stream=True) as chunks:
            async for chunk in chunks:
                if chunk.choices[0].delta.content:
                    break
        call = await upstream.arrived.get()
        await call.ended.wait()


async def test_whoever_leaves_before_the_answer_cancels_it(gateway: Gateway, upstream: Upstream) -> None:
    async def waits(request: Any, context: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    upstream.on("Answer", waits)
    async with gateway.client() as client, asyncio.timeout(30):
        asking = asyncio.create_task(client.post("/v1/chat/completions", json=ASK))
        call = await upstream.arrived.get()
        asking.cancel()
        await call.ended.wait()


@asynccontextmanager
async def hanging_bridge() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Provide the port of a bridge that is ready until its first request, and an event that is set then: from
    there on it takes connections and bytes, as the system does for a process that is stopped."""
    hung = asyncio.Event()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"/readyz" not in head:
                    hung.set()
                if not hung.is_set():
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with listening(connect) as port:
        yield port, hung


@pytest.mark.parametrize(("verb", "path"), [("GET", "/v1/models"), ("POST", "/v1/chat/completions")])
async def test_what_a_hanging_bridge_has_not_answered_is_answered_by_another(
    launch: Launch, upstream: Upstream, verb: str, path: str
) -> None:
    async with hanging_bridge() as (port, hung):
        replicas = f"127.0.0.1:{port},127.0.0.1:{upstream.bridge_port}"
        async with launch(bridge_address=replicas) as gateway, gateway.client() as client:
            await gateway.becomes(200)
            client.timeout = httpx.Timeout(60)
            statuses = set()
            while not hung.is_set():
                asked = [client.request(verb, path, json=ASK) for _ in range(8)]
                statuses |= {response.status_code for response in await asyncio.gather(*asked)}
    assert statuses == {200}


async def test_a_bridge_that_is_away_is_told_in_openais_words(launch: Launch) -> None:
    async with launch(bridge_address="127.0.0.1:9") as gateway, gateway.client() as client:
        await gateway.becomes(503)
        response: httpx.Response = await client.get("/v1/models")
        assert (response.status_code, response.json()["error"]["code"]) == (503, "service_unavailable")
        # The others are not touched by it.
        assert (await client.get("/api/collections")).status_code == 200
