"""Server interceptors: tracing, then everything else that each request gets.

That wraps a handler of any of the four kinds as one coroutine `(request, context) -> response or None`;
streamed responses are written inside it. So unary and streaming share the code, everything happens in the
RPC's own task (context variables stay right), and a handler's generator is closed there when the peer leaves.

A stream that the gateway turns into server-sent events gets an empty message while nothing else comes, which
the gateway sends as a comment: proxies end connections on which nothing moves.
"""

import asyncio
import inspect
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from functools import cache
from typing import Any

import grpc
import structlog
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry import metrics, trace
from opentelemetry.instrumentation.grpc._aio_server import OpenTelemetryAioServerInterceptor

from groundline_runtime import context as request_context
from groundline_runtime.admission import Admission
from groundline_runtime.errors import (
    Code,
    DeadlineExceededError,
    GroundlineError,
    InternalError,
    InvalidArgumentError,
    UnimplementedError,
)
from groundline_runtime.json_names import as_sent
from groundline_runtime.status import abort
from groundline_runtime.telemetry import is_recording

__all__ = ["INTERNAL_MESSAGE", "server_interceptors"]

INTERNAL_MESSAGE = "internal error; its error_id is in the service's log"

# The published types deny that code() and time_remaining() may be None.
type Context = Any
type Behavior = Callable[[Any, Context], Awaitable[Any]]
type Handler = grpc.RpcMethodHandler[Any, Any]
type Write = Callable[[Any], Awaitable[None]]
type Beating = Callable[[Context], AbstractAsyncContextManager[Write]]

HEARTBEAT_SECONDS = 15.0

_ACKNOWLEDGE_SECONDS = 1.0
"""Well below the time after which clients take an attempt for lost."""

_INFRASTRUCTURE = ("/grpc.health.", "/grpc.reflection.")

_log = structlog.get_logger(__name__)


def server_interceptors(
    default_timeout_seconds: float,
    admission: Admission | None = None,
    *,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> list[grpc.aio.ServerInterceptor]:
    """The interceptors of every Groundline server; health and reflection calls pass them untouched.

    Requests wait for a place in `admission`; without it every one is worked on at once.
    Where no span is recorded, none is made: the requests' context carries the ids of the trace on. A
    request that takes long is acknowledged: see _Acknowledgement.
    """
    requests = _Requests(default_timeout_seconds, admission, heartbeat_seconds)
    return [_Tracing(), requests] if is_recording() else [requests]


def is_infrastructure(method: str) -> bool:
    return method.startswith(_INFRASTRUCTURE)


class _Tracing(OpenTelemetryAioServerInterceptor):
    """OpenTelemetry's interceptor, told that streaming handlers are coroutines too (see the module's text).

    Its own streaming wrapper is a generator, which is finalised outside the RPC's task when the peer cancels
    while a message is being written.
    """

    def __init__(self) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            trace.get_tracer("groundline_runtime"),
            filter_=lambda details: not is_infrastructure(details.method),
        )

    def _intercept_aio_server_stream(self, behavior: Behavior, handler_call_details: Any) -> Behavior:
        traced: Behavior = self._intercept_aio_server_unary(behavior, handler_call_details)  # type: ignore[no-untyped-call]
        return traced


class _Requests(grpc.aio.ServerInterceptor):
    """Sets caller and deadline, gives every RPC one log line and one measurement, and turns exceptions into
    statuses; what was not expected shows the client nothing but an error_id.

    One interceptor, since gRPC asks each of them at every call.
    """

    def __init__(
        self, default_timeout_seconds: float, admission: Admission | None, heartbeat_seconds: float
    ) -> None:
        self._default_timeout_seconds = default_timeout_seconds
        self._admission = admission
        self._heartbeat_seconds = heartbeat_seconds
        self._is_recording = is_recording()
        self._duration = metrics.get_meter("groundline_runtime").create_histogram(
            "rpc.server.duration", unit="ms", description="Duration of inbound RPCs"
        )
        self._wrapped: dict[str, tuple[Handler, Handler]] = {}
        """By method, the handler as it is registered and as it is wrapped: gRPC asks for it at every call."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or is_infrastructure(method):
            return handler
        known = self._wrapped.get(method)
        if known is not None and known[0] is handler:
            return known[1]
        work = self._work(method, handler)

        async def behavior(request: Any, context: Context) -> Any:
            metadata = _metadata(context)
            if self._is_recording:
                return await self._answer(method, work, request, context, metadata)
            with request_context.request_trace(metadata.get("traceparent")):
                return await self._answer(method, work, request, context, metadata)

        wrapped = _with_behavior(handler, behavior)
        self._wrapped[method] = (handler, wrapped)
        return wrapped

    def _work(self, method: str, handler: Handler) -> Behavior:
        admission, found = self._admission, _method(method)

        def place() -> AbstractAsyncContextManager[None]:
            return nullcontext() if admission is None else admission.place(method)

        if found is None or not handler.response_streaming:
            return _as_answering_coroutine(handler, place)
        nothing = GetMessageClass(found.output_type)()
        return _as_answering_coroutine(
            handler, place, lambda context: _beating(context, nothing, self._heartbeat_seconds)
        )

    async def _answer(
        self, method: str, work: Behavior, request: Any, context: Context, metadata: Mapping[str, str]
    ) -> Any:
        started = time.monotonic()
        remaining = context.time_remaining()
        caller = request_context.Caller()
        outcome: str | None = None
        try:
            caller = request_context.parse_principals(metadata.get(request_context.PRINCIPALS_KEY, ""))
            with (
                request_context.acting_as(caller),
                request_context.arrived(
                    transcoded=request_context.TRANSCODED_KEY in metadata,
                    of_begun=request_context.BEGUN_KEY in metadata,
                    after=metadata.get(request_context.LAST_EVENT_ID_KEY, ""),
                ),
                request_context.deadline_at(
                    started + (self._default_timeout_seconds if remaining is None else remaining)
                ),
            ):
                if remaining is not None:  # gRPC itself cancels the handler at the caller's deadline
                    return await _translated(method, work, request, context)
                async with asyncio.timeout(self._default_timeout_seconds):
                    return await _translated(method, work, request, context)
        except grpc.aio.AbortError:
            # gRPC raises it again by itself; here it would only put a second exception into the span.
            return None
        except GroundlineError as error:
            return await _abort_quietly(context, error)
        except TimeoutError:
            message = f"not finished within {self._default_timeout_seconds:g} s"
            return await _abort_quietly(context, DeadlineExceededError("DEADLINE_EXCEEDED", message))
        except asyncio.CancelledError:
            late = remaining is not None and time.monotonic() - started >= remaining
            code = Code.DEADLINE_EXCEEDED if late else Code.CANCELLED
            outcome = code.name
            trace.get_current_span().set_attribute("rpc.grpc.status_code", code.value)
            raise
        finally:
            status = context.code()
            self._report(method, outcome or (status.name if status else "OK"), started, caller)

    def _report(self, method: str, code: str, started: float, caller: request_context.Caller) -> None:
        duration_ms = (time.monotonic() - started) * 1000
        if self._is_recording:
            service, _, name = method.lstrip("/").partition("/")
            self._duration.record(
                duration_ms,
                {
                    "rpc.system": "grpc",
                    "rpc.service": service,
                    "rpc.method": name,
                    "rpc.grpc.status_code": grpc.StatusCode[code].value[0],
                },
            )
        # The gateway logs every request; here what went well is of interest to whoever looks for something.
        log = _log.debug if code == "OK" else _log.info
        log(
            "rpc_finished",
            method=method,
            code=code,
            duration_ms=round(duration_ms, 2),
            principals=len(caller.principals),
        )


async def _translated(method: str, work: Behavior, request: Any, context: Context) -> Any:
    """What `work` returns; what it raises becomes a status."""
    try:
        if isinstance(request, AsyncIterator):
            return await work(_decoded_requests(request), context)
        return await work(_decoded_request(request), context)
    except grpc.aio.AbortError:
        raise
    except GroundlineError as error:
        found = _method(method)
        await abort(context, error if found is None else as_sent(error, found.input_type))
    except Exception as error:
        if isinstance(error, NotImplementedError) and context.code() is grpc.StatusCode.UNIMPLEMENTED:
            # A method that the generated base class answers.
            await abort(context, UnimplementedError("NOT_IMPLEMENTED", f"{method} is not implemented"))
        error_id = str(uuid.uuid4())
        span = trace.get_current_span()
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_attribute("groundline.error_id", error_id)
        _log.exception("rpc_failed", method=method, error_id=error_id)
        await abort(context, InternalError("INTERNAL", INTERNAL_MESSAGE, metadata={"error_id": error_id}))


async def _abort_quietly(context: Context, error: GroundlineError) -> None:
    try:
        await abort(context, error)
    except grpc.aio.AbortError:
        return


def _metadata(context: Context) -> Mapping[str, str]:
    """What came with the call by key, several values joined as HTTP joins them."""
    found: dict[str, str] = {}
    for key, value in context.invocation_metadata() or ():
        found[key] = f"{found[key]},{value}" if key in found else str(value)
    return found


def _behavior_of(handler: Handler) -> Callable[..., Any]:
    behavior = handler.stream_stream or handler.stream_unary or handler.unary_stream or handler.unary_unary
    assert behavior is not None, "a handler has one behavior"
    return behavior


def _as_answering_coroutine(
    handler: Handler,
    place: Callable[[], AbstractAsyncContextManager[None]],
    beating: Beating | None = None,
) -> Behavior:
    """Of a servicer's own method, which runs while it has a `place`. `beating` gives what writes the
    responses of a stream where it has to be kept alive."""
    behavior = _behavior_of(handler)

    async def transcoded(request: Any, context: Context) -> Any:
        async with place():
            outcome = behavior(request, context)
            if inspect.isasyncgen(outcome):
                async with aclosing(outcome) as responses:
                    if beating is None:
                        async for response in responses:
                            await _write(context, response)
                    else:
                        async with beating(context) as write:
                            async for response in responses:
                                await write(response)
                return None
            return await outcome if inspect.isawaitable(outcome) else outcome

    async def acknowledged(request: Any, context: Context) -> Any:
        acknowledgement = _Acknowledgement(context)
        try:
            # Who waits for a place is told so too: what hangs could not.
            async with place():
                outcome = behavior(request, context)
                if inspect.isasyncgen(outcome):
                    async with aclosing(outcome) as responses:
                        async for response in responses:
                            await acknowledgement.settled()
                            await _write(context, response)
                    return None
                return await outcome if inspect.isawaitable(outcome) else outcome
        finally:
            await acknowledgement.settled()

    async def call(request: Any, context: Context) -> Any:
        return await (transcoded if request_context.is_transcoded() else acknowledged)(request, context)

    return call


class _Acknowledgement:
    """Sends the headers of a response that takes longer than a second ahead of it. By this sign of life
    clients (`open_channel`) tell a server that works from one that hangs.

    Not to the gateway, which could tell no error as an HTTP status after that.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sending: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_ACKNOWLEDGE_SECONDS, self._send)

    def _send(self) -> None:
        self._sending = asyncio.create_task(self._context.send_initial_metadata(()))

    async def settled(self) -> None:
        """The response may begin: the headers have been sent, or go with it."""
        self._timer.cancel()
        if self._sending is not None:
            # It fails where the peer is gone, which the call finds out by itself.
            await asyncio.wait((self._sending,))
            if not self._sending.cancelled():
                self._sending.exception()
            self._sending = None


@asynccontextmanager
async def _beating(context: Context, nothing: Any, seconds: float) -> AsyncIterator[Write]:
    """What writes responses; `nothing` is written whenever none has been for so many seconds.

    Not before the first one: until then a failure can still become an HTTP status.
    """
    loop = asyncio.get_running_loop()
    writing = asyncio.Lock()
    last: float | None = None

    async def write(response: Any) -> None:
        nonlocal last
        async with writing:
            await _write(context, response)
            last = loop.time()

    async def beat() -> None:
        while True:
            quiet = 0.0 if last is None else loop.time() - last
            if quiet >= seconds:
                await write(nothing)
            else:
                await asyncio.sleep(seconds - quiet)

    beats = asyncio.create_task(beat(), name="heartbeat")
    try:
        yield write
    finally:
        # A message that is half written would be one that nobody can read.
        async with writing:
            beats.cancel()
        await asyncio.gather(beats, return_exceptions=True)


@cache
def _method(path: str) -> MethodDescriptor | None:
    """The method of a contract by its path; None where it is of none that is known here."""
    try:
        return descriptor_pool.Default().FindMethodByName(path.lstrip("/").replace("/", "."))
    except KeyError:
        return None


async def _write(context: Context, response: Any) -> None:
    try:
        await context.write(response)
    except grpc.aio.InternalError as error:
        # The transport refuses a message only when the peer is gone; its cancellation is on the way.
        raise asyncio.CancelledError("the peer went away") from error


_UNDECODABLE = object()
"""Stands for a request that is no message of its type; gRPC itself would answer UNKNOWN."""


def _decoding(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if deserialize is None:
        return None

    def decode(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError:
            return _UNDECODABLE

    return decode


def _decoded_request(request: Any) -> Any:
    if request is _UNDECODABLE:
        raise InvalidArgumentError(
            (), reason="MALFORMED_REQUEST", message="the request is no message of its type"
        )
    return request


async def _decoded_requests(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _decoded_request(request)


def _with_behavior(handler: Handler, behavior: Behavior) -> Handler:
    factory: Callable[..., Handler] = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return factory(
        behavior,
        request_deserializer=_decoding(handler.request_deserializer),
        response_serializer=handler.response_serializer,
    )
