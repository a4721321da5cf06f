"""Life of a service process: settings, logs, telemetry, wiring, serving, draining, exit code."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import grpc
import structlog
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from groundline_runtime.errors import FailedPreconditionError, GroundlineError
from groundline_runtime.grpc_settings import CONNECTION_OPTIONS
from groundline_runtime.serving.admission import Admission
from groundline_runtime.serving.health import HealthMonitor, ReadinessCheck
from groundline_runtime.serving.interceptors import Validate, server_interceptors
from groundline_runtime.serving.share import ClientShare
from groundline_runtime.settings import ServiceSettings, settings_from_command_line
from groundline_runtime.telemetry.logs import configure_logs
from groundline_runtime.telemetry.recording import telemetry

MAX_CONNECTION_AGE_SECONDS: Final = 300
"""Age of a connection, in seconds and give or take a tenth, after which it takes no new requests: clients
reconnect, and so find replicas that have started since. The gateway's lanes do so sooner (identity.lua)."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Application:
    """A wired service."""

    services: Mapping[str, Callable[[grpc.aio.Server], None]]
    """Functions that register a servicer, by full service name."""

    validate: Validate
    """Check of each request before its method, by the limits of the contract."""

    readiness: Mapping[str, ReadinessCheck] = field(default_factory=dict)
    """Checks that raise when a dependency cannot be used, by the dependency's name."""

    bounds_itself: bool = False
    """Whether the service has a bound and a queue of its own, so that its server needs none."""

    computes: bool = False
    """Whether requests are short and hold places mostly for what they compute, so that a client holds few of
    them while others wait for the same processor. In a service that waits for others, theirs count."""


class Serving(Protocol):
    """A server whose port is open."""

    @property
    def port(self) -> int: ...

    async def drain(self) -> None:
        """Report that no more requests should come; those that come are answered."""

    async def stop(self, grace_seconds: float) -> None:
        """Close the port, wait `grace_seconds` for requests, and cancel the rest; a shorter grace may
        follow."""


def run[S: ServiceSettings](
    settings_type: type[S],
    wire: Callable[[S], AbstractAsyncContextManager[Application]],
    argv: Sequence[str] | None = None,
) -> None:
    """Serve the application of `wire` over gRPC; see `run_server`."""

    @asynccontextmanager
    async def start(settings: S) -> AsyncIterator[Running]:
        async with wire(settings) as application, serving(application, settings) as running:
            yield running

    run_server(settings_type, start, argv)


def run_server[S: ServiceSettings](
    settings_type: type[S],
    start: Callable[[S], AbstractAsyncContextManager[Serving]],
    argv: Sequence[str] | None = None,
) -> None:
    """Keep the server of `start` until SIGTERM or SIGINT, then drain it, close, flush, and exit 0.

    Exits with 2 for a wrong setting and with 1 when starting fails; a GroundlineError then is one log
    line.
    """

    async def serve(settings: S) -> None:
        await _serve_until_signal(settings, start)

    settings = settings_from_command_line(settings_type, argv)
    metrics_at = None if settings.metrics_port is None else (settings.host, settings.metrics_port)
    _run(settings, serve, metrics_at)


def run_command[S: ServiceSettings](
    settings_type: type[S],
    command: Callable[[S], Awaitable[None]],
    argv: Sequence[str] | None = None,
) -> None:
    """Run a command such as a migration with the settings, logs, telemetry and exit codes of a service."""
    _run(settings_from_command_line(settings_type, argv), command)


def _run[S: ServiceSettings](
    settings: S, command: Callable[[S], Awaitable[None]], metrics_at: tuple[str, int] | None = None
) -> None:
    service = settings.service_name()
    configure_logs(service, level=settings.log_level, log_format=settings.log_format)
    try:
        with telemetry(service, settings.otlp_endpoint, metrics_at=metrics_at):
            exit_code = uvloop.run(_exit_code(command, settings))
    except GroundlineError as error:  # where metrics are to be served
        exit_code = _stopped(error)
    sys.exit(exit_code)


async def _exit_code[S](command: Callable[[S], Awaitable[None]], settings: S) -> int:
    try:
        await command(settings)
    except GroundlineError as error:
        return _stopped(error)
    except Exception:
        _log.exception("stopped")
        return 1
    return 0


def _stopped(error: GroundlineError) -> int:
    _log.error("stopped", code=error.code.name, reason=error.reason, error=error.message)
    return 1


async def _serve_until_signal[S: ServiceSettings](
    settings: S, start: Callable[[S], AbstractAsyncContextManager[Serving]]
) -> None:
    signals = _Signals()
    work = asyncio.ensure_future(_serve(settings, start, signals))
    first = asyncio.ensure_future(signals.first.wait())
    await asyncio.wait((work, first), return_when=asyncio.FIRST_COMPLETED)
    first.cancel()
    if not work.done() and not signals.serving:
        work.cancel()  # a signal while starting: there is nothing to drain
    try:
        await work
    except asyncio.CancelledError:
        _log.info("service_stopped")


async def _serve[S: ServiceSettings](
    settings: S, start: Callable[[S], AbstractAsyncContextManager[Serving]], signals: "_Signals"
) -> None:
    async with start(settings) as running:
        signals.serving = True
        _log.info("service_started", host=settings.host, port=running.port)
        await signals.first.wait()
        _log.info("service_draining", drain_seconds=settings.drain_seconds)
        await running.drain()
        await signals.second_within(settings.drain_seconds)
        stopping = asyncio.ensure_future(running.stop(settings.shutdown_grace_seconds))
        hurry = asyncio.ensure_future(signals.second.wait())
        await asyncio.wait((stopping, hurry), return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await running.stop(0)
        hurry.cancel()
        await stopping
    _log.info("service_stopped")


class _Signals:
    """Handler of SIGTERM and SIGINT; the first one drains, the second one stops at once."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.serving = False
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._arrived)

    def _arrived(self) -> None:
        (self.second if self.first.is_set() else self.first).set()

    async def second_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.second.wait()
        except TimeoutError:
            pass


@dataclass(frozen=True, slots=True)
class Running:
    server: grpc.aio.Server
    health: HealthMonitor
    port: int

    async def drain(self) -> None:
        await self.health.drain()

    async def stop(self, grace_seconds: float) -> None:
        await self.server.stop(grace_seconds)


@asynccontextmanager
async def serving(application: Application, settings: ServiceSettings) -> AsyncIterator[Running]:
    """Provide a started server with health, reflection and interceptors; stop it without grace on exit.

    Raises FailedPreconditionError if the address cannot be bound.
    """
    server = grpc.aio.server(
        interceptors=server_interceptors(
            settings.default_timeout_seconds, application.validate, _admission(application)
        ),
        options=_options(settings),
    )
    generic = cast(grpc.aio.Server, _GenericHandlers(server))
    for register in application.services.values():
        register(generic)
    health = HealthMonitor(
        application.services,
        application.readiness,
        interval_seconds=settings.health_interval_seconds,
        timeout_seconds=settings.health_timeout_seconds,
    )
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, generic)
    reflection.enable_server_reflection(
        (
            *application.services,
            health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
            reflection.SERVICE_NAME,
        ),
        generic,
    )
    address = f"{settings.host}:{settings.port}"
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        raise FailedPreconditionError("ADDRESS_UNUSABLE", f"cannot listen on {address}") from None
    await health.start()
    await server.start()
    watching = asyncio.gather(health.watch(), health.watch_threads())
    try:
        yield Running(server, health, port)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await server.stop(0)


def _admission(application: Application) -> Admission | None:
    if application.bounds_itself:
        return None
    return Admission(share=ClientShare() if application.computes else None)


class _GenericHandlers:
    """Server to which the generated code adds its handlers, each method once.

    It would also register each method. Then gRPC waits for the next request of all of them at once, and
    begins anew with every request: with 80 methods that costs a request a quarter more of a processor (grpc
    1.85, grpc/grpc#43461).
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Add handlers to the server."""
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Leave out what is added already."""


def _options(settings: ServiceSettings) -> list[tuple[str, int]]:
    return [
        # gRPC allows it by default: a second process could bind the same port, and get half of the requests.
        ("grpc.so_reuseport", int(settings.reuse_port)),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        # No compression: the gateway's limits count what arrives, and it could unpack to a thousandfold.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        *CONNECTION_OPTIONS,
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # The gateway and clients ping every 1.2 s.
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.max_connection_age_ms", 1_000 * MAX_CONNECTION_AGE_SECONDS),
    ]
