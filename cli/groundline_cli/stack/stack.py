"""Start and stop of the whole suite."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groundline_cli.stack.errors import NotReadyError, StackError
from groundline_cli.stack.files import (
    DirectoryLock,
    make_private_directory,
    read_or_create_secret,
    write_private,
)
from groundline_cli.stack.forks import Forks
from groundline_cli.stack.ports import LOOPBACK, reserved_port
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_cli.stack.process import Command
from groundline_cli.stack.readiness import wait_until_healthy, wait_until_serving
from groundline_cli.stack.suite import (
    MIGRATIONS,
    SERVICES,
    TRACE_URL,
    GatewayMetrics,
    Service,
    gateway_command,
    gateway_settings,
    services_environment,
)
from groundline_cli.stack.supervisor import Supervisor

# Imported only for `--observe`: without it, the command takes no memory for it.
if TYPE_CHECKING:
    from groundline_cli.stack.viewer import Viewer

_MIGRATE_TIMEOUT_SECONDS: Final = 600.0
_SERVICE_TIMEOUT_SECONDS: Final = 180.0  # the first start builds the embedding model's ONNX file
_GATEWAY_TIMEOUT_SECONDS: Final = 30.0
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

type Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StackOptions:
    """Options of a local suite."""

    data_dir: Path
    gateway_port: int
    """Port of the gateway; 0 takes a free one."""
    environ: Mapping[str, str]
    """Settings of the services (GROUNDLINE_…); a GROUNDLINE_DATABASE_URL replaces the embedded server."""
    replicas: int = 1
    """Processes of each service."""
    ready_files: tuple[Path, ...] = ()
    """Files that hold `ReadyInfo` as JSON while the suite is ready."""
    with_metrics: bool = False
    """Whether each process serves its metrics to Prometheus."""
    viewer_port: int | None = None
    """Port of the viewer of traces; 0 takes a free one, None runs no viewer."""

    @property
    def targets_file(self) -> Path:
        """File that tells Prometheus where metrics are served, while the suite is ready and serves them."""
        return self.data_dir / "prometheus.json"


@dataclass(frozen=True, slots=True)
class ReadyInfo:
    """Addresses of a running suite. It holds secrets: the API key, and the password in `database_url`."""

    gateway: str
    api_key: str
    services: Mapping[str, str]
    """host:port by name; replicas are separated by commas."""
    pids: Mapping[str, int]
    """Process id of every child, by name."""
    database_url: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    """host:port by name of service, and of the gateway, at which Prometheus reads /metrics; replicas are
    separated by commas. Empty if they serve none."""
    viewer: str | None = None
    """Address of the viewer of traces, if it runs."""

    def as_json(self) -> str:
        """Return the text of the ready file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def as_targets(self) -> str:
        """Return the text of a file of targets, as Prometheus' file_sd_configs reads it."""
        groups = [
            {"targets": addresses.split(","), "labels": {"service": name}}
            for name, addresses in self.metrics.items()
        ]
        return json.dumps(groups, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Parts:
    """Programs of the suite."""

    migrations: Sequence[tuple[str, ...]] = MIGRATIONS
    services: Sequence[Service] = SERVICES
    gateway: Callable[
        [Mapping[str, str], Path, int, str, Mapping[str, str], str | None, GatewayMetrics | None],
        AbstractAsyncContextManager[Command],
    ] = gateway_command


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A suite that answers."""

    info: ReadyInfo
    supervisor: Supervisor
    viewer: "Viewer | None" = None
    """The viewer of traces, if it runs."""

    def present(self) -> ReadyInfo:
        """Return `info` with the present process ids."""
        viewer = self.viewer.supervisor.pids if self.viewer else {}
        return replace(self.info, pids={**viewer, **self.supervisor.pids})


@asynccontextmanager
async def running_stack(
    options: StackOptions, report: Report, parts: Parts | None = None
) -> AsyncIterator[RunningStack]:
    """Start everything, wait until it answers, and on leaving stop everything; call it on the main thread.

    `report` gets one line per step. Raises StackError; no process is left then.
    """
    parts = parts or Parts()
    async with AsyncExitStack() as resources:
        data_dir = make_private_directory(options.data_dir)
        resources.enter_context(DirectoryLock(data_dir))
        api_key = options.environ.get("GROUNDLINE_API_KEY") or read_or_create_secret(data_dir / "api_key")
        port = resources.enter_context(reserved_port(options.gateway_port))
        names = [service.name for service in parts.services]
        addresses = _reserved(names, options.replicas, resources)
        metrics, of_gateway = _metrics(options, names, resources)
        # A wrong key is told before anything has been started.
        gateway_settings(options.environ, port, api_key, addresses, database_url=None)
        options, viewer = await _viewer(options, resources, report)
        logs = data_dir / "logs"
        database_url = options.environ.get("GROUNDLINE_DATABASE_URL")
        postgres = None
        if not database_url:
            postgres = EmbeddedPostgres(data_dir / "postgres", log_path=logs / "postgres.log")
            await _start_postgres(postgres, resources, report)
            database_url = postgres.dsn
        environment = services_environment(options.environ, database_url)
        forks = await resources.enter_async_context(Forks.opened(environment, logs / "fork-server.log"))
        supervisor = await resources.enter_async_context(Supervisor(logs, start=forks.start))
        if postgres is not None:
            supervisor.adopt(postgres.process, postgres.start_again)

        await _migrate(parts.migrations, environment, supervisor, report)
        for service in parts.services:
            for command in service.commands(environment, addresses, metrics):
                await supervisor.start(command)
        await supervisor.until(_all_serving(parts.services, addresses, report))
        with _step(report, "gateway answers"):
            config_path = data_dir / "envoy.json"
            gateway_of_suite = parts.gateway(
                options.environ, config_path, port, api_key, addresses, database_url, of_gateway
            )
            await supervisor.start(await resources.enter_async_context(gateway_of_suite))
            gateway = f"http://{LOOPBACK}:{port}"
            healthy = wait_until_healthy(f"{gateway}/healthz", timeout_seconds=_GATEWAY_TIMEOUT_SECONDS)
            await supervisor.until(healthy)
        yield RunningStack(
            info=ReadyInfo(
                gateway=gateway,
                api_key=api_key,
                services=addresses,
                pids=supervisor.pids,
                database_url=database_url,
                metrics=metrics,
                viewer=viewer.url if viewer else None,
            ),
            supervisor=supervisor,
            viewer=viewer,
        )


def _reserved(names: Sequence[str], replicas: int, resources: AsyncExitStack) -> dict[str, str]:
    """Return free addresses by name, for each replica one, held until `resources` are left."""
    return {
        name: ",".join(f"{LOOPBACK}:{resources.enter_context(reserved_port())}" for _ in range(replicas))
        for name in names
    }


def _metrics(
    options: StackOptions, names: Sequence[str], resources: AsyncExitStack
) -> tuple[dict[str, str], GatewayMetrics | None]:
    """Return where services and gateway serve their metrics, by name, and what the gateway needs for it."""
    if not options.with_metrics:
        return {}, None
    port, admin_port = (resources.enter_context(reserved_port()) for _ in range(2))
    found = {**_reserved(names, options.replicas, resources), "gateway": f"{LOOPBACK}:{port}"}
    return found, GatewayMetrics(port=port, admin_address=f"{LOOPBACK}:{admin_port}")


async def _viewer(
    options: StackOptions, resources: AsyncExitStack, report: Report
) -> tuple[StackOptions, "Viewer | None"]:
    """Return the viewer of traces, if it is asked for and starts, and options that send traces to it."""
    if options.viewer_port is None:
        return options, None
    from groundline_cli.stack.viewer import refuse_other_collectors, running_viewer

    refuse_other_collectors(options.environ)
    running = running_viewer(options.data_dir.resolve(), options.viewer_port, options.environ, report)
    viewer = await resources.enter_async_context(running)
    if viewer is None:
        return options, None
    report(f"traces: {viewer.url}")
    # The console links to a viewer of the user's own, if one is set.
    environ = {TRACE_URL: viewer.trace_url, **options.environ, "GROUNDLINE_OTLP_ENDPOINT": viewer.endpoint}
    return replace(options, environ=environ), viewer


async def _start_postgres(postgres: EmbeddedPostgres, resources: AsyncExitStack, report: Report) -> None:
    with _step(report, "PostgreSQL ready"):
        await resources.enter_async_context(postgres)
    if postgres.rebuilt_indexes:
        count = len(postgres.rebuilt_indexes)
        report(f"PostgreSQL had not been stopped cleanly: {count} BM25 indexes rebuilt")


async def _migrate(
    migrations: Sequence[tuple[str, ...]],
    environment: Mapping[str, str],
    supervisor: Supervisor,
    report: Report,
) -> None:
    with _step(report, "schema migrated"):
        for argv in migrations:
            migrate = Command(name="migrate", argv=argv, env=environment)
            await supervisor.run(migrate, timeout_seconds=_MIGRATE_TIMEOUT_SECONDS)


async def run_until_stopped(
    options: StackOptions,
    report: Report,
    announce: Callable[[ReadyInfo], None],
    *,
    after_ready: Callable[[ReadyInfo], Awaitable[None]] | None = None,
    parts: Parts | None = None,
) -> None:
    """Run the suite until SIGINT or SIGTERM; call it on the main thread.

    `after_ready` runs when everything answers, before the ready files are written and `announce` is called.
    Once it is ready, a child that crashes is started again. Raises StackError when the suite cannot start,
    and when a child crashes again and again. Further signals while it
    stops change nothing: stopping is bounded, and a stop cut short would leave processes behind.
    """
    with _cancelled_by_signals(report):
        async with running_stack(options, report, parts) as stack:
            if after_ready is not None:
                await stack.supervisor.until(after_ready(stack.info))

            def write_again() -> None:
                _write_ready_files(options, stack.present())

            # A child that is just being started again must not bring back files that have been removed.
            with (
                _ready_files(options, stack.present()),
                stack.supervisor.restart_crashed(report, write_again),
                stack.viewer.supervisor.restart_crashed(report, write_again)
                if stack.viewer
                else nullcontext(),
            ):
                announce(stack.info)
                await stack.supervisor.until(asyncio.Event().wait())


async def _all_serving(services: Sequence[Service], addresses: Mapping[str, str], report: Report) -> None:
    async def one(service: Service) -> None:
        with _step(report, f"{service.name} serves on {addresses[service.name]}"):
            for address in addresses[service.name].split(","):
                if service.speaks_grpc:
                    await wait_until_serving(
                        address, service.grpc_name, timeout_seconds=_SERVICE_TIMEOUT_SECONDS
                    )
                else:
                    await wait_until_healthy(
                        f"http://{address}/readyz", timeout_seconds=_SERVICE_TIMEOUT_SECONDS
                    )

    try:
        async with asyncio.TaskGroup() as group:
            for service in services:
                group.create_task(one(service))
    except* NotReadyError as errors:
        # One service that waits for another's readiness would only repeat it.
        raise errors.exceptions[0] from None


@contextmanager
def _cancelled_by_signals(report: Report) -> Iterator[None]:
    """End the body, quietly, at the first SIGINT or SIGTERM."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    requested = False

    def request() -> None:
        nonlocal requested
        if not requested:
            requested = True
            report("stopping")
            task.cancel()

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, request)
    try:
        yield
    except asyncio.CancelledError:
        if not requested:
            raise
        task.uncancel()
    finally:
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def _ready_files(options: StackOptions, info: ReadyInfo) -> Iterator[None]:
    """Keep the files while the body runs."""
    try:
        _write_ready_files(options, info)
        yield
    finally:
        for path in (*options.ready_files, options.targets_file):
            path.unlink(missing_ok=True)


def _write_ready_files(options: StackOptions, info: ReadyInfo) -> None:
    texts = dict.fromkeys(options.ready_files, info.as_json())
    if info.metrics:
        texts[options.targets_file] = info.as_targets()
    for path, text in texts.items():
        try:
            write_private(path, text)
        except OSError as error:
            raise StackError(f"cannot write the ready file {path}: {error.strerror}") from error


@contextmanager
def _step(report: Report, done: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    report(f"{done} ({time.monotonic() - start:.1f} s)")
