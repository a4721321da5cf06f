"""Server interceptors: tracing, then everything else that each request gets.

The second wraps a handler of any of the four kinds as one coroutine `(request, context) -> response or None`;
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
from functools import cache, partial
from typing import Any, Final

import grpc
import structlog
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry import trace

from groundline_runtime import context as request_context
from groundline_runtime.errors import (
    Code,
    DeadlineExceededError,
    GroundlineError,
    InternalError,
    InvalidArgumentError,
    UnimplementedError,
)
from groundline_runtime.metrics.common import RPC_DURATION, STREAMS_UNDER_WAY
from groundline_runtime.serving.admission import Admission
from groundline_runtime.serving.json_names import as_sent
from groundline_runtime.status import abort
from groundline_runtime.telemetry.recording import is_recording

INTERNAL_MESSAGE: Final = "internal error; its error_id is in the service's log"

# The published types deny that code() and time_remaining() may be None.
type Context = Any
type Behavior = Callable[[Any, Context], Awaitable[Any]]
type Handler = grpc.RpcMethodHandler[Any, Any]
type Validate = Callable[[Any], None]
"""Raises InvalidArgumentError for a request that breaks its contract."""

type Write = Callable[[Any], Awaitable[None]]
type Beating = Callable[[Context], AbstractAsyncContextManager[Write]]

HEARTBEAT_SECONDS: Final = 15.0

_ACKNOWLEDGE_SECONDS: Final = 1.0
"""Time after which a slow request is acknowledged, in seconds; well below the time after which clients take
an attempt for lost."""

_DRY_RUN: Final = (("x-groundline-dry-run", "true"),)
"""Trailing metadata of a dry run, by which the gateway's audit log tells it from a change."""

_INFRASTRUCTURE: Final = ("/grpc.health.", "/grpc.reflection.")

_log = structlog.get_logger(__name__)

_streams: Final[set[object]] = set()
STREAMS_UNDER_WAY.observe(lambda: [(len(_streams), {})])


def server_interceptors(
    default_timeout_seconds: float,
    validate: Validate,
    admission: Admission | None = None,
    *,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> list[grpc.aio.ServerInterceptor]:
    """Return the interceptors of every Groundline server; they leave health and reflection calls alone.

    A request is given to `validate` before its method; a method that gets several validates them itself.
    Requests wait for a place in `admission`; without it every one is worked on at once. If no span is
    recorded, none is made: the requests' context continues the ids of the trace. A request that takes long is
    acknowledged: see _Acknowledgement.
    """
    requests = _Requests(default_timeout_seconds, validate, admission, heartbeat_seconds)
    if not is_recording():
        return [requests]
    from groundline_runtime.telemetry.tracing import ServerTracing

    return [ServerTracing(is_infrastructure), requests]


def is_infrastructure(method: str) -> bool:
    return method.startswith(_INFRASTRUCTURE)


class _Requests(grpc.aio.ServerInterceptor):
    """Interceptor that sets caller and deadline, gives every RPC one log line and one measurement, and turns
    exceptions into statuses; of an unexpected one the client sees only an error_id.

    One interceptor, since gRPC asks each of them at every call.
    """

    def __init__(
        self,
        default_timeout_seconds: float,
        validate: Validate,
        admission: Admission | None,
        heartbeat_seconds: float,
    ) -> None:
        self._default_timeout_seconds = default_timeout_seconds
        self._validate = validate
        self._admission = admission
        self._heartbeat_seconds = heartbeat_seconds
        self._is_recording = is_recording()
        self._wrapped: dict[str, tuple[Handler, Handler]] = {}
        """By method, the handler as it is registered and as it is wrapped: gRPC asks for it at every call."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is not None and known[0] is handler:
            return known[1]
        if handler is None or is_infrastructure(method):
            return handler
        wrapped = _with_behavior(handler, partial(self._answer, method, self._work(method, handler)))
        self._wrapped[method] = (handler, wrapped)
        return wrapped

    def _work(self, method: str, handler: Handler) -> Behavior:
        found = _method(method)
        place = nullcontext if self._admission is None else partial(self._admission.place, method)
        beating: Beating | None = None
        if handler.response_streaming and found is not None:
            nothing = GetMessageClass(found.output_type)()
            beating = partial(_beating, nothing=nothing, seconds=self._heartbeat_seconds)
        fields = {} if found is None or handler.request_streaming else found.input_type.fields_by_name
        answering = _as_answering_coroutine(
            handler, self._validate, place, beating, can_be_dry="dry_run" in fields
        )
        return _counted(answering) if handler.response_streaming else answering

    async def _answer(self, method: str, work: Behavior, request: Any, context: Context) -> Any:
        started = time.monotonic()
        metadata = _metadata(context)
        # Each RPC has a task of its own, so context variables set here need no reset.
        if not self._is_recording:
            request_context.continue_trace(metadata.get("traceparent"))
        remaining = context.time_remaining()
        caller = request_context.Caller()
        outcome: str | None = None
        try:
            caller = request_context.parse_principals(metadata.get(request_context.PRINCIPALS_KEY, ""))
            allowed = self._default_timeout_seconds if remaining is None else remaining
            request_context.begin_request(caller, metadata, started + allowed)
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
        seconds = time.monotonic() - started
        RPC_DURATION.record(
            seconds,
            {
                "rpc.system.name": "grpc",
                "rpc.method": method.lstrip("/"),
                "rpc.response.status_code": code,
            },
        )
        # The gateway logs every request; successes matter here only for debugging.
        log = _log.debug if code == "OK" else _log.info
        log(
            "rpc_finished",
            method=method,
            code=code,
            duration_ms=round(seconds * 1000, 2),
            principals=len(caller.principals),
        )


def _counted(stream: Behavior) -> Behavior:
    """Wrap a stream so that it is among STREAMS_UNDER_WAY until it has ended."""

    async def counted(request: Any, context: Context) -> None:
        key = object()
        _streams.add(key)
        try:
            await stream(request, context)
        finally:
            _streams.discard(key)

    return counted


async def _translated(method: str, work: Behavior, request: Any, context: Context) -> Any:
    """Return the response of `work`, or end the call with the status of its error."""
    try:
        if request is _UNDECODABLE:
            raise _undecodable()
        return await work(request, context)
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
    """Return the metadata of the call by key, several values joined as HTTP joins them."""
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
    validate: Validate,
    place: Callable[[], AbstractAsyncContextManager[object]],
    beating: Beating | None,
    *,
    can_be_dry: bool,
) -> Behavior:
    """Wrap a servicer's own method, which runs while it has a `place`. `beating` returns the writer of a
    stream's responses if the stream has to be kept alive. `can_be_dry`: whether requests have a `dry_run`."""
    behavior = _behavior_of(handler)
    is_stream = handler.request_streaming or handler.response_streaming

    async def answer(request: Any, context: Context) -> Any:
        if is_stream:  # which may ask the database for as long as something moves on it
            request_context.wait_in_stream()
        if can_be_dry and request.dry_run:
            context.set_trailing_metadata(_DRY_RUN)
        transcoded = request_context.is_transcoded()
        # Requests that wait for a place are acknowledged too: a process that hangs could not do so.
        acknowledgement = None if transcoded else _Acknowledgement(context)
        try:
            async with place():
                if handler.request_streaming:
                    outcome = behavior(_decoded(request), context)
                else:
                    validate(request)
                    outcome = behavior(request, context)
                if inspect.isasyncgen(outcome):
                    async with aclosing(outcome) as responses:
                        await _write_all(responses, context, acknowledgement, beating)
                    return None
                return await outcome if inspect.isawaitable(outcome) else outcome
        finally:
            if acknowledgement is not None:
                await acknowledgement.settled()

    return answer


async def _write_all(
    responses: AsyncIterator[Any],
    context: Context,
    acknowledgement: "_Acknowledgement | None",
    beating: Beating | None,
) -> None:
    if acknowledgement is not None:
        async for response in responses:
            await acknowledgement.settled()
            await write_response(context, response)
    elif beating is None:
        async for response in responses:
            await write_response(context, response)
    else:
        async with beating(context) as write:
            async for response in responses:
                await write(response)


class _Acknowledgement:
    """Acknowledgement of a slow request: the headers of its response are sent after a second, ahead of it. By
    this sign of life clients (`open_channel`) tell a server that works from one that hangs.

    Not to the gateway, which after that could not turn an error into an HTTP status.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sending: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_ACKNOWLEDGE_SECONDS, self._send)

    def _send(self) -> None:
        self._sending = asyncio.create_task(self._context.send_initial_metadata(()))

    async def settled(self) -> None:
        """Wait until the response may begin: the headers have been sent, or go with it."""
        self._timer.cancel()
        if self._sending is not None:
            # It fails if the peer is gone, which the call finds out by itself.
            await asyncio.wait((self._sending,))
            if not self._sending.cancelled():
                self._sending.exception()
            self._sending = None


@asynccontextmanager
async def _beating(context: Context, nothing: Any, seconds: float) -> AsyncIterator[Write]:
    """Provide a writer of responses that writes `nothing` after every pause of `seconds`.

    Not before the first response: until then a failure can still become an HTTP status.
    """
    loop = asyncio.get_running_loop()
    writing = asyncio.Lock()
    last: float | None = None

    async def write(response: Any) -> None:
        nonlocal last
        async with writing:
            await write_response(context, response)
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
        # A message written in half could not be read.
        async with writing:
            beats.cancel()
        await asyncio.gather(beats, return_exceptions=True)


@cache
def _method(path: str) -> MethodDescriptor | None:
    """Return the method of a contract by its path; None for an unknown one."""
    try:
        return descriptor_pool.Default().FindMethodByName(path.lstrip("/").replace("/", "."))
    except KeyError:
        return None


async def write_response(context: Context, response: Any) -> None:
    try:
        await context.write(response)
    except grpc.aio.InternalError as error:
        # The transport refuses a message only when the peer is gone; its cancellation is on the way.
        raise asyncio.CancelledError("the peer went away") from error


_UNDECODABLE: Final = object()
"""Marker for a request that cannot be decoded; gRPC itself would answer UNKNOWN."""


def _decoding(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if deserialize is None:
        return None

    def decode(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError:
            return _UNDECODABLE

    return decode


def _undecodable() -> InvalidArgumentError:
    return InvalidArgumentError((), reason="MALFORMED_REQUEST", message="the request is not a valid message")


async def _decoded(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        if request is _UNDECODABLE:
            raise _undecodable()
        yield request


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
