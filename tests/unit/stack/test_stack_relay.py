"""OTLP over gRPC on its way to a viewer that takes spans over HTTP alone."""

from collections.abc import Iterator

import grpc
import pytest
from groundline_cli.stack.relay import relaying
from groundline_tests.http_server import Answering, listening
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

SPANS = trace_service_pb2.ExportTraceServiceRequest()
SPANS.resource_spans.add().scope_spans.add().spans.add(name="retrieval", trace_id=b"0" * 16)


class Viewer:
    """Record of what the viewer got, and its answer."""

    def __init__(self) -> None:
        self.status = 200
        self.url = ""
        self.got: list[tuple[str, str | None, bytes]] = []


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    viewer = Viewer()

    class Handler(Answering):
        def do_POST(self) -> None:  # noqa: N802
            body = self.rfile.read(int(self.headers["content-length"]))
            viewer.got.append((self.path, self.headers["x-experiment"], body))
            self.answer(viewer.status, b"")

    with listening(Handler) as url:
        viewer.url = f"{url}/v1/traces"
        yield viewer


async def exported(endpoint: str) -> trace_service_pb2.ExportTraceServiceResponse:
    async with grpc.aio.insecure_channel(endpoint.removeprefix("http://")) as channel:
        stub = trace_service_pb2_grpc.TraceServiceStub(channel)  # type: ignore[no-untyped-call]
        response: trace_service_pb2.ExportTraceServiceResponse = await stub.Export(SPANS)
        return response


async def test_spans_that_the_viewer_does_not_take_may_be_sent_again(viewer: Viewer) -> None:
    viewer.status = 500
    async with relaying(viewer.url, {}) as endpoint:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await exported(endpoint)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        viewer.status = 200
        await exported(endpoint)
    assert len(viewer.got) == 2


async def test_a_viewer_that_is_away_is_unavailable() -> None:
    async with relaying("http://127.0.0.1:1/v1/traces", {}) as endpoint:
        with pytest.raises(grpc.aio.AioRpcError, match=r"the viewer of traces.*refused") as refused:
            await exported(endpoint)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_what_is_no_telemetry_is_not_taken(viewer: Viewer) -> None:
    async with (
        relaying(viewer.url, {}) as endpoint,
        grpc.aio.insecure_channel(endpoint.removeprefix("http://")) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/groundline.v1.CoordinatorService/Chat")(b"")  # type: ignore[arg-type]
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_spans_reach_the_viewer_as_they_were_sent(viewer: Viewer) -> None:
    async with relaying(viewer.url, {"x-experiment": "7"}) as endpoint:
        await exported(endpoint)
    [(path, experiment, body)] = viewer.got
    assert (path, experiment) == ("/v1/traces", "7")
    assert trace_service_pb2.ExportTraceServiceRequest.FromString(body) == SPANS


async def test_logs_are_accepted_and_dropped(viewer: Viewer) -> None:
    async with (
        relaying(viewer.url, {}) as endpoint,
        grpc.aio.insecure_channel(endpoint.removeprefix("http://")) as channel,
    ):
        stub = logs_service_pb2_grpc.LogsServiceStub(channel)  # type: ignore[no-untyped-call]
        await stub.Export(logs_service_pb2.ExportLogsServiceRequest())
    assert viewer.got == []
