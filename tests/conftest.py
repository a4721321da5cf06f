"""Fixtures of several parts: PostgreSQL, a migrated database, an asynchronous server for pytest-grpc."""

import asyncio
import gc
import os
import pwd
import signal
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import DatabaseSettings, migrate
from groundline_runtime.serving.server import Application
from groundline_tests.postgres import wait_for_no_disk
from groundline_tests.programs import INSTALL, missing
from groundline_tests.runtime import serve
from groundline_validation import validate
from hypothesis import HealthCheck, settings
from pydantic import SecretStr

# No test passes or fails on the clock: a busy machine makes the drawing of examples slow.
settings.register_profile("groundline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("groundline")

# A shell that runs the tests in the background has them, and what they start, ignore Ctrl-C; some tests end a
# command by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

_context = ssl.create_default_context
_trusting = cache(lambda cafile, capath: _context(cafile=cafile, capath=capath))


def _shared_context(*args: Any, cafile: Any = None, capath: Any = None, **others: Any) -> ssl.SSLContext:
    """Return one context for all HTTP clients that trust the same files; others' libraries change theirs."""
    if args or others or cafile is None:
        return _context(*args, cafile=cafile, capath=capath, **others)
    trusting: ssl.SSLContext = _trusting(cafile, capath)
    return trusting


# A client would read all authorities of the machine, for 20 ms of a processor, to ask one without TLS.
ssl.create_default_context = _shared_context

TEMPLATE = "groundline_template"
MIGRATED = ("ingestor", "coordinator", "gateway")
"""Services with tables."""

IN_CI = bool(os.environ.get("CI"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what collecting the tests makes, which stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test in CI that is skipped because a program is missing."""
    report = yield
    if IN_CI and (package := missing(report)):
        report.outcome = "failed"
        report.longrepr = f"{package} is not installed: {INSTALL}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = Counter(missing(report) for report in terminalreporter.stats.get("skipped", []))
    del skipped[None]
    if skipped:
        terminalreporter.section("NOT TESTED", yellow=True)
        for package, count in sorted(skipped.items()):
            terminalreporter.line(f"{count} tests, since {package} is not installed")
        terminalreporter.line(f"To install what is missing, as root: {INSTALL}")


@pytest.fixture
def not_root(tmp_path: Path) -> Iterator[None]:
    """Root runs the test as nobody, for root may read and write everything."""
    if os.geteuid() != 0:
        yield
        return
    nobody = pwd.getpwnam("nobody")
    os.chown(tmp_path, nobody.pw_uid, nobody.pw_gid)
    here = Path(__file__).resolve()
    above = dict.fromkeys([*tmp_path.parents, *here.parents])
    closed = [path for path in above if path.owner() == "root" and not path.stat().st_mode & 0o001]
    modes = {path: path.stat().st_mode for path in closed}
    for path in closed:
        path.chmod(modes[path] | 0o011)
    os.setegid(nobody.pw_gid)
    os.seteuid(nobody.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.fixture(scope="session")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedPostgres]:
    """One PostgreSQL server for the session."""
    directory = tmp_path_factory.mktemp("postgres")
    async with EmbeddedPostgres(directory) as server:
        wait_for_no_disk(directory, server.process.pid)
        yield server


@pytest.fixture(scope="session")
async def template_database(postgres: EmbeddedPostgres) -> str:
    """Name of a migrated database that others are copied from."""
    database = DatabaseSettings(database_url=SecretStr(await postgres.create_database(TEMPLATE)))
    # By this process: each service's command would load the whole service for it.
    for service in MIGRATED:
        await migrate(database, service)
    return TEMPLATE


@pytest.fixture(scope="module")
async def database_url(
    request: pytest.FixtureRequest, postgres: EmbeddedPostgres, template_database: str
) -> AsyncIterator[str]:
    """URL of a migrated database of the module's own."""
    name = Path(request.node.path).stem
    yield await postgres.create_database(name, template=template_database)
    await postgres.drop_database(name)


class BackgroundServer:
    """A grpc.aio server with the runtime's interceptors, on an event loop in a thread of its own."""

    def __init__(self, add_to_server: Callable[[Any, grpc.aio.Server], None], servicer: Any) -> None:
        self._application = Application({"": lambda server: add_to_server(servicer, server)}, validate)
        self._address: Future[str] = Future()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="grpc-server")

    def __enter__(self) -> str:
        self._thread.start()
        return self._address.result(timeout=30)

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join()

    async def _serve(self) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        try:
            async with serve(self._application) as address:
                self._address.set_result(address)
                await stopped.wait()
        except BaseException as error:
            if not self._address.done():
                self._address.set_exception(error)
            raise


# pytest-grpc starts a synchronous server; these two fixtures put the asynchronous one in its place, so that
# its grpc_channel and grpc_stub reach our servicers over a real port. A module gives grpc_add_to_server,
# grpc_servicer and grpc_stub_cls, as pytest-grpc documents.
@pytest.fixture(scope="module")
def grpc_server(
    grpc_add_to_server: Callable[[Any, grpc.aio.Server], None], grpc_servicer: Any
) -> Iterator[str]:
    with BackgroundServer(grpc_add_to_server, grpc_servicer) as address:
        yield address


@pytest.fixture(scope="module")
def grpc_addr(grpc_server: str) -> str:
    return grpc_server
