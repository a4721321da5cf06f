"""Context of the current request: its caller, its deadline, its trace. Held in context variables, so that
tasks started inside a request see it too."""

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

from opentelemetry import context as otel_context
from opentelemetry import trace

from groundline_runtime.errors import DeadlineExceededError, FieldViolation, InvalidArgumentError

PRINCIPALS_KEY: Final = "x-groundline-principals"
TRANSCODED_KEY: Final = "x-groundline-transcoded"
"""Metadata key that the gateway sets on requests that came to it as HTTP."""
BEGUN_KEY: Final = "x-groundline-begun"
"""Metadata key that a service sets on its calls for a chat whose client has seen the beginning. The gateway
lets no header of this name in."""
LAST_EVENT_ID_KEY: Final = "last-event-id"
"""HTTP's header of that name: the stream continues after this event."""
MAX_PRINCIPALS: Final = 100
MAX_PRINCIPALS_BYTES: Final = 8 * 1024


@dataclass(frozen=True, slots=True)
class Caller:
    """Client of a request: principals such as `user:alice` or `group:staff`; without any, it reaches only
    what is unrestricted."""

    principals: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        """The first principal, who owns what the caller creates; "" if it has none."""
        return self.principals[0] if self.principals else ""

    def own_request_id(self, request_id: str) -> str:
        """Return a request id as it is stored: another caller's same id is another. "" stays, for none."""
        return f"{self.owner}\n{request_id}" if request_id else ""


class Place(Protocol):
    """Right of a request to be worked on by its server (groundline_runtime.serving.admission)."""

    def give_back(self, *, is_done: bool = True) -> None:
        """Free the place; a second call does nothing. `is_done`: whether the work was done."""


class Waits:
    """Time that a request has waited for the database; a context manager around each of its waits.

    Waits at the same time count once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended_seconds = 0.0
        self._under_way = 0
        self._since = 0.0

    @property
    def seconds(self) -> float:
        """Sum so far, in seconds."""
        return self._ended_seconds + (self._clock() - self._since if self._under_way else 0.0)

    def __enter__(self) -> None:
        if not self._under_way:
            self._since = self._clock()
        self._under_way += 1

    def __exit__(self, *_: object) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._ended_seconds += self._clock() - self._since


# Of version 00, with which later versions begin; ids of zeros are invalid.
_TRACEPARENT: Final = re.compile(
    r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_random = random.Random()  # noqa: S311 (ids of traces are no secrets)

_NOBODY: Final = Caller()
_caller: ContextVar[Caller] = ContextVar("groundline_caller", default=_NOBODY)
_is_transcoded: ContextVar[bool] = ContextVar("groundline_is_transcoded", default=False)
_has_begun: ContextVar[bool] = ContextVar("groundline_has_begun", default=False)
HELD_PLACE: Final[ContextVar[Place | None]] = ContextVar("groundline_place", default=None)
"""The place that the current request holds."""
_last_event_id: ContextVar[str] = ContextVar("groundline_last_event_id", default="")
_waits: ContextVar[Waits | None] = ContextVar("groundline_waits", default=None)
# Instant of time.monotonic().
_deadline: ContextVar[float | None] = ContextVar("groundline_deadline", default=None)


def current_caller() -> Caller:
    """Return the caller of the current request; outside a request, one without principals."""
    return _caller.get()


def is_transcoded() -> bool:
    """Tell whether the current request came through the gateway, as JSON."""
    return _is_transcoded.get()


def has_begun() -> bool:
    """Tell whether the current request belongs to a chat that has begun."""
    return _has_begun.get()


class _Bound(AbstractContextManager[None]):
    """Values of variables for a block. A class, since a request has several of them and a generator takes
    three times as long."""

    __slots__ = ("_tokens", "_values")

    def __init__(self, *values: tuple[ContextVar[Any], object]) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._tokens = [variable.set(value) for variable, value in self._values]

    def __exit__(self, *_: object) -> None:
        for (variable, _value), token in zip(self._values, self._tokens, strict=True):
            variable.reset(token)


def begun() -> AbstractContextManager[None]:
    """Mark a chat as begun: the calls of the block come before new requests wherever they queue."""
    return _Bound((_has_begun, True))


def give_place_back() -> None:
    """Let another request be worked on, because the current one only waits from here on: for a model, a
    client or an event. Does nothing outside a request."""
    place = HELD_PLACE.get()
    if place is not None:
        place.give_back()


def wait_in_stream() -> None:
    """Bound each wait of the current task for the database by itself, from here on."""
    _waits.set(None)


def counting(waits: Waits) -> AbstractContextManager[None]:
    """Bound all that the block waits for the database together, by counting it in `waits`."""
    return _Bound((_waits, waits))


def current_waits() -> Waits | None:
    """Return what the current request has waited for the database; None in a stream and outside requests."""
    return _waits.get()


def last_event_id() -> str:
    """Return the id of the event after which this request's stream continues; "" for the start."""
    return _last_event_id.get()


def begin_request(caller: Caller, metadata: Mapping[str, str], deadline: float) -> None:
    """Set the context of a request until the end of the current task: its caller, its deadline, how it came,
    whether it belongs to a chat that has begun, and after which event its stream continues. All that it waits
    for the database is bounded together."""
    _waits.set(Waits())
    _caller.set(caller)
    _deadline.set(deadline)
    _is_transcoded.set(TRANSCODED_KEY in metadata)
    _has_begun.set(BEGUN_KEY in metadata)
    _last_event_id.set(metadata.get(LAST_EVENT_ID_KEY, ""))


def remaining_seconds() -> float | None:
    """Return the seconds until the current request's deadline, never negative; None outside a request."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def current_trace_id() -> str | None:
    """Return the W3C trace id of the current request (32 hex digits), or None outside a trace."""
    span = trace.get_current_span().get_span_context()
    return trace.format_trace_id(span.trace_id) if span.is_valid else None


@contextmanager
def request_trace(traceparent: str | None) -> Iterator[None]:
    """Continue a trace for a block; see `continue_trace`."""
    token = continue_trace(traceparent)
    try:
        yield
    finally:
        otel_context.detach(token)


def continue_trace(traceparent: str | None) -> "Token[otel_context.Context]":
    """Continue the trace that a W3C `traceparent` names, or begin one, without making spans.

    For processes that record nothing: ids still connect logs and the services called.
    """
    parent = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    span = trace.SpanContext(
        trace_id=int(parent[1], 16) if parent else _random.getrandbits(128),
        span_id=_random.getrandbits(64),
        is_remote=False,
        trace_flags=trace.TraceFlags(int(parent[3], 16) if parent else 0),
    )
    return otel_context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span)))


def _remote_parent(traceparent: str | None) -> trace.SpanContext | None:
    """Return the span that a W3C `traceparent` names; None if it names none."""
    parent = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    if parent is None:
        return None
    return trace.SpanContext(
        int(parent[1], 16),
        int(parent[2], 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(parent[3], 16)),
    )


@contextmanager
def queued_work(
    tracer: trace.Tracer, name: str, traceparents: Iterable[str], **attributes: int
) -> Iterator[None]:
    """Record a span around work that requests have queued: part of the first one's trace, with links to the
    others'. A failure's own text stays out of it."""
    requests = [parent for each in dict.fromkeys(traceparents) if (parent := _remote_parent(each))]
    context = otel_context.Context()
    if requests:
        context = trace.set_span_in_context(trace.NonRecordingSpan(requests[0]), context)
    with tracer.start_as_current_span(
        name,
        context=context,
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        links=[trace.Link(one) for one in requests[1:]],
        record_exception=False,
        set_status_on_exception=False,
    ):
        yield


def span(tracer: trace.Tracer, name: str, **options: Any) -> AbstractContextManager[trace.Span | None]:
    """Return a span around a part of the current request, made only if the request's own is recorded;
    `options` are those of start_as_current_span."""
    if trace.get_current_span().is_recording():
        return tracer.start_as_current_span(name, **options)
    return nullcontext()


def current_traceparent() -> str | None:
    """Return the W3C header for services that are called within the current trace; None outside a trace."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def acting_as(caller: Caller) -> AbstractContextManager[None]:
    """Make `caller` the current caller, for work that no request started (a job run later for its owner)."""
    return _Bound((_caller, caller))


def deadline_at(instant: float) -> AbstractContextManager[None]:
    """Set the request's deadline, a time.monotonic() instant, without enforcing it."""
    return _Bound((_deadline, instant))


@asynccontextmanager
async def deadline_within(seconds: float) -> AsyncIterator[None]:
    """Give the block at most `seconds`, and never more than the request has left.

    Calls made inside inherit the narrower deadline. Raises DeadlineExceededError when the time is over.
    """
    left = remaining_seconds()
    allowed = seconds if left is None else min(seconds, left)
    scope = asyncio.timeout(allowed)
    try:
        with deadline_at(time.monotonic() + allowed):
            async with scope:
                yield
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise DeadlineExceededError("DEADLINE_EXCEEDED", f"not finished within {allowed:.3g} s") from error


@lru_cache(maxsize=1000)
def format_principals(caller: Caller) -> str:
    """Format the metadata value for a caller; percent-encoded, because metadata is ASCII and the comma
    separates."""
    return ",".join(quote(principal, safe=":@._-+/") for principal in caller.principals)


@lru_cache(maxsize=1000)
def parse_principals(value: str) -> Caller:
    """Read a metadata value such as `user:alice,group:staff`.

    Raises InvalidArgumentError for more than 100 principals, more than 8 KiB, or an entry that is empty or
    holds white space or control characters.
    """
    if len(value) > MAX_PRINCIPALS_BYTES:
        raise _malformed(f"longer than {MAX_PRINCIPALS_BYTES} bytes")
    if not value.strip():
        return Caller()
    parts = value.split(",")
    if len(parts) > MAX_PRINCIPALS:
        raise _malformed(f"more than {MAX_PRINCIPALS} principals")
    principals = tuple(unquote(part.strip()) for part in parts)
    for principal in principals:
        if not principal or not principal.isprintable() or any(map(str.isspace, principal)):
            raise _malformed("a principal is empty or holds white space or control characters")
    return Caller(tuple(dict.fromkeys(principals)))


def _malformed(description: str) -> InvalidArgumentError:
    return InvalidArgumentError([FieldViolation(PRINCIPALS_KEY, description)], reason="INVALID_PRINCIPALS")
