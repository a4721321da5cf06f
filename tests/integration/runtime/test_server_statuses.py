"""Statuses on the wire when a handler fails."""

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from groundline_runtime.errors import (
    Code,
    FailedPreconditionError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
)
from groundline_runtime.serving.interceptors import INTERNAL_MESSAGE
from groundline_runtime.status import from_rpc_error
from groundline_tests.runtime import serve

SECRET = "postgresql://user:hunter2@db/groundline"


def failing(error: Exception) -> dict[str, Callable[..., Any]]:
    async def look(text: str) -> str:
        raise error

    async def follow(text: str) -> AsyncIterator[str]:
        if text:
            raise error
        yield text

    return {"look": look, "follow": follow}


async def outcome(stub: Any, probe: SimpleNamespace, method: str) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answers(stub, probe, method, [])
    return caught.value


async def answers(stub: Any, probe: SimpleNamespace, method: str, received: list[str]) -> None:
    if method == "Look":
        received.append((await stub.Look(probe.Ask(text="x"))).text)
    else:
        async for answer in stub.Follow(probe.Ask(text="x")):
            received.append(answer.text)


def details(error: grpc.aio.AioRpcError, kind: type[Any]) -> list[Any]:
    trailers = dict(error.trailing_metadata() or ())
    found = []
    for packed in status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details:
        message = kind()
        if packed.Unpack(message):
            found.append(message)
    return found


@pytest.mark.parametrize("method", ["Look", "Follow"])
async def test_a_domain_error_has_one_error_info(reach: Any, probe: SimpleNamespace, method: str) -> None:
    error = NotFoundError("COLLECTION_NOT_FOUND", "no collection x", metadata={"collection_id": "x"})
    async with reach(**failing(error)) as stub:
        seen = await outcome(stub, probe, method)
    assert (seen.code(), seen.details()) == (grpc.StatusCode.NOT_FOUND, "no collection x")
    [info] = details(seen, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("COLLECTION_NOT_FOUND", "groundline.dev")
    assert dict(info.metadata) == {"collection_id": "x"}


@pytest.mark.parametrize("method", ["Look", "Follow"])
async def test_every_wrong_field_is_named(reach: Any, probe: SimpleNamespace, method: str) -> None:
    violations = [FieldViolation("query", "is empty"), FieldViolation("top_k", "is above 100")]
    async with reach(**failing(InvalidArgumentError(violations))) as stub:
        seen = await outcome(stub, probe, method)
    [bad_request] = details(seen, error_details_pb2.BadRequest)
    assert [(v.field, v.description) for v in bad_request.field_violations] == [
        ("query", "is empty"),
        ("top_k", "is above 100"),
    ]


async def test_a_thousand_wrong_fields_are_invalid_argument(reach: Any, probe: SimpleNamespace) -> None:
    violations = [FieldViolation(f"metadata.key_{n}", "x" * 500) for n in range(1000)]
    async with reach(**failing(InvalidArgumentError(violations))) as stub:
        seen = from_rpc_error(await outcome(stub, probe, "Look"))
    assert seen.code is Code.INVALID_ARGUMENT
    assert seen.violations[-1].description == f"and {1001 - len(seen.violations)} more violations"


@pytest.mark.parametrize("letter", ["x", "ä", "語"])
async def test_a_client_with_grpcs_own_limits_gets_the_status_of_many_wrong_fields(
    probe: SimpleNamespace, letter: str
) -> None:
    violations = [FieldViolation(f"chat_history[{n}].role", letter * 50) for n in range(100)]
    application = probe.application(probe.Servicer(**failing(InvalidArgumentError(violations))))
    async with serve(application) as target, grpc.aio.insecure_channel(target) as channel:
        for _ in range(20):  # above its limit gRPC refuses at random
            seen = await outcome(probe.Stub(channel), probe, "Look")
            assert seen.code() is grpc.StatusCode.INVALID_ARGUMENT
            [bad_request] = details(seen, error_details_pb2.BadRequest)
            assert len(bad_request.field_violations) > 15


async def test_retry_delay_travels(reach: Any, probe: SimpleNamespace) -> None:
    error = ResourceExhaustedError("QUOTA", "too many requests", retry_after_seconds=1.5)
    async with reach(**failing(error)) as stub:
        seen = from_rpc_error(await outcome(stub, probe, "Look"))
    assert isinstance(seen, ResourceExhaustedError)
    assert seen.retry_after_seconds == 1.5


@pytest.mark.parametrize("method", ["Look", "Follow"])
async def test_an_unexpected_error_shows_only_an_id_that_the_log_has(
    reach: Any, probe: SimpleNamespace, method: str
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with reach(**failing(RuntimeError(SECRET))) as stub:
            seen = await outcome(stub, probe, method)
    assert (seen.code(), seen.details()) == (grpc.StatusCode.INTERNAL, INTERNAL_MESSAGE)
    assert "hunter2" not in str(seen) + str(seen.trailing_metadata())
    [logged] = [entry for entry in logs if entry["event"] == "rpc_failed"]
    assert logged["error_id"] == from_rpc_error(seen).error_id
    assert logged["exc_info"]


async def test_an_error_after_the_first_message_ends_the_stream_with_its_status(
    reach: Any, probe: SimpleNamespace
) -> None:
    async def follow(text: str) -> AsyncIterator[str]:
        yield "first"
        raise FailedPreconditionError("MODEL_MISMATCH", "a is not b")

    received: list[str] = []
    async with reach(follow=follow) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answers(stub, probe, "Follow", received)
    assert received == ["first"]
    assert from_rpc_error(caught.value).reason == "MODEL_MISMATCH"


async def test_a_method_not_built_is_unimplemented(reach: Any, probe: SimpleNamespace) -> None:
    async with reach() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Unbuilt(probe.Ask())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert from_rpc_error(caught.value).reason == "NOT_IMPLEMENTED"


async def test_a_handler_that_hits_a_missing_branch_is_internal_not_unimplemented(
    reach: Any, probe: SimpleNamespace
) -> None:
    async with reach(**failing(NotImplementedError("branch"))) as stub:
        assert (await outcome(stub, probe, "Look")).code() is grpc.StatusCode.INTERNAL


async def test_all_four_kinds_of_method_work(reach: Any, probe: SimpleNamespace) -> None:
    def asks() -> Any:
        return iter([probe.Ask(text="a"), probe.Ask(text="b")])

    async with reach() as stub:
        assert (await stub.Look(probe.Ask(text="a"))).text == "a"
        assert [answer.text async for answer in stub.Follow(probe.Ask(text="a"))] == ["a", "a"]
        assert (await stub.Collect(asks())).text == "a b"
        assert [answer.text async for answer in stub.Converse(asks())] == ["a", "b"]


@pytest.mark.parametrize("method", ["Look", "Follow"])
async def test_an_rpc_is_logged_once_without_payload(reach: Any, probe: SimpleNamespace, method: str) -> None:
    with structlog.testing.capture_logs() as logs:
        async with reach(**failing(NotFoundError("NO", "none"))) as stub:
            await outcome(stub, probe, method)
    [line] = [entry for entry in logs if entry["event"] == "rpc_finished"]
    assert line["method"] == f"/{probe.SERVICE}/{method}"
    assert line["code"] == "NOT_FOUND"
    assert set(line) == {"event", "log_level", "method", "code", "duration_ms", "principals"}
