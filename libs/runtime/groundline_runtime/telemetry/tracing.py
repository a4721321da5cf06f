"""OpenTelemetry's interceptors for gRPC, corrected where they leave spans open.

Imported only in a process that records spans: the instrumentation takes 4 MB of memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from opentelemetry import trace
from opentelemetry.instrumentation.grpc._aio_client import (
    StreamStreamAioClientInterceptor,
    StreamUnaryAioClientInterceptor,
    UnaryStreamAioClientInterceptor,
    UnaryUnaryAioClientInterceptor,
)
from opentelemetry.instrumentation.grpc._aio_server import OpenTelemetryAioServerInterceptor


def client_interceptors() -> list[grpc.aio.ClientInterceptor]:
    """Return the interceptors that give every outbound call a span."""
    tracer = trace.get_tracer("groundline_runtime")
    return [
        _TracedUnaryUnary(tracer),  # type: ignore[no-untyped-call]
        _TracedUnaryStream(tracer),  # type: ignore[no-untyped-call]
        _TracedStreamUnary(tracer),  # type: ignore[no-untyped-call]
        _TracedStreamStream(tracer),  # type: ignore[no-untyped-call]
    ]


class ServerTracing(OpenTelemetryAioServerInterceptor):
    """OpenTelemetry's interceptor, told that streaming handlers are coroutines too (see interceptors).

    Its own streaming wrapper is a generator, which is finalised outside the RPC's task when the peer cancels
    while a message is being written.
    """

    def __init__(self, is_passed_over: Callable[[str], bool]) -> None:
        """Trace every method except those that `is_passed_over` names."""
        super().__init__(  # type: ignore[no-untyped-call]
            trace.get_tracer("groundline_runtime"),
            filter_=lambda details: not is_passed_over(details.method),
        )

    def _intercept_aio_server_stream(self, behavior: Any, handler_call_details: Any) -> Any:
        return self._intercept_aio_server_unary(behavior, handler_call_details)  # type: ignore[no-untyped-call]


class _CancellationMixin:
    """Ends a unary call and its span when the caller is cancelled.

    OpenTelemetry's interceptors wait for the call's status themselves; left alone, a cancellation in that
    time would leave the call running on the wire and its span open for ever.
    """

    async def _wrap_unary_response(self, continuation: Callable[[], Any], span: trace.Span) -> Any:
        started: list[grpc.aio.Call] = []

        async def remembered() -> Any:
            started.append(await continuation())
            return started[0]

        try:
            return await super()._wrap_unary_response(remembered, span)  # type: ignore[misc]
        except asyncio.CancelledError:
            for call in started:
                call.cancel()
            span.set_attribute("rpc.grpc.status_code", grpc.StatusCode.CANCELLED.value[0])
            span.end()
            raise


class _TracedUnaryUnary(_CancellationMixin, UnaryUnaryAioClientInterceptor):
    pass


class _TracedStreamUnary(_CancellationMixin, StreamUnaryAioClientInterceptor):
    pass


class _TracedUnaryStream(UnaryStreamAioClientInterceptor):
    """Ends the span of a stream with its call.

    OpenTelemetry's own ends it with a generator around the responses, which stays open until the garbage
    collector finds it when the caller stops reading.
    """

    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        if self.tracing_skipped(client_call_details):  # type: ignore[no-untyped-call]
            return await continuation(client_call_details, request)
        with self._start_interceptor_span(client_call_details.method) as span:  # type: ignore[no-untyped-call]
            details = self.propagate_trace_in_details(client_call_details)
            call = await continuation(details, request)
        ending = asyncio.create_task(_end_with(call, span))
        # A task that nobody holds may be collected before it has run.
        call.add_done_callback(lambda _: ending)
        return call


class _TracedStreamStream(StreamStreamAioClientInterceptor):
    """Ends the span of a stream with its call, as above, and the task that reads its requests.

    With an interceptor, gRPC reads what the caller writes in a task of its own, and leaves it waiting for
    more when the peer ends the call.
    """

    async def intercept_stream_stream(
        self, continuation: Any, client_call_details: Any, request_iterator: Any
    ) -> Any:
        if self.tracing_skipped(client_call_details):  # type: ignore[no-untyped-call]
            return await continuation(client_call_details, request_iterator)
        readers: list[asyncio.Task[Any] | None] = []

        async def remembered() -> AsyncIterator[Any]:
            readers.append(asyncio.current_task())
            async for request in request_iterator:
                yield request

        with self._start_interceptor_span(client_call_details.method) as span:  # type: ignore[no-untyped-call]
            details = self.propagate_trace_in_details(client_call_details)
            call = await continuation(details, remembered())
        ending = asyncio.create_task(_end_with(call, span, readers))
        # A task that nobody holds may be collected before it has run.
        call.add_done_callback(lambda _: ending)
        return call


async def _end_with(
    call: grpc.aio.Call, span: trace.Span, tasks: Sequence[asyncio.Task[Any] | None] = ()
) -> None:
    try:
        code = await call.code()
        span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code not in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
            span.set_status(trace.StatusCode.ERROR, await call.details())
    finally:
        span.end()
        for task in tasks:
            if task is not None:
                task.cancel()
