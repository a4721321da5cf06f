"""The client on a real port: what it tries again, and what it makes of answers that break off."""

import socket
import threading
from collections.abc import AsyncIterator

import pytest
from groundline_cli.client import GatewayClient
from groundline_cli.connection import Connection
from groundline_cli.errors import ApiError, ProtocolError, UnreachableError
from groundline_tests.gateway import FakeGateway, Reply, status

DOWN = Reply(503, status(14, "a service is not available", "SERVICE_UNAVAILABLE"))
RETRY_SOON = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}
LIMITED = Reply(429, status(8, "too many requests", "RATE_LIMITED", RETRY_SOON))
TOO_LARGE = Reply(429, status(8, "message larger than max", "TOO_LARGE"))


@pytest.fixture
async def client(gateway: FakeGateway) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(gateway.connection) as made:
        yield made


async def test_no_gateway_at_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with GatewayClient(Connection(address, "key")) as client:
            with pytest.raises(UnreachableError, match="is the suite running"):
                await client.search({"query": "x"})


async def test_a_wrong_key_is_refused_with_its_reason(gateway: FakeGateway) -> None:
    async with GatewayClient(Connection(gateway.connection.gateway, "wrong")) as client:
        with pytest.raises(ApiError) as raised:
            await client.search({"query": "x"})
    assert (raised.value.http_status, raised.value.reason) == (401, "API_KEY_INVALID")


async def test_something_else_that_answers_is_not_taken_for_a_gateway(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    gateway.next_replies = [Reply(200, "<html>"), Reply(200, {}), Reply(200, "<html>")]
    with pytest.raises(ProtocolError):
        await client.search({"query": "x"})
    with pytest.raises(ProtocolError):
        await client.get_collection("docs")
    with pytest.raises(ProtocolError, match="not events"):
        await anext(client.chat({"query": "x"}))


@pytest.mark.parametrize("reply", [DOWN, LIMITED])
async def test_what_is_idempotent_is_tried_again(
    gateway: FakeGateway, client: GatewayClient, reply: Reply
) -> None:
    gateway.next_replies = [reply, reply]
    assert await client.search({"query": "x"}) == {"passages": [], "degraded": []}
    assert gateway.paths("POST") == ["/api/search"] * 3


@pytest.mark.parametrize("reply", [DOWN, LIMITED])
async def test_what_is_not_idempotent_is_not(
    gateway: FakeGateway, client: GatewayClient, reply: Reply
) -> None:
    gateway.next_replies = [reply]
    with pytest.raises(ApiError):
        await client.answer({"query": "x"})
    gateway.next_replies = [reply]
    with pytest.raises(ApiError):
        await client.create_collection({"collectionId": "docs"})
    assert len(gateway.requests) == 2


async def test_a_request_that_is_too_much_is_not_tried_again(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    gateway.next_replies = [TOO_LARGE]
    with pytest.raises(ApiError, match="larger than max"):
        await client.search({"query": "x"})
    assert len(gateway.requests) == 1


async def test_trying_again_has_an_end(gateway: FakeGateway, client: GatewayClient) -> None:
    gateway.next_replies = [LIMITED] * 50
    with pytest.raises(ApiError, match="too many requests"):
        await client.search({"query": "x"})
    assert 1 < len(gateway.requests) < 10


async def test_a_chat_refused_before_it_starts_is_the_refusal(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    gateway.next_replies = [Reply(400, status(3, "wrong", "INVALID_FIELDS"))]
    with pytest.raises(ApiError, match="wrong"):
        await anext(client.chat({"query": ""}))


async def test_a_chat_that_ends_in_an_error_event_is_an_error(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    gateway.chat_events = [{"sequence": 1, "started": {}}, {"sequence": 2, "error": {"message": "broken"}}]
    events = client.chat({"query": "x"})
    assert "started" in await anext(events)
    with pytest.raises(ApiError, match="broken"):
        await anext(events)


async def test_a_chat_that_just_ends_is_an_error(gateway: FakeGateway, client: GatewayClient) -> None:
    gateway.chat_events = [{"sequence": 1, "started": {}}]
    with pytest.raises(UnreachableError, match="broke off"):
        _ = [event async for event in client.chat({"query": "x"})]


async def test_a_connection_lost_within_a_stream_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head + b'data: {"started": {}}\r\n\r')

        thread = threading.Thread(target=serve_once)
        thread.start()
        connection = Connection(f"http://127.0.0.1:{server.getsockname()[1]}", "key")
        async with GatewayClient(connection) as client:
            events = client.chat({"query": "x"})
            assert await anext(events) == {"started": {}}
            with pytest.raises(UnreachableError, match="broke off"):
                await anext(events)
        thread.join()


async def test_names_cannot_lead_to_another_path(gateway: FakeGateway, client: GatewayClient) -> None:
    with pytest.raises(ApiError):
        await client.get_collection("../search?x=1")
    assert gateway.paths("GET") == ["/api/collections/..%2Fsearch%3Fx%3D1"]


async def test_every_page_of_a_list_is_fetched(gateway: FakeGateway, client: GatewayClient) -> None:
    for name in ("c", "a", "b"):
        await client.create_collection({"collectionId": name})
    found = [collection["collectionId"] async for collection in client.list_collections()]
    assert found == ["a", "b", "c"]
    assert len(gateway.paths("GET")) == 2
