"""The faults by name: what is done to a suite of two replicas, and what must hold then."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

import asyncpg
import psutil

from groundline_benchmarks.measuring.suite import Suite

__all__ = ["FAULTS", "Bounds", "Fault"]

_SLOW_SLICE_SECONDS = 0.1
_CRASHES = 4


@dataclass(frozen=True)
class Bounds:
    """What is missed where a figure is above it. `None`: not asked of this fault."""

    failed_percent: float | None = None
    """Of searches and chats that begin during the fault."""
    wrong: int = 0
    """Answers without a document that is there, and without a word of it."""
    cut: int | None = None
    """Streams that end without an end, as far as a client that reads HTTP alone can see."""
    slowest_seconds: float | None = None
    """Of any request."""
    slowest_later_seconds: float | None = None
    """Of those that begin three seconds after the fault or later, while it lasts."""
    well_after_seconds: float | None = None
    """From the end of the fault to the begin of the last request that fails."""
    unready_after_seconds: float | None = None
    """From the begin of the fault until `/healthz` says so."""
    is_ready: bool = False
    """Whether `/healthz` has to stay as it is throughout."""


@dataclass(frozen=True)
class Fault:
    """What is done for the time of a block."""

    summary: str
    happens: Callable[[Suite], AbstractAsyncContextManager[None]]
    bounds: Bounds
    burst: int = 0
    """So many searches at once when it begins."""


def _stopped(name: str) -> Callable[[Suite], AbstractAsyncContextManager[None]]:
    """A process that lives and does nothing."""

    @asynccontextmanager
    async def happens(suite: Suite) -> AsyncIterator[None]:
        with _paused([suite.pid(name)]):
            yield

    return happens


class _paused:  # noqa: N801 (a context manager)
    """Processes that do nothing within the block."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids

    def __enter__(self) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _killed(name: str) -> Callable[[Suite], AbstractAsyncContextManager[None]]:
    """A process that ends without a word; it is started again."""

    @asynccontextmanager
    async def happens(suite: Suite) -> AsyncIterator[None]:
        os.kill(suite.pid(name), signal.SIGKILL)
        yield

    return happens


@asynccontextmanager
async def _crash_loop(suite: Suite) -> AsyncIterator[None]:
    """Every ingestor again and again, as soon as it is there again."""

    async def crash() -> None:
        for _ in range(_CRASHES):
            for name in ("ingestor-1", "ingestor-2"):
                with suppress(ProcessLookupError):
                    os.kill(suite.pid(name), signal.SIGKILL)
            await asyncio.sleep(4)

    task = asyncio.create_task(crash())
    try:
        yield
    finally:
        await task


@asynccontextmanager
async def _slow(suite: Suite) -> AsyncIterator[None]:
    """A retriever that gets a tenth of the time."""
    pid = suite.pid("retriever-1")

    async def hinder() -> None:
        while True:
            with _paused([pid]):
                await asyncio.sleep(9 * _SLOW_SLICE_SECONDS)
            await asyncio.sleep(_SLOW_SLICE_SECONDS)

    task = asyncio.create_task(hinder())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _postgres(suite: Suite) -> list[psutil.Process]:
    """The postmaster and all its processes."""
    postmaster = psutil.Process(suite.pid("postgres"))
    return [postmaster, *postmaster.children(recursive=True)]


@asynccontextmanager
async def _postgres_hangs(suite: Suite) -> AsyncIterator[None]:
    with _paused([process.pid for process in _postgres(suite)]):
        yield


@asynccontextmanager
async def _postgres_crashes(suite: Suite) -> AsyncIterator[None]:
    """A backend is killed, whereupon PostgreSQL ends all others and recovers from its log."""
    for process in _postgres(suite)[1:]:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if any("groundline" in word and "idle" in word for word in process.cmdline()):
                process.kill()
                break
    yield


@asynccontextmanager
async def _collections_locked(suite: Suite) -> AsyncIterator[None]:
    connection = await asyncpg.connect(suite.database_url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE collections IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


@asynccontextmanager
async def _nothing(suite: Suite) -> AsyncIterator[None]:
    yield


_ONE_OF_TWO = Bounds(failed_percent=2, cut=0, slowest_seconds=15, slowest_later_seconds=5)

FAULTS: Mapping[str, Fault] = {
    "retriever-hangs": Fault("One of two retrievers is stopped.", _stopped("retriever-1"), _ONE_OF_TWO),
    "reranker-hangs": Fault("One of two rerankers is stopped.", _stopped("reranker-1"), _ONE_OF_TWO),
    "generator-hangs": Fault("One of two generators is stopped.", _stopped("generator-1"), _ONE_OF_TWO),
    "coordinator-hangs": Fault(
        "One of two coordinators is stopped; what it has begun cannot be done elsewhere.",
        _stopped("coordinator-1"),
        Bounds(failed_percent=5, slowest_seconds=20, slowest_later_seconds=20),
    ),
    "ingestor-hangs": Fault(
        "One of two ingestors is stopped.",
        _stopped("ingestor-1"),
        Bounds(failed_percent=2, cut=0, slowest_seconds=30),
    ),
    "retriever-killed": Fault("One of two retrievers is killed.", _killed("retriever-1"), _ONE_OF_TWO),
    "generator-killed": Fault("One of two generators is killed.", _killed("generator-1"), _ONE_OF_TWO),
    "coordinator-killed": Fault(
        "One of two coordinators is killed; chats under way there break off, which every client can tell.",
        _killed("coordinator-1"),
        Bounds(failed_percent=5, slowest_seconds=15),
    ),
    "ingestor-killed": Fault("One of two ingestors is killed.", _killed("ingestor-1"), _ONE_OF_TWO),
    "ingestors-crash-loop": Fault(
        "Both ingestors are killed again and again.",
        _crash_loop,
        Bounds(failed_percent=2, slowest_seconds=30),
    ),
    "slow-retriever": Fault(
        "One of two retrievers gets a tenth of its time: slow is better than none.", _slow, _ONE_OF_TWO
    ),
    "postgres-crashes": Fault(
        "PostgreSQL recovers from a crash while the services stay up.",
        _postgres_crashes,
        Bounds(slowest_seconds=30, well_after_seconds=10),
    ),
    "postgres-hangs": Fault(
        "PostgreSQL is stopped with all its processes.",
        _postgres_hangs,
        Bounds(slowest_seconds=35, well_after_seconds=10, unready_after_seconds=5),
    ),
    "collections-locked": Fault(
        "A long lock on the table of collections.",
        _collections_locked,
        Bounds(slowest_seconds=30, well_after_seconds=5, is_ready=True),
    ),
    "overload": Fault(
        "300 searches at once, beside the others.",
        _nothing,
        Bounds(slowest_seconds=30, well_after_seconds=10, is_ready=True),
        burst=300,
    ),
}
"""By name, as `--fault` takes it."""
