"""No client takes the gateway from the others: memory, requests at once, guesses and the rest are bounded."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from typing import Any

import httpx
import psutil
import pytest
from groundline.v1 import ingestor_service_pb2

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"
MIB = 1 << 20


@asynccontextmanager
async def connection(gateway: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*gateway.address)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def unfinished(path: str, announced: int, sent: int) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {ALICE}\r\ncontent-length: {announced}\r\n\r\n"
    return head.encode() + b'{"documents":[{"text":"' + b"x" * sent


async def post_without_an_end(gateway: Any) -> bytes:
    """Three of four announced MiB; what the gateway says to it in the end."""
    async with connection(gateway) as (reader, writer):
        with suppress(OSError):
            writer.write(unfinished("/api/collections/c/documents", 4 * MIB, 3 * MIB))
            await writer.drain()
            return await reader.readline()
    return b""


async def test_unfinished_requests_do_not_take_the_memory(upstream: Any, launch: Any) -> None:
    """1,500 MiB of them meet a gateway that may use 100, and it serves again."""
    async with launch(max_heap_bytes=100 * MIB, max_concurrent_requests=10_000) as gateway:
        await gateway.becomes(200)
        before = highest = psutil.Process(gateway.pid).memory_info().rss
        posts = [asyncio.create_task(post_without_an_end(gateway)) for _ in range(500)]
        try:
            async with asyncio.timeout(60), gateway.client(BOB) as bob:
                await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
                status = 0
                while status != 200:
                    highest = max(highest, psutil.Process(gateway.pid).memory_info().rss)
                    with suppress(httpx.TransportError):
                        status = (await bob.get("/api/threads")).status_code
        finally:
            for task in posts:
                task.cancel()
            await asyncio.gather(*posts, return_exceptions=True)

    # What is accepted before the pressure is seen comes on top, and what is freed stays with the process for
    # a while: 250 to 640 MiB have been seen, the most of it beside other work.
    assert highest - before < 1000 * MIB


async def test_one_clients_unfinished_requests_hold_up_nobody_else(upstream: Any, launch: Any) -> None:
    async with launch() as gateway:
        await gateway.becomes(200)
        posts = [asyncio.create_task(post_without_an_end(gateway)) for _ in range(50)]
        try:
            async with asyncio.timeout(60), gateway.client(BOB) as bob:
                # A batch of documents counts as many requests, so all but one are refused.
                refused = [await done for done in islice(asyncio.as_completed(posts), 49)]
                served = await bob.get("/api/threads")
        finally:
            for task in posts:
                task.cancel()
            await asyncio.gather(*posts, return_exceptions=True)

    assert set(refused) <= {b"HTTP/1.1 429 Too Many Requests\r\n", b""}
    assert served.status_code == 200


async def test_an_upload_counts_as_several_requests(upstream: Any, launch: Any) -> None:
    go_on = asyncio.Event()

    async def wait(_requests: Any, _context: Any) -> Any:
        await go_on.wait()

    upstream.on("UploadDocument", wait)
    async with launch(max_concurrent_requests=8) as gateway, AsyncExitStack() as stack:
        await gateway.becomes(200)
        alice = await stack.enter_async_context(gateway.client(ALICE))
        for _ in range(2):
            _, writer = await stack.enter_async_context(connection(gateway))
            writer.write(unfinished("/api/collections/c/documents:upload?uri=a", MIB, 1))
        refused = await gateway.answering(alice, "/api/threads", 429)
        go_on.set()

    assert refused.json()["details"][0]["reason"] == "RATE_LIMITED"


async def test_uploads_of_several_keys_leave_memory_for_anothers(upstream: Any, launch: Any) -> None:
    """96 MiB of unfinished uploads meet a gateway that may use 64."""

    async def receive(requests: Any, _context: Any) -> Any:
        async for _ in requests:
            pass
        return ingestor_service_pb2.UploadDocumentResponse()

    async def upload_without_an_end(gateway: Any, key: str, stack: AsyncExitStack) -> None:
        _, writer = await stack.enter_async_context(connection(gateway))
        with suppress(OSError):
            head = unfinished("/api/collections/c/documents:upload?uri=a", 9 * MIB, 0)
            writer.write(head.replace(ALICE.encode(), key.encode()))
            for _ in range(8):
                writer.write(b"x" * MIB)
                await writer.drain()

    upstream.on("UploadDocument", receive)
    strangers = [f"stranger-key-012345678{number}" for number in range(3)]
    keys = [{"key": key, "client": key, "principals": [f"user:{key}"]} for key in (BOB, *strangers)]
    settings = {"api_keys": keys, "max_heap_bytes": 64 * MIB, "max_concurrent_requests": 64}
    async with launch(**settings) as gateway, AsyncExitStack() as stack, asyncio.timeout(60):
        await gateway.becomes(200)
        bob = await stack.enter_async_context(gateway.client(BOB))
        await asyncio.gather(
            *(upload_without_an_end(gateway, key, stack) for key in strangers for _ in range(4))
        )
        uploaded = await bob.post("/api/collections/c/documents:upload?uri=b", content=b"x" * MIB)

    assert uploaded.status_code == 200


async def test_documents_of_several_keys_leave_some_to_each(upstream: Any, launch: Any) -> None:
    """Nine documents of 4 MiB are what a gateway takes at once that may use 64 MiB."""
    strangers = [f"stranger-key-012345678{number}" for number in range(4)]
    keys = [{"key": key, "client": key, "principals": [f"user:{key}"]} for key in strangers]
    settings = {"api_keys": keys, "max_heap_bytes": 64 * MIB, "max_concurrent_requests": 10_000}
    async with launch(**settings) as gateway, AsyncExitStack() as stack, asyncio.timeout(60):
        await gateway.becomes(200)
        taken = []
        for key, refused in zip(strangers, (3, 6, 7, 7), strict=True):
            answers = []
            for _ in range(8):
                reader, writer = await stack.enter_async_context(connection(gateway))
                head = unfinished("/api/collections/c/documents", 4 * MIB, 1)
                writer.write(head.replace(ALICE.encode(), key.encode()))
                answers.append(asyncio.create_task(reader.readline()))
            for answer in islice(asyncio.as_completed(answers), refused):
                assert await answer == b"HTTP/1.1 429 Too Many Requests\r\n"
            taken.append(sum(not answer.done() for answer in answers))
            for answer in answers:
                answer.cancel()

    assert taken == [5, 2, 1, 1]


async def test_a_clients_requests_at_once_are_bounded_however_they_end(upstream: Any, launch: Any) -> None:
    go_on = asyncio.Event()

    async def wait(_request: Any, _context: Any) -> Any:
        await go_on.wait()

    async with launch(max_concurrent_requests=5) as gateway, AsyncExitStack() as stack:
        await gateway.becomes(200)
        alice = await stack.enter_async_context(gateway.client(ALICE))
        bob = await stack.enter_async_context(gateway.client(BOB))
        assert {(await alice.get("/api/threads")).status_code for _ in range(50)} == {200}

        upstream.on("Answer", wait)
        asked = [asyncio.create_task(alice.post("/api/answer", json={})) for _ in range(3)]
        for _ in asked:
            await upstream.arrived.get()
        writers = [(await stack.enter_async_context(connection(gateway)))[1] for _ in range(2)]
        for writer in writers:
            writer.write(unfinished("/api/answer", 1000, 1))
        refused = await gateway.answering(alice, "/api/collections", 429)
        others = await bob.get("/api/collections")

        for task in asked:
            task.cancel()
        for writer in writers:
            writer.close()
        await gateway.answering(alice, "/api/collections", 200)
        go_on.set()

    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["details"][0]["reason"] == "RATE_LIMITED"
    assert others.status_code == 200


async def test_who_is_refused_for_now_keeps_the_connection(upstream: Any, launch: Any) -> None:
    go_on = asyncio.Event()

    async def wait(_request: Any, _context: Any) -> Any:
        await go_on.wait()

    upstream.on("Answer", wait)
    async with (
        launch(max_concurrent_requests=1, worker_threads=1) as gateway,
        gateway.client(ALICE) as alice,
        connection(gateway) as (reader, writer),
    ):
        await gateway.becomes(200)
        asked = asyncio.create_task(alice.post("/api/answer", json={}))
        await upstream.arrived.get()
        for _ in range(2):
            writer.write(unfinished("/api/answer", 100, 77))
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert head.startswith("HTTP/1.1 429 ")
            await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
        go_on.set()
        await asked


async def test_guessing_keys_is_held_up_and_right_keys_are_not(upstream: Any, launch: Any) -> None:
    async with launch(max_wrong_keys_per_minute=5) as gateway:
        async with gateway.client("wrong-key-0123456789") as guesser:
            # Ten may be told: another minute may begin meanwhile.
            responses = [await guesser.get("/api/threads") for _ in range(11)]
        async with gateway.client(ALICE) as alice:
            await gateway.becomes(200)
            right = await alice.get("/api/threads")

    statuses = Counter(response.status_code for response in responses)
    assert statuses[401] >= 5
    assert statuses[429] >= 1
    assert {response.headers.get("retry-after") for response in responses} == {None, "60"}
    assert right.status_code == 200
    assert len(upstream.calls) == 1


async def test_a_connection_that_does_not_say_what_it_speaks_ends(gateway: Any) -> None:
    async def ends(sent: bytes) -> None:
        async with connection(gateway) as (reader, writer):
            writer.write(sent)
            with suppress(ConnectionResetError):
                await reader.read()

    async with asyncio.timeout(30):
        await asyncio.gather(*map(ends, [b"PRI * HTT", b"POST /api/ans", b""]))


@pytest.mark.parametrize("key", [ALICE, "wrong"])
@pytest.mark.parametrize("path", ["/api/chat", "/api/threads", "/v1/chat/completions", "/mcp", "/nowhere"])
async def test_an_upgrade_of_protocol_is_refused(upstream: Any, gateway: Any, path: str, key: str) -> None:
    async with connection(gateway) as (reader, writer):
        writer.write(
            f"GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n"
            "connection: Upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        answer = (await reader.read()).decode()

    assert answer.startswith("HTTP/1.1 400 ")
    told = json.loads(answer.partition("\r\n\r\n")[2])
    if path.startswith("/v1/"):
        code, message = told["error"]["code"], told["error"]["message"]
        assert code == "request_refused"
    else:
        message = told["message"]
        assert (told["code"], told["details"][0]["reason"]) == (3, "REQUEST_REFUSED")
    assert message == "upgrades such as WebSocket are not supported: streams come as server-sent events"
    assert upstream.calls == []


async def test_another_transfer_encoding_is_the_clients_mistake(upstream: Any, gateway: Any) -> None:
    async with connection(gateway) as (reader, writer):
        head = f"POST /api/search HTTP/1.1\r\nhost: x\r\nx-api-key: {ALICE}\r\n"
        writer.write(f"{head}transfer-encoding: gzip, chunked\r\n\r\n".encode())
        answer = (await reader.read()).decode()

    assert answer.startswith("HTTP/1.1 501 ")
    told = json.loads(answer.partition("\r\n\r\n")[2])
    assert (told["code"], told["details"][0]["reason"]) == (12, "REQUEST_REFUSED")
    assert upstream.calls == []


@pytest.mark.parametrize(
    "path",
    [
        "/api/threads/a%ff",
        "/api/threads/%c0%af",
        "/api/threads/%ed%a0%80",
        "/api/threads/%f5%80%80%80",
        "/api/threads/%e2%82",
        "/api/threads?pageToken=%ff",
        "/api/threads?pageToken=a%80",
    ],
)
async def test_an_address_of_no_text_is_refused(upstream: Any, alice: httpx.AsyncClient, path: str) -> None:
    response = await alice.get(httpx.URL(str(alice.base_url).rstrip("/") + path))

    assert response.status_code == 400
    assert response.json()["details"][0]["reason"] == "MALFORMED_REQUEST"
    assert upstream.calls == []


@pytest.mark.parametrize("thread", ["ü", "€", "\U0001f600", "\uffff"])
async def test_an_address_holds_any_character(upstream: Any, alice: httpx.AsyncClient, thread: str) -> None:
    assert (await alice.get(f"/api/threads/{thread}")).status_code == 200

    assert upstream.calls[0].request.thread_id == thread
