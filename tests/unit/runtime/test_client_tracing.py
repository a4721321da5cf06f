"""OpenTelemetry's interceptors of clients, on a real channel."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from groundline_runtime.telemetry.tracing import client_interceptors


class Handler(grpc.GenericRpcHandler):
    """A server whose stream ends after one message, whatever the client still has to say."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def answer(
            requests: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, bytes]"
        ) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request
                return

        return grpc.stream_stream_rpc_method_handler(answer)


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", interceptors=client_interceptors()) as channel:
        yield channel
    await server.stop(None)


async def test_a_stream_that_the_peer_ends_leaves_no_task_behind(channel: grpc.aio.Channel) -> None:
    before = asyncio.all_tasks()
    call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream("/test.Service/Method")()
    await call.write(b"said")
    assert await call.read() == b"said"
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    async with asyncio.timeout(10):
        while left := {task for task in asyncio.all_tasks() - before if not of_server(task)}:
            await asyncio.wait(left, timeout=0.01)


def of_server(task: "asyncio.Task[Any]") -> bool:
    """Tell whether the server, which runs in the same loop, waits for the next call in this task."""
    return "AioServer" in repr(task)
