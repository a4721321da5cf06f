"""Faults by name: what is done to a suite of two replicas, and what must hold then."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import asyncpg
import psutil

from groundline_benchmarks.chaos.neighbour import Neighbour
from groundline_benchmarks.chat.provider import Provider
from groundline_benchmarks.measuring.suite import Suite

_SLOW_SLICE_SECONDS: Final = 0.1
_CRASHES: Final = 4


@dataclass(frozen=True, slots=True)
class Rig:
    """Parts of the suite that faults act on."""

    suite: Suite
    provider: Provider
    """Provider of the answers of chats."""
    neighbour: Neighbour
    """Another client, on a collection of its own."""


type Happening = Callable[[Rig], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of figures, maxima unless they say otherwise. `None`: not limited for this fault."""

    failed_percent: float | None = None
    """Share of searches and chats that begin during the fault and fail, in percent."""
    wrong: int = 0
    """Answers that lack an existing document without saying so."""
    cut: int | None = None
    """Streams that break off, as far as a client that reads only HTTP can see."""
    slowest_seconds: float | None = None
    """Duration of any request, in seconds."""
    slowest_later_seconds: float | None = None
    """Duration of requests that begin three seconds after the fault or later, while it lasts, in seconds."""
    well_after_seconds: float | None = None
    """Time from the end of the fault to the start of the last request that fails, in seconds."""
    unready_after_seconds: float | None = None
    """Time from the start of the fault until `/healthz` reports it, in seconds."""
    is_ready: bool = False
    """Whether `/healthz` has to report readiness throughout."""
    failed_searches: int | None = None
    """Searches that begin during the fault and fail."""
    reasons: frozenset[str] | None = None
    """Permitted reasons of failures."""
    refused_seconds: float | None = None
    """Duration of 99 % of the refusals, in seconds."""
    goodput_share: float = 0.9
    """Minimum share of the rate before an overload that is answered during it."""
    slowed: float | None = None
    """Median duration of a search, as a multiple of that without the neighbours."""
    calls_for_each_chat: float | None = None
    """Calls that the provider refuses, for each chat that begins during the fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that lasts for a block."""

    summary: str
    happens: Happening
    bounds: Bounds
    burst: int = 0
    """Number of searches sent at once when it begins."""
    overload: float = 0.0
    """Rate of further searches, as a multiple of what the suite has just answered; 0: none."""
    neighbours: Mapping[str, int] = field(default_factory=dict)
    """Clients of another owner, as `Load.running` takes them."""


def _stopped(name: str) -> Happening:
    """Stop a process without ending it."""

    @asynccontextmanager
    async def happens(rig: Rig) -> AsyncIterator[None]:
        with _paused([rig.suite.pid(name)]):
            yield

    return happens


class _paused:  # noqa: N801 (a context manager)
    """Processes that are stopped within the block."""

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


def _killed(name: str) -> Happening:
    """Kill a process; it is started again."""

    @asynccontextmanager
    async def happens(rig: Rig) -> AsyncIterator[None]:
        os.kill(rig.suite.pid(name), signal.SIGKILL)
        yield

    return happens


@asynccontextmanager
async def _crash_loop(rig: Rig) -> AsyncIterator[None]:
    """Kill every ingestor again and again, as soon as it has started."""

    async def crash() -> None:
        for _ in range(_CRASHES):
            for name in ("ingestor-1", "ingestor-2"):
                with suppress(ProcessLookupError):
                    os.kill(rig.suite.pid(name), signal.SIGKILL)
            await asyncio.sleep(4)

    task = asyncio.create_task(crash())
    try:
        yield
    finally:
        await task


@asynccontextmanager
async def _slow(rig: Rig) -> AsyncIterator[None]:
    """Give a retriever a tenth of the processor time."""
    pid = rig.suite.pid("retriever-1")

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


def _postgres(rig: Rig) -> list[psutil.Process]:
    """Return the postmaster and all its processes."""
    postmaster = psutil.Process(rig.suite.pid("postgres"))
    return [postmaster, *postmaster.children(recursive=True)]


@asynccontextmanager
async def _postgres_hangs(rig: Rig) -> AsyncIterator[None]:
    with _paused([process.pid for process in _postgres(rig)]):
        yield


@asynccontextmanager
async def _postgres_crashes(rig: Rig) -> AsyncIterator[None]:
    """Kill a backend, whereupon PostgreSQL ends all others and recovers from its log."""
    for process in _postgres(rig)[1:]:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            # Whether a title comes in one piece or in words depends on how long it is.
            title = " ".join(process.cmdline())
            if "groundline" in title and "idle" in title:
                process.kill()
                break
    yield


@asynccontextmanager
async def _collections_locked(rig: Rig) -> AsyncIterator[None]:
    connection = await asyncpg.connect(rig.suite.database_url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE collections IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


@asynccontextmanager
async def _executed(rig: Rig, begin: Sequence[str], end: Sequence[str] = ()) -> AsyncIterator[None]:
    """Execute statements before and after the block, each in a transaction of its own: several locks would
    meet those of the services."""
    connection = await asyncpg.connect(rig.suite.database_url)
    try:
        try:
            for statement in begin:
                await connection.execute(statement)
            yield
        finally:
            for statement in end:
                await connection.execute(statement)
    finally:
        await connection.close()


# If a small file system cannot be mounted, the server is made to raise the error of a full disk.
_FILL_DISK: Final = """
    CREATE FUNCTION chaos_disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
    END $$
"""
_GROWING: Final = ("ingestion_items", "documents", "threads")


def _disk_full(rig: Rig) -> AbstractAsyncContextManager[None]:
    trigger = "TRIGGER chaos_disk_full BEFORE INSERT ON {} EXECUTE FUNCTION chaos_disk_full()"
    return _executed(
        rig,
        (_FILL_DISK, *(f"CREATE {trigger.format(table)}" for table in _GROWING)),
        (
            *(f"DROP TRIGGER chaos_disk_full ON {table}" for table in _GROWING),
            "DROP FUNCTION chaos_disk_full",
        ),
    )


# To a database whose clock was set back by an hour, every moment that it has recorded is an hour later.
_SET_CLOCK_BACK: Final = (
    """
    UPDATE ingestion_items SET available_time = available_time + interval '1 hour',
        lease_until = lease_until + interval '1 hour'
    WHERE end_time IS NULL
    """,
    "UPDATE request_replays SET expire_time = expire_time + interval '1 hour'",
    "UPDATE left_partitions SET drop_time = drop_time + interval '1 hour'",
)


@asynccontextmanager
async def _clock_set_back(rig: Rig) -> AsyncIterator[None]:
    """Set the database's clock back and kill an ingestor, so that the leases of its documents are no longer
    renewed."""
    async with _executed(rig, _SET_CLOCK_BACK):
        os.kill(rig.suite.pid("ingestor-1"), signal.SIGKILL)
        yield


@asynccontextmanager
async def _provider_busy(rig: Rig) -> AsyncIterator[None]:
    rig.provider.retry_after_seconds = 2
    try:
        yield
    finally:
        rig.provider.retry_after_seconds = None


@asynccontextmanager
async def _nothing(rig: Rig) -> AsyncIterator[None]:
    yield


# Reasons of immediate refusals, for one client that asks for too much at a time, or for all.
_REFUSED: Final = frozenset({"RATE_LIMITED", "OVERLOADED"})
_ONE_OF_TWO: Final = Bounds(failed_percent=2, cut=0, slowest_seconds=15, slowest_later_seconds=5)

FAULTS: Final[Mapping[str, Fault]] = {
    "retriever-hangs": Fault("One of two retrievers is stopped.", _stopped("retriever-1"), _ONE_OF_TWO),
    "reranker-hangs": Fault("One of two rerankers is stopped.", _stopped("reranker-1"), _ONE_OF_TWO),
    "generator-hangs": Fault("One of two generators is stopped.", _stopped("generator-1"), _ONE_OF_TWO),
    "coordinator-hangs": Fault(
        "One of two coordinators is stopped; what it has begun to answer cannot be gone on with elsewhere.",
        _stopped("coordinator-1"),
        Bounds(failed_percent=5, slowest_seconds=10, slowest_later_seconds=5),
    ),
    "ingestor-hangs": Fault(
        "One of two ingestors is stopped.",
        _stopped("ingestor-1"),
        Bounds(failed_percent=2, cut=0, slowest_seconds=10),
    ),
    "bridge-hangs": Fault("One of two bridges is stopped.", _stopped("bridge-1"), _ONE_OF_TWO),
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
    "disk-full": Fault(
        "PostgreSQL refuses new rows, as it does when its disk is full.",
        _disk_full,
        Bounds(
            failed_percent=0, slowest_seconds=15, well_after_seconds=5, reasons=frozenset({"DATABASE_FULL"})
        ),
    ),
    "clock-set-back": Fault(
        "The database's clock is set back by an hour, and an ingestor killed whose leases then seem long.",
        _clock_set_back,
        _ONE_OF_TWO,
    ),
    "provider-busy": Fault(
        "The provider of the language model answers 429.",
        _provider_busy,
        Bounds(
            failed_searches=0,
            slowest_seconds=15,
            well_after_seconds=5,
            reasons=frozenset({"PROVIDER_QUOTA_EXHAUSTED"}),
            calls_for_each_chat=3,
        ),
    ),
    "gateway-killed": Fault(
        "One of two gateways is killed, and started again; what is under way there breaks off.",
        _killed("envoy"),
        Bounds(failed_percent=5, slowest_seconds=15, well_after_seconds=0),
    ),
    "burst": Fault(
        "300 searches at once, beside the others.",
        _nothing,
        Bounds(slowest_seconds=30, well_after_seconds=10, is_ready=True, reasons=_REFUSED),
        burst=300,
    ),
    "neighbour": Fault(
        "Another client asks and hands in all that he is allowed to.",
        _nothing,
        Bounds(failed_percent=0, slowed=1.5, slowest_seconds=15, is_ready=True),
        neighbours={"searches": 64, "chats": 16, "hand_ins": 8, "completions": 8, "verifications": 8},
    ),
    "overload": Fault(
        "Searches come at twice the rate that the suite answers.",
        _nothing,
        Bounds(slowest_seconds=30, well_after_seconds=10, is_ready=True, reasons=_REFUSED),
        overload=2.0,
    ),
    "overload-10x": Fault(
        "Searches come at ten times the rate that the suite answers.",
        _nothing,
        Bounds(
            slowest_seconds=30,
            well_after_seconds=2,
            is_ready=True,
            reasons=_REFUSED,
            refused_seconds=0.3,
            goodput_share=0.85,
        ),
        overload=10.0,
    ),
}
"""Faults by name, as `--fault` takes it."""
