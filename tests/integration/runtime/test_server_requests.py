"""Context of a handler's request, and requests that end early."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import structlog
from groundline_runtime.channels import cancelled_on_exit
from groundline_runtime.context import (
    PRINCIPALS_KEY,
    current_caller,
    current_trace_id,
    deadline_within,
    remaining_seconds,
)
from groundline_runtime.errors import FieldViolation, InvalidArgumentError
from groundline_runtime.settings import ServiceSettings
from groundline_runtime.status import from_rpc_error
from groundline_tests.runtime import serve


def limited_to(seconds: float) -> ServiceSettings:
    return ServiceSettings.model_construct(default_timeout_seconds=seconds)


class Hanging:
    """A handler that waits for ever, and says when it began and when it was ended."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, text: str) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return text


def noting[Seen](look_at: Callable[[], Seen]) -> tuple[list[Seen], Callable[[str], Awaitable[str]]]:
    """Return a handler that notes what it sees of its request, and what it has seen."""
    seen: list[Seen] = []

    async def look(text: str) -> str:
        seen.append(look_at())
        return text

    return seen, look


async def raw_look(probe: SimpleNamespace, target: str, metadata: Any, seconds: float | None = None) -> Any:
    """Call without the suite's own client interceptors, as a stranger would."""
    async with grpc.aio.insecure_channel(target) as channel:
        return await probe.Stub(channel).Look(probe.Ask(text="x"), metadata=metadata, timeout=seconds)


@pytest.mark.parametrize(
    "value",
    ["user:alice,,group:staff", "user:al%20ice", "user:a%00", ",".join(["u:x"] * 101), "u" * 9000],
    ids=["empty entry", "space", "control character", "101 principals", "over 8 KiB"],
)
async def test_malformed_principals_are_invalid_argument(probe: SimpleNamespace, value: str) -> None:
    async with serve(probe.application(probe.Servicer())) as target:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw_look(probe, target, ((PRINCIPALS_KEY, value),))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    error = from_rpc_error(caught.value)
    assert error.reason == "INVALID_PRINCIPALS"
    assert error.violations[0].field == PRINCIPALS_KEY


async def test_a_request_that_is_no_message_of_its_type_is_invalid_argument(probe: SimpleNamespace) -> None:
    async with (
        serve(probe.application(probe.Servicer())) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        look: Any = channel.unary_unary(f"/{probe.SERVICE}/Look")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await look(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert from_rpc_error(caught.value).reason == "MALFORMED_REQUEST"


@pytest.mark.parametrize("method", ["Look", "Follow"])
async def test_a_request_that_breaks_its_contract_does_not_reach_its_method(
    probe: SimpleNamespace, method: str
) -> None:
    def refuse(request: Any) -> None:
        raise InvalidArgumentError([FieldViolation("text", f"not {request.text}")])

    servicer = probe.Servicer(**dict.fromkeys(("look", "follow"), Hanging()))
    async with (
        serve(replace(probe.application(servicer), validate=refuse)) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        call = getattr(probe.Stub(channel), method)(probe.Ask(text="x"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await (call if method == "Look" else _collect(call, []))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert from_rpc_error(caught.value).violations == (FieldViolation("text", "not x"),)


async def test_a_handler_that_outlives_the_default_deadline_is_ended(probe: SimpleNamespace) -> None:
    hanging = Hanging()
    async with serve(probe.application(probe.Servicer(look=hanging)), limited_to(0.05)) as target:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw_look(probe, target, ())
        await hanging.ended.wait()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert from_rpc_error(caught.value).reason == "DEADLINE_EXCEEDED"


async def test_the_default_deadline_ends_a_stream_too(probe: SimpleNamespace) -> None:
    async def follow(text: str) -> AsyncIterator[str]:
        yield "first"
        await asyncio.Event().wait()

    received: list[str] = []
    async with (
        serve(probe.application(probe.Servicer(follow=follow)), limited_to(0.1)) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _collect(probe.Stub(channel).Follow(probe.Ask()), received)
    assert received == ["first"]
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_without_a_caller_deadline_the_default_is_what_remains(probe: SimpleNamespace) -> None:
    seen, look = noting(remaining_seconds)
    async with serve(probe.application(probe.Servicer(look=look)), limited_to(500)) as target:
        await raw_look(probe, target, ())
        await raw_look(probe, target, (), seconds=1000)
    assert seen[0] is not None
    assert 400 < seen[0] <= 500
    # The wire rounds a timeout up to about three digits.
    assert seen[1] is not None
    assert 900 < seen[1] <= 1020


async def test_the_callers_deadline_cancels_the_handler_and_is_logged_as_such(
    reach: Any, probe: SimpleNamespace
) -> None:
    hanging = Hanging()
    with structlog.testing.capture_logs() as logs:
        async with reach(look=hanging) as stub:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Look(probe.Ask(), timeout=0.1)
            await hanging.ended.wait()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert [entry["code"] for entry in logs if entry["event"] == "rpc_finished"] == ["DEADLINE_EXCEEDED"]


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_nothing_is_unpacked(probe: SimpleNamespace, compression: grpc.Compression) -> None:
    """The gateway's limits count what arrives; it could unpack to a thousand times that."""
    seen: list[str] = []

    async def look(text: str) -> str:
        seen.append(text)
        return text

    async with (
        serve(probe.application(probe.Servicer(look=look))) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await probe.Stub(channel).Look(probe.Ask(text="x" * (8 << 20)), compression=compression)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert seen == []


async def test_a_cancelled_call_cancels_its_handler(reach: Any, probe: SimpleNamespace) -> None:
    hanging = Hanging()
    async with reach(look=hanging) as stub:
        waiting = asyncio.ensure_future(_await(stub.Look(probe.Ask())))
        await hanging.begun.wait()
        waiting.cancel()
        async with asyncio.timeout(10):
            await hanging.ended.wait()


async def test_leaving_a_stream_closes_the_handlers_generator(reach: Any, probe: SimpleNamespace) -> None:
    ended = asyncio.Event()

    async def follow(text: str) -> AsyncIterator[str]:
        try:
            while True:
                yield "x" * 10_000  # soon waits for the peer to read
        finally:
            ended.set()

    async with reach(follow=follow) as stub:
        async with cancelled_on_exit(stub.Follow(probe.Ask())) as answers:
            assert (await anext(aiter(answers))).text
        async with asyncio.timeout(10):
            await ended.wait()


@pytest.mark.parametrize("method", ["Look", "Follow"])
async def test_cancellation_travels_over_two_hops(reach: Any, probe: SimpleNamespace, method: str) -> None:
    hanging = Hanging()

    async def follow(text: str) -> AsyncIterator[str]:
        yield "first"
        await hanging(text)

    async with reach(look=hanging, follow=follow) as backend:

        async def forward_look(text: str) -> str:
            return str((await backend.Look(probe.Ask())).text)

        async def forward_follow(text: str) -> AsyncIterator[str]:
            async with cancelled_on_exit(backend.Follow(probe.Ask())) as answers:
                async for answer in answers:
                    yield answer.text

        async with reach(look=forward_look, follow=forward_follow) as front:
            call = front.Look(probe.Ask()) if method == "Look" else _collect(front.Follow(probe.Ask()), [])
            waiting = asyncio.ensure_future(_await(call))
            await hanging.begun.wait()
            waiting.cancel()
            async with asyncio.timeout(10):
                await hanging.ended.wait()


async def test_context_is_right_in_a_stream_and_its_tasks(reach: Any, probe: SimpleNamespace) -> None:
    seen: list[tuple[tuple[str, ...], bool]] = []

    async def note() -> None:
        seen.append((current_caller().principals, remaining_seconds() is not None))

    async def follow(text: str) -> AsyncIterator[str]:
        await note()
        yield text
        async with asyncio.TaskGroup() as group:
            group.create_task(note())
        yield text

    async with (
        serve(probe.application(probe.Servicer(follow=follow))) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        call = probe.Stub(channel).Follow(
            probe.Ask(text="x"), metadata=((PRINCIPALS_KEY, "user:alice,group:staff"),)
        )
        assert [answer.text async for answer in call] == ["x", "x"]
    assert seen == [(("user:alice", "group:staff"), True)] * 2
    assert current_caller().principals == ()


async def test_a_narrower_deadline_reaches_the_next_service_and_its_end_is_an_error(
    reach: Any, probe: SimpleNamespace
) -> None:
    seen, backend_look = noting(remaining_seconds)
    async with reach(look=backend_look) as backend:

        async def look(text: str) -> str:
            async with deadline_within(5):
                await backend.Look(probe.Ask(), timeout=100)
            async with deadline_within(0.01):
                await asyncio.Event().wait()
            return text

        async with reach(look=look) as front:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await front.Look(probe.Ask(), timeout=50)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert seen[0] is not None
    assert seen[0] < 6


async def test_a_trace_id_from_outside_is_the_requests_trace_id(probe: SimpleNamespace) -> None:
    seen, look = noting(current_trace_id)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    async with serve(probe.application(probe.Servicer(look=look))) as target:
        await raw_look(probe, target, (("traceparent", f"00-{trace_id}-b7ad6b7169203331-01"),))
    assert seen == [trace_id]


async def _await(awaitable: Any) -> Any:
    return await awaitable


async def _collect(call: Any, received: list[str]) -> None:
    async with cancelled_on_exit(call) as answers:
        async for answer in answers:
            received.append(answer.text)
