"""grpc.health.v1 by checks: readiness follows the dependencies, liveness the process."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import structlog
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio

from groundline_runtime.telemetry.recording import is_recording
from groundline_runtime.waking import Waking

LIVENESS: Final = "liveness"
OVERALL: Final = ""
THREAD_SECONDS: Final = 60.0
"""Maximum wait for one of the event loop's threads, in seconds, in a process that lives: once all of them
hang, nothing but a new process helps."""
THREAD_CHECKS: Final = 6
"""Number of times that they are tried in as long."""

_UNASKED_FACTOR: Final = 3.5
"""Factor by which dependencies that work are checked less often while nobody asks: whoever asks gets a result
of his own, so these checks only make the log, and what is looked for beside the answer."""

_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING

_log = structlog.get_logger(__name__)

ReadinessCheck = Callable[[], Awaitable[None]]


class HealthMonitor:
    """Monitor that sets the health service's statuses.

    `liveness` is SERVING from the start, while the event loop's threads take work. The empty name and every
    service name are NOT_SERVING until all checks have passed once, and again whenever one fails or takes
    longer than `timeout_seconds`. Who asks is told what a check has found at most `interval_seconds` before,
    and waits for one otherwise; for those who watch, and while a check fails, there is one as often.
    """

    def __init__(
        self,
        services: Iterable[str],
        checks: Mapping[str, ReadinessCheck],
        *,
        interval_seconds: float,
        timeout_seconds: float,
        thread_seconds: float = THREAD_SECONDS,
    ) -> None:
        self.servicer: health_aio.HealthServicer = _AskingServicer(self)
        self._names = (OVERALL, *services)
        self._checks = dict(checks)
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._failing: dict[str, str] | None = None
        self._draining = False
        self._thread_seconds = thread_seconds
        self._given_up: set[asyncio.Task[None]] = set()
        self._checking: asyncio.Task[None] | None = None
        self._checked = -math.inf
        self._watchers = 0
        self._watched = Waking()

    async def start(self) -> None:
        """Set the first statuses; call before the port opens."""
        await self.servicer.set(LIVENESS, _SERVING)
        await self._set_readiness(_NOT_SERVING)

    async def watch(self) -> None:
        """Check the dependencies until the drain; without any, be ready once and for all."""
        try:
            await self.checked(within_seconds=0)
            while self._checks and not self._draining:
                seen = self._watched.calls
                pause = self._pause()
                await self._watched.wait(seen, self._checked + pause - time.monotonic())
                await self.checked(within_seconds=self._pause())
        finally:
            if self._checking is not None:
                self._checking.cancel()

    def _pause(self) -> float:
        """Return the time between two checks that nobody has asked for."""
        often = self._watchers or self._failing
        return self._interval_seconds * (1 if often else _UNASKED_FACTOR)

    async def checked(self, *, within_seconds: float | None = None) -> None:
        """Return once a check has ended that is not older than this, by default than the interval; wait for
        the one that is under way, or for a new one."""
        oldest = time.monotonic() - (self._interval_seconds if within_seconds is None else within_seconds)
        if self._draining or self._checked > oldest:
            return
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
            self._checking.add_done_callback(self._end_check)
        await asyncio.shield(self._checking)

    def _end_check(self, task: asyncio.Task[None]) -> None:
        self._checking = None
        # Without dependencies there is nothing to check again.
        self._checked = time.monotonic() if self._checks else math.inf

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Check as often as the interval says while the block runs."""
        self._watchers += 1
        self._watched.wake()
        try:
            yield
        finally:
            self._watchers -= 1

    async def watch_threads(self) -> None:
        """Check until cancelled that one of the event loop's threads takes work."""
        while True:
            await self._check_thread()
            await asyncio.sleep(self._thread_seconds / THREAD_CHECKS)

    async def _check_thread(self) -> None:
        work = asyncio.get_running_loop().run_in_executor(None, time.monotonic)
        await asyncio.wait([work], timeout=self._thread_seconds)
        if not work.done():
            _log.error("threads_hang", seconds=self._thread_seconds)
            await self.servicer.set(LIVENESS, _NOT_SERVING)
            await asyncio.wait([work])
            await self.servicer.set(LIVENESS, _SERVING)

    async def _check(self) -> None:
        """Run all checks at once and publish the result."""
        with _untraced():
            outcomes = await asyncio.gather(*(self._failure(check) for check in self._checks.values()))
        failing = {name: why for name, why in zip(self._checks, outcomes, strict=True) if why is not None}
        if self._draining:
            return
        await self._set_readiness(_NOT_SERVING if failing else _SERVING)
        if failing and failing != self._failing:
            _log.warning("service_not_ready", failing=failing)
        elif not failing and self._failing != failing:
            _log.info("service_ready", dependencies=sorted(self._checks))
        self._failing = failing

    async def drain(self) -> None:
        """Report NOT_SERVING for good; liveness stays."""
        self._draining = True
        self._watched.wake()
        await self._set_readiness(_NOT_SERVING)

    async def _failure(self, check: ReadinessCheck) -> str | None:
        """Return why a check fails, or None if it passes; only the type of the error, whose text may hold a
        DSN."""
        task = asyncio.ensure_future(check())
        try:
            await asyncio.wait([task], timeout=self._timeout_seconds)
        finally:
            task.cancel()
        if not task.done():
            # Its end, which may take time, is not awaited.
            self._given_up.add(task)
            task.add_done_callback(self._forget)
            return "no answer in time"
        error = task.exception()
        return None if error is None else type(error).__name__

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._given_up.discard(task)
        if not task.cancelled():
            task.exception()  # nobody wants to know

    async def _set_readiness(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        for name in self._names:
            await self.servicer.set(name, status)


class _AskingServicer(health_aio.HealthServicer):  # type: ignore[misc]
    """The health service, which has the dependencies checked for those who ask about readiness."""

    def __init__(self, monitor: HealthMonitor) -> None:
        super().__init__()
        self._monitor = monitor

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> Any:  # noqa: N802
        if request.service != LIVENESS:
            await self._monitor.checked()
        return await super().Check(request, context)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:  # noqa: N802
        with self._monitor.watched():
            await super().Watch(request, context)


def _untraced() -> AbstractContextManager[None]:
    """Leave the checks' own statements out of the traces."""
    if not is_recording():
        return nullcontext()
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    return suppress_instrumentation()
