"""gRPC through the gateway, on a port of its own: the API's RPCs with the same checks, and reflection."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_database import DescriptorDatabase
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo  # type: ignore[import-untyped]
from groundline.v1 import (
    coordinator_service_pb2,
    coordinator_service_pb2_grpc,
    ingestor_service_pb2,
    ingestor_service_pb2_grpc,
)
from groundline_cli.stack.ports import reserved_port
from groundline_gateway.endpoints import endpoints
from groundline_gateway.own import answering
from groundline_gateway.scopes import REQUIRED, Scope
from groundline_runtime.settings import SettingsError
from groundline_tests.gateway.program import gateway_program
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from grpc_status import rpc_status

ALICE = "alice-key-0123456789"
KEY = (("x-api-key", ALICE),)
SEARCHER = {"key": "a-key-for-searches", "client": "s", "principals": ["user:s"], "scopes": ["search"]}
REFLECTION = [
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")
]

type Metadata = tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def grpc_port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


@pytest.fixture
async def channel(upstream: Any, shared: Any, grpc_port: int) -> AsyncIterator[grpc.aio.Channel]:
    """To the port for gRPC of a gateway that has one."""
    keys = [SEARCHER, {"key": ALICE, "client": "alice", "principals": ["user:alice"]}]
    await shared(grpc_port=grpc_port, api_keys=keys)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        yield channel


async def refusal(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value


def ask(channel: grpc.aio.Channel, path: str, metadata: Metadata = KEY) -> Awaitable[bytes]:
    """Call an RPC of any name with an empty message."""
    raw: Callable[..., Awaitable[bytes]] = channel.stream_unary(path)
    return raw(iter([b""]), metadata=metadata)


def reason(error: grpc.aio.AioRpcError) -> str:
    status = rpc_status.from_call(error)
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "groundline.dev"
    return str(info.reason)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param((), id="no-key"),
        pytest.param((("x-api-key", "wrong-key-0123456789"),), id="wrong-key"),
        pytest.param((("x-groundline-principals", "user:alice"),), id="principals-instead-of-a-key"),
    ],
)
@pytest.mark.parametrize("path", ["/groundline.v1.CoordinatorService/Answer", *REFLECTION])
async def test_nothing_is_answered_without_a_key(
    upstream: Any, channel: grpc.aio.Channel, path: str, metadata: Metadata
) -> None:
    error = await refusal(ask(channel, path, metadata))

    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert reason(error) == "API_KEY_INVALID"
    assert upstream.calls == []


@pytest.mark.parametrize(
    "path",
    [
        # It has no address: for the bridge.
        "/groundline.v1.IngestorService/EmbedTexts",
        "/groundline.v1.RetrieverService/FetchChunks",
        "/groundline.v1.CoordinatorService/",
        "/grpc.health.v1.Health/Check",
        "/api/answer",
        "/healthz",
        "/",
    ],
)
async def test_nothing_else_is_reached_by_a_key(upstream: Any, channel: grpc.aio.Channel, path: str) -> None:
    error = await refusal(ask(channel, path))

    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert reason(error) == "ROUTE_NOT_FOUND"
    assert upstream.calls == []


async def test_a_key_is_for_its_scope_alone(upstream: Any, channel: grpc.aio.Channel) -> None:
    metadata = (("x-api-key", str(SEARCHER["key"])),)
    for endpoint in endpoints():
        upstream.calls.clear()
        if "search" in (REQUIRED[endpoint.name] or Scope):
            await ask(channel, endpoint.rpc, metadata)
            assert [call.method for call in upstream.calls] == [endpoint.name]
        else:
            error = await refusal(ask(channel, endpoint.rpc, metadata))
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED, endpoint.name
            assert all(wanted in str(error.details()) for wanted in REQUIRED[endpoint.name])
            assert upstream.calls == []


async def test_a_service_sees_principals_and_not_the_key(upstream: Any, channel: grpc.aio.Channel) -> None:
    stub = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
    forged = (("x-groundline-principals", "user:root"), ("x-groundline-transcoded", "true"))
    request = coordinator_service_pb2.AnswerRequest(query="x")
    await stub.Answer(request, metadata=(("authorization", f"Bearer {ALICE}"), *forged), timeout=3600)

    (call,) = upstream.calls
    assert call.request == request
    assert call.values("x-groundline-principals") == ["user:alice"]
    assert not call.values("x-groundline-transcoded")
    assert ALICE not in str(call.metadata)
    assert call.remaining_seconds == pytest.approx(120, abs=20)


async def test_events_come_one_by_one_and_a_client_that_goes_ends_the_call(
    upstream: Any, channel: grpc.aio.Channel
) -> None:
    async def chat(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield coordinator_service_pb2.ChatResponse(sequence=1)
        await asyncio.Event().wait()

    upstream.on("Chat", chat)
    stub = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
    stream = stub.Chat(coordinator_service_pb2.ChatRequest(query="x"), metadata=KEY)
    async with asyncio.timeout(10):
        assert await stream.read() == coordinator_service_pb2.ChatResponse(sequence=1)
        stream.cancel()
        (call,) = upstream.calls
        await call.ended.wait()


async def test_an_upload_goes_on_as_it_comes(upstream: Any, channel: grpc.aio.Channel) -> None:
    received: list[int] = []

    async def upload(requests: AsyncIterator[Any], _context: Any) -> Any:
        async for request in requests:
            received.append(len(request.content.data))
        return ingestor_service_pb2.UploadDocumentResponse()

    upstream.on("UploadDocument", upload)
    piece = ingestor_service_pb2.UploadDocumentRequest()
    piece.content.data = b"x" * (256 << 10)
    stub = ingestor_service_pb2_grpc.IngestorServiceStub(channel)
    call = stub.UploadDocument(metadata=KEY)
    async with asyncio.timeout(20):
        await call.write(piece)
        # Before the rest has come.
        await upstream.arrived.get()
        for _ in range(8):
            await call.write(piece)
        await call.done_writing()
        await call

    assert sum(received) == 8 * (256 << 10)


async def test_a_message_over_the_limit_reaches_no_service(upstream: Any, channel: grpc.aio.Channel) -> None:
    stub = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
    request = coordinator_service_pb2.AnswerRequest(query="x" * (65 << 10))
    error = await refusal(stub.Answer(request, metadata=KEY))

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason(error) == "BODY_TOO_LARGE"
    assert upstream.calls == []


async def test_a_client_over_its_rate_is_told_to_wait(upstream: Any, launch: Any, unused: int) -> None:
    limits = {"rate_limit_per_minute": 1, "rate_limit_burst": 100}
    async with (
        launch(grpc_port=unused, **limits) as gateway,
        grpc.aio.insecure_channel(f"127.0.0.1:{unused}") as channel,
    ):
        await gateway.becomes(200)
        for _ in range(100):
            await ask(channel, "/groundline.v1.CoordinatorService/ListThreads")
        error = await refusal(ask(channel, "/groundline.v1.CoordinatorService/ListThreads"))

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reason(error) == "RATE_LIMITED"
    retry = RetryInfo()
    assert rpc_status.from_call(error).details[1].Unpack(retry)
    assert retry.retry_delay.seconds == 60
    assert len(upstream.calls) == 100


async def test_a_service_that_is_down_is_named_and_each_call_is_audited(
    upstream: Any, launch: Any, unused: int, also_unused: int, tmp_path: Path
) -> None:
    log = tmp_path / "audit.log"
    address = f"127.0.0.1:{also_unused}"
    async with (
        launch(grpc_port=unused, coordinator_address=address, audit_log_file=log),
        grpc.aio.insecure_channel(f"127.0.0.1:{unused}") as channel,
    ):
        error = await refusal(ask(channel, "/groundline.v1.CoordinatorService/Answer"))

    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert error.details() == "the coordinator is not available; try again later"
    (entry,) = map(json.loads, log.read_text().splitlines())
    assert (entry["client"], entry["action"]) == ("alice", "Answer")
    assert entry["resource"] == "/groundline.v1.CoordinatorService/Answer"


@pytest.fixture
async def program(
    upstream: Any, unused: int, also_unused: int, tmp_path: Path
) -> AsyncIterator[grpc.aio.Channel]:
    """To the port for gRPC of the gateway as an image runs it, where no keys are to be followed."""
    settings = {
        "GROUNDLINE_GATEWAY_API_KEYS": json.dumps([SEARCHER]),
        "GROUNDLINE_GATEWAY_GRPC_PORT": str(also_unused),
    }
    async with (
        gateway_program(upstream, unused, tmp_path, settings),
        grpc.aio.insecure_channel(f"127.0.0.1:{also_unused}") as channel,
    ):
        async with asyncio.timeout(20):
            await channel.channel_ready()
        yield channel


async def reflect(
    channel: grpc.aio.Channel, path: str, *questions: ServerReflectionRequest
) -> list[ServerReflectionResponse]:
    """Return the answer to each question, asked in one stream."""
    call = channel.stream_stream(
        path,
        request_serializer=ServerReflectionRequest.SerializeToString,
        response_deserializer=ServerReflectionResponse.FromString,
    )(metadata=(("x-api-key", str(SEARCHER["key"])),), timeout=20)
    answers = []
    for question in questions:
        await call.write(question)
        answers.append(await call.read())
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    return answers


async def test_reflection_describes_the_served_rpcs_and_nothing_else(
    program: grpc.aio.Channel,
) -> None:
    for path in REFLECTION:
        services, chat, ingestor, retriever, administration, reranker = await reflect(
            program,
            path,
            ServerReflectionRequest(list_services=""),
            ServerReflectionRequest(file_containing_symbol="groundline.v1.CoordinatorService.Chat"),
            ServerReflectionRequest(file_containing_symbol="groundline.v1.IngestorService"),
            ServerReflectionRequest(file_containing_symbol="groundline.v1.RetrieverService"),
            ServerReflectionRequest(file_containing_symbol="groundline.v1.AdministrationService"),
            ServerReflectionRequest(file_containing_symbol="groundline.v1.RerankerService"),
        )
        listed = [service.name for service in services.list_services_response.service]
        assert listed == [
            "groundline.v1.AdministrationService",
            "groundline.v1.CoordinatorService",
            "groundline.v1.IngestorService",
            "groundline.v1.RetrieverService",
        ]

        files = DescriptorDatabase()
        for answer in (chat, ingestor, retriever, administration):
            for file in answer.file_descriptor_response.file_descriptor_proto:
                files.Add(FileDescriptorProto.FromString(file))
        described = DescriptorPool(files)
        method = described.FindServiceByName("groundline.v1.CoordinatorService").methods_by_name["Chat"]
        assert method.server_streaming
        assert "query" in method.input_type.fields_by_name
        served = {
            f"/{service}/{each.name}"
            for service in listed
            for each in described.FindServiceByName(service).methods
        }
        assert served == {endpoint.rpc for endpoint in endpoints()}

        assert reranker.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


async def test_reflections_that_ask_nothing_hold_no_place_for_long(
    program: grpc.aio.Channel,
) -> None:
    idle: list[Any] = [
        program.stream_stream(REFLECTION[0])(metadata=(("x-api-key", str(SEARCHER["key"])),), timeout=30)
        for _ in range(50)
    ]
    async with asyncio.timeout(25):
        codes = await asyncio.gather(*(stream.code() for stream in idle))
    # Beyond the client's share streams are refused at once; the others end when nothing is asked.
    assert codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) >= 40
    (answer,) = await reflect(program, REFLECTION[0], ServerReflectionRequest(list_services=""))
    assert answer.list_services_response.service


async def test_a_place_where_no_socket_can_be_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="socket"):
        async with answering(tmp_path / ("x" * 200), None, timeout_seconds=1, with_reflection=True):
            pass
