"""A server with more to do than it can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from groundline_runtime.channels import open_channel
from groundline_runtime.context import BEGUN_KEY, begun, has_begun
from groundline_runtime.serving.admission import Admission
from groundline_runtime.serving.interceptors import server_interceptors
from groundline_runtime.serving.server import Application
from groundline_runtime.status import from_rpc_error
from groundline_tests.runtime import serve

PLACES = 32


class Full:
    """Answers nothing until it is told to; knows whom it works for."""

    def __init__(self) -> None:
        self.arrived = asyncio.Queue[str]()
        self.go_on = asyncio.Event()

    async def look(self, text: str) -> str:
        self.arrived.put_nowait(text)
        await self.go_on.wait()
        return text


@asynccontextmanager
async def full_server(probe: SimpleNamespace) -> AsyncIterator[tuple[Any, Full]]:
    """Hold all places of a server, where nobody waits for one for longer than a moment."""
    full = Full()
    admission = Admission(max_wait_seconds=0.01)
    server = grpc.aio.server(interceptors=server_interceptors(60, admission))
    application: Application = probe.application(probe.Servicer(look=full.look))
    application.services[probe.SERVICE](server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}", service=probe.SERVICE) as channel:
        stub = probe.Stub(channel)
        held = [asyncio.ensure_future(stub.Look(probe.Ask(text="held"))) for _ in range(PLACES)]
        for _ in held:
            await full.arrived.get()
        try:
            yield stub, full
        finally:
            full.go_on.set()
            await asyncio.gather(*held)
            await server.stop(None)


async def test_what_gets_no_turn_in_time_is_refused_with_the_time_to_wait(probe: SimpleNamespace) -> None:
    async with full_server(probe) as (stub, full):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Look(probe.Ask(text="late"))
        assert full.arrived.empty()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    error = from_rpc_error(caught.value)
    assert (error.reason, error.retry_after_seconds) == ("OVERLOADED", 1)
    assert ("retry-after", "1") in tuple(caught.value.trailing_metadata() or ())


async def test_what_belongs_to_a_chat_that_has_begun_waits_for_its_turn(probe: SimpleNamespace) -> None:
    async with full_server(probe) as (stub, full):
        with begun():
            call = asyncio.ensure_future(stub.Look(probe.Ask(text="begun")))
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Look(probe.Ask(text="new"))
        full.go_on.set()
        assert (await call).text == "begun"


async def test_calls_made_for_a_chat_that_has_begun_say_so_from_service_to_service(
    probe: SimpleNamespace,
) -> None:
    seen: list[bool] = []

    async def note(text: str) -> str:
        seen.append(has_begun())
        return text

    async with (
        serve(probe.application(probe.Servicer(look=note))) as inner,
        open_channel(inner, service=probe.SERVICE) as inward,
    ):

        async def pass_on(text: str) -> str:
            seen.append(has_begun())
            return str((await probe.Stub(inward).Look(probe.Ask(text=text))).text)

        async with (
            serve(probe.application(probe.Servicer(look=pass_on))) as outer,
            open_channel(outer, service=probe.SERVICE) as channel,
        ):
            await probe.Stub(channel).Look(probe.Ask())
            await probe.Stub(channel).Look(probe.Ask(), metadata=((BEGUN_KEY, "true"),))
    assert seen == [False, False, True, True]
