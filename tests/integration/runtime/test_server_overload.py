"""A server with more to do than it can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from groundline_runtime.channels import open_channel
from groundline_runtime.context import BEGUN_KEY, Caller, acting_as, begun, has_begun
from groundline_runtime.serving.admission import Admission
from groundline_runtime.serving.interceptors import server_interceptors
from groundline_runtime.serving.server import Application
from groundline_runtime.status import from_rpc_error
from groundline_tests.runtime import serve
from groundline_validation import validate

PLACES = 32
ANN, BOB = Caller(("user:ann",)), Caller(("user:bob",))


class Full:
    """Answers nothing until it is told to, one or all; knows what it works on."""

    def __init__(self) -> None:
        self.arrived = asyncio.Queue[str]()
        self.go_on = asyncio.Event()
        self.answer_one = asyncio.Queue[None]()

    async def look(self, text: str) -> str:
        self.arrived.put_nowait(text)
        ends = [asyncio.ensure_future(end) for end in (self.go_on.wait(), self.answer_one.get())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        return text


@asynccontextmanager
async def full_server(
    probe: SimpleNamespace, admission: Admission | None = None
) -> AsyncIterator[tuple[Any, Full]]:
    """Hold all places of a server, for `ann`; nobody waits for one for longer than a moment, unless the
    admission says otherwise."""
    full = Full()
    admission = admission or Admission(max_wait_seconds=0.01)
    server = grpc.aio.server(interceptors=server_interceptors(60, validate, admission))
    application: Application = probe.application(probe.Servicer(look=full.look))
    application.services[probe.SERVICE](server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}", service=probe.SERVICE) as channel:
        stub = probe.Stub(channel)
        with acting_as(ANN):
            held = [asyncio.ensure_future(stub.Look(probe.Ask(text="held"))) for _ in range(PLACES)]
        for _ in held:
            await full.arrived.get()
        try:
            yield stub, full
        finally:
            full.go_on.set()
            await asyncio.gather(*held)
            await server.stop(None)


async def waiting(admission: Admission, requests: int) -> None:
    """Wait until this many requests wait."""
    while admission.waiting < requests:  # noqa: ASYNC110 (no event tells)
        await asyncio.sleep(0.01)


async def test_what_gets_no_turn_in_time_is_refused_with_the_time_to_wait(probe: SimpleNamespace) -> None:
    async with full_server(probe) as (stub, full):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Look(probe.Ask(text="late"))
        assert full.arrived.empty()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    error = from_rpc_error(caught.value)
    assert (error.reason, error.retry_after_seconds) == ("OVERLOADED", 1)
    assert ("retry-after", "1") in tuple(caught.value.trailing_metadata() or ())


async def test_beside_a_full_queue_anothers_request_is_worked_on_next(
    probe: SimpleNamespace,
) -> None:
    admission = Admission(max_wait_seconds=60)
    async with full_server(probe, admission) as (stub, full):

        def ask(client: Caller, text: str) -> Any:
            with acting_as(client):
                return asyncio.ensure_future(stub.Look(probe.Ask(text=text)))

        hers = [ask(ANN, "waits") for _ in range(100)]
        await waiting(admission, len(hers))
        his = ask(BOB, "single")
        await waiting(admission, len(hers) + 1)
        full.answer_one.put_nowait(None)
        assert await full.arrived.get() == "single"
        full.go_on.set()
        await asyncio.gather(his, *hers)


async def test_what_belongs_to_a_chat_that_has_begun_waits_for_its_turn(probe: SimpleNamespace) -> None:
    async with full_server(probe) as (stub, full):
        with begun():
            call = asyncio.ensure_future(stub.Look(probe.Ask(text="begun")))
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Look(probe.Ask(text="new"))
        full.go_on.set()
        assert (await call).text == "begun"


async def test_calls_for_a_chat_that_has_begun_say_so_to_each_service(
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
