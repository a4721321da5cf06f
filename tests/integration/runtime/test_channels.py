"""Additions of the channel factory to every call."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from groundline_cli.stack.readiness import wait_until_serving
from groundline_runtime.channels import open_channel
from groundline_runtime.context import (
    PRINCIPALS_KEY,
    Caller,
    acting_as,
    current_caller,
    deadline_at,
    remaining_seconds,
)
from groundline_runtime.errors import InvalidArgumentError, UnavailableError
from groundline_runtime.settings import ServiceSettings
from groundline_runtime.status import translated_rpc_errors
from groundline_tests.listening import listening
from groundline_tests.runtime import serve


async def test_an_unknown_service_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"nowhere\.v1\.Nothing"):
        async with open_channel("127.0.0.1:1", service="nowhere.v1.Nothing"):
            pass


async def test_a_service_that_is_down_is_an_error_without_its_address(probe: SimpleNamespace) -> None:
    async with open_channel("127.0.0.1:1", service=probe.SERVICE) as channel:
        with pytest.raises(UnavailableError) as caught, translated_rpc_errors("the probe"):
            await probe.Stub(channel).Look(probe.Ask())
    assert caught.value.message == "the probe is not available"


async def test_a_service_ready_again_answers_those_who_knew_it_was_down(
    probe: SimpleNamespace,
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    target = f"127.0.0.1:{port}"
    settings = ServiceSettings.model_construct(port=port)
    async with open_channel(target, service=probe.SERVICE) as channel:
        stub = probe.Stub(channel)
        for _ in range(3):
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.Look(probe.Ask())
        async with serve(probe.application(probe.Servicer()), settings):
            await wait_until_serving(target, probe.SERVICE, timeout_seconds=30)
            assert (await stub.Look(probe.Ask(text="at once"))).text == "at once"


async def test_a_request_without_time_left_is_not_sent(reach: Any, probe: SimpleNamespace) -> None:
    seen: list[str] = []

    async def look(text: str) -> str:
        seen.append(text)
        return text

    async with reach(look=look) as stub:
        await stub.Look(probe.Ask(text="connected"))
        for _ in range(100):
            with deadline_at(0.0), pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Look(probe.Ask(text="late"))
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await stub.Look(probe.Ask(text="in time"))
    assert seen == ["connected", "in time"]


async def test_a_call_without_any_deadline_gets_the_default(probe: SimpleNamespace) -> None:
    seen: list[float | None] = []

    async def look(text: str) -> str:
        seen.append(remaining_seconds())
        return text

    async with (
        serve(probe.application(probe.Servicer(look=look))) as target,
        open_channel(target, service=probe.SERVICE, default_timeout_seconds=7) as channel,
    ):
        await probe.Stub(channel).Look(probe.Ask())
    assert seen[0] is not None
    assert seen[0] < 8


class Flaky:
    """Down for the first two attempts, by what its transport says."""

    def __init__(self) -> None:
        self.attempts = 0

    async def __call__(self, text: str) -> str:
        self.attempts += 1
        if self.attempts < 3:
            raise UnavailableError("BUSY", "not now")
        return text


async def test_an_idempotent_method_is_tried_again(reach: Any, probe: SimpleNamespace) -> None:
    flaky = Flaky()
    async with reach(look=flaky) as stub:
        assert (await stub.Look(probe.Ask(text="x"))).text == "x"
    assert flaky.attempts == 3


async def test_a_method_with_effects_is_not_tried_again(reach: Any, probe: SimpleNamespace) -> None:
    flaky = Flaky()
    async with reach(change=flaky) as stub:
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Change(probe.Ask(text="x"))
    assert flaky.attempts == 1


class Hanging:
    """Answers until it is told to hang."""

    def __init__(self) -> None:
        self.hangs = False
        self.count = 0
        self.ended = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, text: str) -> str:
        self.count += 1
        if self.hangs:
            try:
                await self.ended.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return text


@asynccontextmanager
async def without_signs_of_life(
    probe: SimpleNamespace, look: Callable[[str], Awaitable[str]]
) -> AsyncIterator[str]:
    """Target of a server that tells nobody that it is at work, like a process that is stopped."""
    server = grpc.aio.server()
    [register] = probe.application(probe.Servicer(look=look)).services.values()
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def test_what_was_sent_to_a_replica_that_hangs_is_answered_by_another(probe: SimpleNamespace) -> None:
    hanging = Hanging()
    async with (
        without_signs_of_life(probe, hanging) as one,
        serve(probe.application(probe.Servicer())) as other,
        open_channel(f"{one},{other}", service=probe.SERVICE) as channel,
    ):
        stub = probe.Stub(channel)

        async def look() -> str:
            answer = await stub.Look(probe.Ask(text="x"))
            return str(answer.text)

        while not hanging.count:
            await look()
        hanging.hangs = True
        hanging.count = 0
        looks = []
        # One after the other: replicas are compared by what each was asked within the same second.
        for _ in range(40):
            looks.append(asyncio.create_task(look()))
            await asyncio.sleep(0.1)
        assert await asyncio.gather(*looks) == ["x"] * 40
        assert hanging.count


async def test_when_all_are_slow_what_has_begun_goes_on(probe: SimpleNamespace) -> None:
    slow = Hanging()

    async def look(text: str) -> str:
        if slow.count == 2:
            asyncio.get_running_loop().call_later(3, slow.ended.set)
        return await slow(text)

    slow.hangs = True
    async with (
        without_signs_of_life(probe, look) as target,
        open_channel(target, service=probe.SERVICE) as channel,
    ):
        answer = await probe.Stub(channel).Look(probe.Ask(text="x"), timeout=60)
    assert answer.text == "x"
    assert slow.count == 3, "no more than three at once"


async def test_an_attempt_that_loses_is_cancelled(probe: SimpleNamespace) -> None:
    hanging, quick = Hanging(), Hanging()
    hanging.hangs = True

    async def look(text: str) -> str:
        return await (quick if hanging.count else hanging)(text)

    async with (
        without_signs_of_life(probe, look) as target,
        open_channel(target, service=probe.SERVICE) as channel,
    ):
        assert (await probe.Stub(channel).Look(probe.Ask(text="x"))).text == "x"
        async with asyncio.timeout(20):
            await hanging.cancelled.wait()
    assert (hanging.count, quick.count) == (1, 1)


class Relay:
    """Address that leads to a server; while it is stopped it takes connections and bytes, as the system does
    for a process that is stopped, and nothing comes back."""

    def __init__(self) -> None:
        self.address = ""
        self.stopped = asyncio.Event()
        self.connected = asyncio.Queue[None]()


@asynccontextmanager
async def through_a_relay(target: str) -> AsyncIterator[Relay]:
    host, _, port = target.rpartition(":")
    relay = Relay()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not relay.stopped.is_set():
                writer.write(data)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay.connected.put_nowait(None)
        # Whatever ends it, the server that it leads to included, both connections are closed.
        with ExitStack() as closing:
            closing.callback(writer.close)
            inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
            closing.callback(inner_writer.close)
            copies = [copy(reader, inner_writer), copy(inner_reader, writer)]
            tasks = [asyncio.create_task(each) for each in copies]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*tasks, return_exceptions=True)

    async with listening(connect) as own_port:
        relay.address = f"127.0.0.1:{own_port}"
        yield relay


async def test_a_stream_of_a_process_that_stops_answering_ends_within_seconds(probe: SimpleNamespace) -> None:
    ended = asyncio.Event()

    async def answers(text: str) -> AsyncIterator[str]:
        yield text
        await ended.wait()

    async with (
        serve(probe.application(probe.Servicer(follow=answers))) as target,
        through_a_relay(target) as relay,
        open_channel(relay.address, service=probe.SERVICE) as channel,
    ):
        stream = probe.Stub(channel).Follow(probe.Ask(text="x"))
        assert (await stream.read()).text == "x"
        relay.stopped.set()
        try:
            async with asyncio.timeout(20):
                with pytest.raises(UnavailableError), translated_rpc_errors():
                    await stream.read()
        finally:
            ended.set()


async def test_a_hanging_replica_is_tried_by_connecting_until_it_answers(
    probe: SimpleNamespace,
) -> None:
    hung, other = Hanging(), Hanging()
    async with (
        serve(probe.application(probe.Servicer(change=hung))) as target,
        serve(probe.application(probe.Servicer(change=other))) as beside,
        through_a_relay(target) as relay,
        open_channel(f"{relay.address},{beside}", service=probe.SERVICE) as channel,
    ):
        stub = probe.Stub(channel)

        async def change() -> bool:
            """Tell whether a call is answered that nothing tries again."""
            code = await stub.Change(probe.Ask(text="x"), timeout=60).code()
            assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
            return bool(code is grpc.StatusCode.OK)

        while not (hung.count and other.count):
            assert await change()
        relay.stopped.set()
        while await change():
            pass
        # Its connection is gone. It is tried again for longer than it is ejected, and gets no call meanwhile.
        while not relay.connected.empty():
            relay.connected.get_nowait()
        for _ in range(7):
            async with asyncio.timeout(30):
                await relay.connected.get()
            assert all([await change() for _ in range(20)])
        relay.stopped.clear()
        hung.count = 0
        while not hung.count:
            assert await change()
            await asyncio.sleep(0.01)


async def test_a_process_that_is_starved_keeps_its_streams_and_one_that_hangs_loses_them(
    probe: SimpleNamespace, start: Callable[..., Awaitable[Any]]
) -> None:
    starved, hung = [await start(port=0) for _ in range(2)]
    async with AsyncExitStack() as stack:

        async def follow(process: Any, text: str) -> Any:
            port = (await process.event("service_started"))["port"]
            channel = await stack.enter_async_context(
                open_channel(f"127.0.0.1:{port}", service=probe.SERVICE)
            )
            stream = probe.Stub(channel).Follow(probe.Ask(text=text))
            assert (await stream.read()).text == "begun"
            return stream

        starving, hanging = await follow(starved, "starve"), await follow(hung, "hold")
        hung.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(40):
            with pytest.raises(UnavailableError), translated_rpc_errors():
                await hanging.read()
            assert (await starving.read()).text == "starve"


async def test_a_slow_server_that_says_it_is_at_work_is_waited_for(probe: SimpleNamespace) -> None:
    attempts = 0

    async def slow(text: str) -> str:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(3)
        return text

    async def slow_twice(text: str) -> AsyncIterator[str]:
        yield await slow(text)
        yield text

    served = probe.application(probe.Servicer(look=slow, follow=slow_twice))
    async with serve(served) as target, open_channel(target, service=probe.SERVICE) as channel:
        stub = probe.Stub(channel)

        async def followed() -> list[str]:
            return [answer.text async for answer in stub.Follow(probe.Ask(text="y"))]

        looked, told = await asyncio.gather(stub.Look(probe.Ask(text="x")), followed())
    assert (looked.text, told) == ("x", ["y", "y"])
    assert attempts == 2


async def test_the_caller_goes_along_and_is_not_widened_by_hand(reach: Any, probe: SimpleNamespace) -> None:
    seen: list[tuple[str, ...]] = []

    async def look(text: str) -> str:
        seen.append(current_caller().principals)
        return text

    principals = ("user:josé", "group:a,b", "user:alice@example.com")
    async with reach(look=look) as stub:
        with acting_as(Caller(principals)):
            await stub.Look(probe.Ask(), metadata=((PRINCIPALS_KEY, "group:admin"),))
        await stub.Look(probe.Ask())
    assert seen == [principals, ()]


async def test_a_backends_error_is_rebuilt_whole(reach: Any, probe: SimpleNamespace) -> None:
    async def look(text: str) -> str:
        raise InvalidArgumentError([], reason="BAD_FILTER", message="no such key", metadata={"key": "k"})

    async with reach(look=look) as stub:
        with pytest.raises(InvalidArgumentError) as caught, translated_rpc_errors():
            await stub.Look(probe.Ask())
    assert (caught.value.reason, caught.value.message) == ("BAD_FILTER", "no such key")
    assert caught.value.metadata == {"key": "k"}
