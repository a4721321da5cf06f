"""Streams that the gateway turns into server-sent events, on a real port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from groundline_runtime.context import TRANSCODED_KEY
from groundline_runtime.errors import NotFoundError
from groundline_runtime.serving.interceptors import server_interceptors
from groundline_validation import validate

TRANSCODED = ((TRANSCODED_KEY, "true"),)
HEARTBEAT_SECONDS = 0.01


@asynccontextmanager
async def following(probe: Any, follow: Any) -> AsyncIterator[Any]:
    server = grpc.aio.server(
        interceptors=server_interceptors(60, validate, heartbeat_seconds=HEARTBEAT_SECONDS)
    )
    probe.application(probe.Servicer(follow=follow)).services[probe.SERVICE](server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield probe.Stub(channel)
    finally:
        await server.stop(None)


async def test_a_failure_before_the_first_message_is_a_status_however_late(probe: Any) -> None:
    async def follow(text: str) -> AsyncIterator[str]:
        await asyncio.sleep(10 * HEARTBEAT_SECONDS)
        if text == "missing":
            raise NotFoundError("NOT_FOUND", "no such thing")
        yield text

    async with following(probe, follow) as stub:
        call = stub.Follow(probe.Ask(text="missing"), metadata=TRANSCODED)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call.read()
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_silent_stream_gets_empty_messages_and_loses_none_of_its_own(probe: Any) -> None:
    go_on = asyncio.Event()

    async def follow(_text: str) -> AsyncIterator[str]:
        yield "one"
        await go_on.wait()
        yield "two"

    async with following(probe, follow) as stub, asyncio.timeout(10):
        seen = []
        async for answer in stub.Follow(probe.Ask(), metadata=TRANSCODED):
            seen.append(answer.text)
            if len(seen) == 3:
                go_on.set()

    assert seen[:3] == ["one", "", ""]
    assert [text for text in seen if text] == ["one", "two"]
    assert seen[-1] == "two"


async def test_a_grpc_client_gets_messages_only(probe: Any) -> None:
    async def follow(_text: str) -> AsyncIterator[str]:
        yield "one"
        await asyncio.sleep(10 * HEARTBEAT_SECONDS)
        yield "two"

    async with following(probe, follow) as stub:
        assert [answer.text async for answer in stub.Follow(probe.Ask())] == ["one", "two"]


async def test_a_client_that_leaves_ends_a_silent_stream(probe: Any) -> None:
    ended = asyncio.Event()

    async def follow(_text: str) -> AsyncIterator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with following(probe, follow) as stub, asyncio.timeout(10):
        call = stub.Follow(probe.Ask(), metadata=TRANSCODED)
        await call.read()
        await call.read()
        call.cancel()
        await ended.wait()
