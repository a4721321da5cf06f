"""Life cycle of the HTTP server and of a request, as gRPC's server and the interceptors provide it
elsewhere."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
import uvicorn
from groundline_runtime.context import (
    PRINCIPALS_KEY,
    acting_as,
    deadline_at,
    parse_principals,
    request_trace,
)
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    FieldViolation,
    GroundlineError,
    InvalidArgumentError,
    UnavailableError,
)
from groundline_runtime.telemetry.recording import is_recording
from opentelemetry import propagate, trace
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groundline_bridge.adapters.failures import seconds_to_wait, unexpected
from groundline_bridge.gateway import reached_at
from groundline_bridge.metrics import HTTP_DURATION
from groundline_bridge.openai.errors import body_of, status_of
from groundline_bridge.settings import BridgeSettings

READY_PATH: Final = "/readyz"
LIVE_PATH: Final = "/livez"

_DEADLINE_HEADER: Final = "grpc-timeout"
"""Header in which the gateway states deadlines to every service, in gRPC's units."""
_UNIT_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

# Longer than the gateway keeps an idle connection: it must not send on one that is being closed.
_KEEP_ALIVE_SECONDS: Final = 75
# The gateway takes 32 KiB of headers, and adds the principals.
_MAX_HEADER_BYTES: Final = 64 * 1024

_log = structlog.get_logger(__name__)


def error_response(error: GroundlineError) -> JSONResponse:
    """Return the error in the shape of the OpenAI API."""
    headers = {}
    if (seconds := seconds_to_wait(error)) is not None:
        headers["retry-after"] = str(seconds)
    return JSONResponse(body_of(error), status_code=status_of(error), headers=headers)


class Requests:
    """ASGI middleware: health, and for each request its limits, caller, deadline, trace and log line.

    A request is read whole before it is handled, and its handler is cancelled when the client disconnects.
    """

    def __init__(self, app: ASGIApp, settings: BridgeSettings) -> None:
        self._app = app
        self._settings = settings
        self._under_way = 0
        self.is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in (READY_PATH, LIVE_PATH):
            is_well = scope["path"] == LIVE_PATH or not self.is_draining
            response = PlainTextResponse("SERVING" if is_well else "NOT_SERVING", 200 if is_well else 503)
            return await response(scope, receive, send)
        exchange = _Exchange(scope, receive, send)
        with self._span(exchange):
            started = time.monotonic()
            try:
                await self._bounded(exchange, started)
            finally:
                self._report(exchange, time.monotonic() - started)

    def _gateway(self, exchange: "_Exchange") -> str:
        """Return the address under which the client reaches the gateway."""
        scheme, host = exchange.headers.get("x-forwarded-proto", "http"), exchange.headers.get("host", "")
        return self._settings.public_url or f"{scheme}://{host}"

    async def _bounded(self, exchange: "_Exchange", started: float) -> None:
        if self._under_way >= self._settings.max_concurrent_requests:
            busy = UnavailableError("SERVICE_UNAVAILABLE", "too many requests", retry_after_seconds=1)
            return await exchange.refuse(busy)
        self._under_way += 1
        try:
            caller = parse_principals(exchange.headers.get(PRINCIPALS_KEY, ""))
            seconds = _deadline_seconds(exchange.headers, self._settings.default_timeout_seconds)
            async with asyncio.timeout(seconds):
                await exchange.take_body(self._settings.max_request_bytes)
            with acting_as(caller), deadline_at(started + seconds), reached_at(self._gateway(exchange)):
                await exchange.served_by(self._app)
        except GroundlineError as error:
            await exchange.refuse(error)
        except asyncio.CancelledError:
            # Only a stop whose grace has passed cancels here: the server would answer 500, and log it.
            stopping = "the service is stopping"
            await exchange.refuse(UnavailableError("SERVICE_UNAVAILABLE", stopping, retry_after_seconds=1))
        except TimeoutError:
            late = DeadlineExceededError("REQUEST_TIMEOUT", "the request did not arrive in time")
            await exchange.refuse(late)
        except Exception:
            await exchange.refuse(unexpected("http_request_failed", path=exchange.path))
        finally:
            self._under_way -= 1

    def _span(self, exchange: "_Exchange") -> Any:
        if not is_recording():
            return request_trace(exchange.headers.get("traceparent"))
        return trace.get_tracer("groundline_bridge").start_as_current_span(
            f"{exchange.method} {exchange.path}",
            context=propagate.extract(exchange.headers),
            kind=trace.SpanKind.SERVER,
            attributes={"http.request.method": exchange.method, "url.path": exchange.path},
        )

    def _report(self, exchange: "_Exchange", seconds: float) -> None:
        status = exchange.status or 499
        span = trace.get_current_span()
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(trace.StatusCode.ERROR)
        HTTP_DURATION.record(
            seconds, {"http.request.method": exchange.method, "http.response.status_code": status}
        )
        # The gateway logs every request; successes matter here only for debugging.
        log = _log.debug if status < 400 else _log.info
        log(
            "http_request_finished",
            method=exchange.method,
            path=exchange.path,
            status=status,
            duration_ms=round(seconds * 1000, 2),
        )


class _Exchange:
    """A request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope=scope)
        self.status: int | None = None
        self._body = b""
        self._body_was_read = False
        self._left = asyncio.Event()

    async def take_body(self, max_bytes: int) -> None:
        """Read the whole body. Raises InvalidArgumentError for one that is too large."""
        pieces, size, is_whole = [], 0, False
        while not is_whole:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._left.set()
                return
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > max_bytes:
                too_large = FieldViolation("body", f"is larger than {max_bytes} bytes")
                raise InvalidArgumentError([too_large], reason="BODY_TOO_LARGE")
            is_whole = not message.get("more_body", False)
        self._body = b"".join(pieces)

    async def served_by(self, app: ASGIApp) -> None:
        """Let the application answer, until the client disconnects."""
        if self._left.is_set():
            return
        work = asyncio.ensure_future(app(self._scope, self._received, self._sent))
        watch = asyncio.ensure_future(self._until_left())
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self._left.set()
                work.cancel()
                await asyncio.wait((work,))
            if not work.cancelled():
                work.result()
        finally:
            watch.cancel()
            work.cancel()
            await asyncio.gather(watch, work, return_exceptions=True)

    async def refuse(self, error: GroundlineError) -> None:
        """Send the error, unless something has been sent."""
        if self.status is None and not self._left.is_set():
            await error_response(error)(self._scope, self._received, self._sent)

    async def _until_left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _received(self) -> Message:
        if not self._body_was_read:
            self._body_was_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _sent(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


def _deadline_seconds(headers: Mapping[str, str], default_seconds: float) -> float:
    stated = headers.get(_DEADLINE_HEADER, "")
    unit = _UNIT_SECONDS.get(stated[-1:])
    if unit is None or not (stated[:-1].isascii() and stated[:-1].isdigit()):
        return default_seconds
    return int(stated[:-1]) * unit


@dataclass(slots=True)
class HttpServer:
    """A uvicorn server whose port is open."""

    port: int
    _server: uvicorn.Server
    _requests: Requests
    _stopped: asyncio.Task[None] | None = field(default=None)

    async def drain(self) -> None:
        """Report not ready."""
        self._requests.is_draining = True

    async def stop(self, grace_seconds: float) -> None:
        """Close the port, wait `grace_seconds` for running requests, and cancel the rest."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._server.shutdown())
        try:
            async with asyncio.timeout(grace_seconds):
                await asyncio.shield(self._stopped)
        except TimeoutError:
            for task in tuple(self._server.server_state.tasks):
                task.cancel()
            self._server.force_exit = True
            await self._stopped


@asynccontextmanager
async def serving(app: ASGIApp, settings: BridgeSettings) -> AsyncIterator[HttpServer]:
    """Provide a started server; stop it without grace on exit.

    Raises FailedPreconditionError if the address cannot be bound.
    """
    requests = Requests(app, settings)
    config = uvicorn.Config(
        requests,
        # The process has its own signals, logs and lifespan.
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    listener = _listener(settings)
    # Not serve(): it catches the process's signals, and wakes up ten times a second.
    await server.startup(sockets=[listener])
    running = HttpServer(listener.getsockname()[1], server, requests)
    try:
        yield running
    finally:
        await running.stop(0)


def _listener(settings: BridgeSettings) -> socket.socket:
    host = settings.host.strip("[]")
    try:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, settings.port))
    except OSError:
        message = f"cannot listen on {settings.host}:{settings.port}"
        raise FailedPreconditionError("ADDRESS_UNUSABLE", message) from None
    listener.setblocking(False)
    return listener
