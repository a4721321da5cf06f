"""Receiver of OTLP over gRPC that hands spans to a viewer, which takes them over HTTP alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import grpc

from groundline_cli.stack.ports import LOOPBACK
from groundline_cli.stack.readiness import post

_POST_SECONDS: Final = 5.0
"""Time that a service's exporter waits, in seconds."""

_SIGNALS: Final = "opentelemetry.proto.collector."
_SPANS: Final = f"/{_SIGNALS}trace.v1.TraceService/Export"

type Export = Callable[[bytes, "grpc.aio.ServicerContext[bytes, bytes]"], Awaitable[bytes]]


@asynccontextmanager
async def relaying(url: str, headers: Mapping[str, str]) -> AsyncIterator[str]:
    """Yield an endpoint for OTLP over gRPC whose spans are posted to `url`; metrics and logs, which the
    viewer does not take, are accepted and dropped.

    Both protocols carry the same message, so its bytes go on as they came.
    """
    headers = {"content-type": "application/x-protobuf", **headers}
    # The viewer writes into SQLite, which has one writer.
    writing = asyncio.Lock()

    async def spans(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        async with writing:
            try:
                await asyncio.to_thread(post, url, request, headers, timeout_seconds=_POST_SECONDS)
            except OSError as error:
                # The exporter tries again for some seconds, in which the viewer may have been started again.
                await context.abort(grpc.StatusCode.UNAVAILABLE, f"the viewer of traces: {error}")
        return b""

    server = grpc.aio.server(handlers=[_Exports(spans)])
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        await server.stop(None)


class _Exports(grpc.GenericRpcHandler):
    """Handler of the exports of all signals."""

    def __init__(self, spans: Export) -> None:
        self._spans = spans

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        if handler_call_details.method == _SPANS:
            return grpc.unary_unary_rpc_method_handler(self._spans)
        if handler_call_details.method.startswith(f"/{_SIGNALS}"):
            return grpc.unary_unary_rpc_method_handler(_dropped)
        return None


async def _dropped(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
    return b""
