"""The port of the coordinator: what is refused, what fails, and what is cancelled."""

import socket
import uuid
from typing import Any

import grpc
import pytest
from groundline.v1 import coordinator_service_pb2 as pb
from groundline.v1 import coordinator_service_pb2_grpc, error_pb2
from groundline_coordinator.__main__ import wire
from groundline_coordinator.servicer import SERVICE
from groundline_coordinator.settings import CoordinatorSettings
from groundline_runtime.channels import open_channel
from groundline_runtime.errors import UnavailableError, UnimplementedError
from groundline_runtime.status import UnaryCall, from_rpc_error
from groundline_tests.coordinator.wire import Stub, chat, kinds
from groundline_tests.runtime import serve
from grpc_health.v1 import health_pb2, health_pb2_grpc


async def test_a_wrong_request_is_a_status_naming_every_field(coordinator: Stub, backends: Any) -> None:
    events, error = await chat(coordinator, query=" ", chatHistory=[{"content": "x"}])
    assert events == []
    assert error is not None
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [v.field for v in from_rpc_error(error).violations] == ["query", "chat_history[0].role"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"collectionIds": ["nowhere"]}, "COLLECTION_NOT_FOUND"),
        ({"collectionIds": ["staff"]}, "COLLECTION_NOT_FOUND"),
        ({"threadId": str(uuid.uuid4())}, "THREAD_NOT_FOUND"),
    ],
)
async def test_what_is_not_there_is_a_status_before_the_stream(
    coordinator: Stub, backends: Any, fields: dict[str, object], reason: str
) -> None:
    events, error = await chat(coordinator, **fields)
    assert events == []
    assert error is not None
    assert (error.code(), from_rpc_error(error).reason) == (grpc.StatusCode.NOT_FOUND, reason)


@pytest.mark.parametrize("service", ["retriever", "generator"])
async def test_a_failure_after_the_start_is_an_event_and_the_same_status(
    coordinator: Stub, backends: Any, service: str
) -> None:
    backends.error[service] = UnavailableError("PROVIDER_UNAVAILABLE", "down for now")
    events, error = await chat(coordinator)
    assert kinds(events)[0] == "started"
    assert kinds(events)[-1] == "error"
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    last = events[-1].error
    assert (last.code, last.reason, last.message, last.retryable) == (
        14,
        error_pb2.PROVIDER_UNAVAILABLE,
        "down for now",
        True,
    )
    assert error is not None
    assert (error.code(), from_rpc_error(error).reason) == (
        grpc.StatusCode.UNAVAILABLE,
        "PROVIDER_UNAVAILABLE",
    )


async def test_an_option_that_a_service_lacks_is_told(coordinator: Stub, backends: Any) -> None:
    backends.error["retriever"] = UnimplementedError("OPTION_NOT_AVAILABLE", "strategy is not available")
    events, error = await chat(coordinator)
    assert (events[-1].error.code, events[-1].error.retryable) == (12, False)
    assert error is not None
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_an_unexpected_failure_shows_its_id_only(
    coordinator: Stub, backends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret dsn")

    monkeypatch.setattr(UnaryCall, "__call__", breaks)
    events, error = await chat(coordinator)
    assert (events[-1].error.code, events[-1].error.reason) == (13, error_pb2.INTERNAL)
    assert "secret" not in str(events[-1])
    assert error is not None
    assert from_rpc_error(error).error_id == events[-1].error.error_id != ""


async def test_a_services_internal_error_keeps_its_id(coordinator: Stub, backends: Any) -> None:
    backends.error["generator"] = RuntimeError("secret dsn")
    events, error = await chat(coordinator)
    assert error is not None
    assert events[-1].error.error_id == from_rpc_error(error).error_id != ""
    assert "secret" not in str(events[-1])


async def test_a_backend_that_is_gone_fails_within_the_deadline(
    settings: CoordinatorSettings, backends: Any
) -> None:
    # A port that is taken and not listened on.
    nowhere = socket.socket()
    nowhere.bind(("127.0.0.1", 0))
    gone = settings.model_copy(update={"retriever_target": f"127.0.0.1:{nowhere.getsockname()[1]}"})
    async with (
        wire(gone) as application,
        serve(application) as target,
        open_channel(target, service=SERVICE) as channel,
    ):
        stub: Stub = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
        events, error = await chat(stub)
        assert kinds(events)[-1] == "error"
        assert error is not None
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        health = health_pb2_grpc.HealthStub(channel)
        ready = await health.Check(health_pb2.HealthCheckRequest(service=SERVICE))
        assert ready.status == health_pb2.HealthCheckResponse.SERVING
    nowhere.close()


@pytest.mark.parametrize("service", ["rewriting", "retriever", "generator"])
async def test_cancelling_cancels_the_service_at_work(coordinator: Stub, backends: Any, service: str) -> None:
    backends.hang.add(service)
    call = coordinator.Chat(pb.ChatRequest(query="Compare a and b.", collection_ids=["docs"]))
    await call.read()
    await backends.entered[service].wait()
    call.cancel()
    await backends.left[service].wait()
