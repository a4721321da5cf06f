"""Work that outlives its request, such as storing an answer that its caller no longer waits for."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import structlog

from groundline_runtime.context import Waits, counting, deadline_at, deadline_within
from groundline_runtime.errors import GroundlineError

_log = structlog.get_logger(__name__)


class DetachedWork:
    """Work that runs to its end, whatever happens to the request; work with the database has a limit."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._running: set[asyncio.Task[Any]] = set()

    def run[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name="store")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def in_own_time(self, work: Coroutine[Any, Any, None]) -> GroundlineError | None:
        """Run work by a deadline of its own; a failure is logged and returned."""
        seconds = self._timeout_seconds
        try:
            with counting(Waits()), deadline_at(time.monotonic() + seconds):
                async with deadline_within(seconds):
                    await work
        except GroundlineError as error:
            _log.warning("not_stored", reason=error.reason)
            return error
        return None

    async def settle(self) -> None:
        """Wait for all work; call it when no more requests come."""
        await asyncio.gather(*self._running, return_exceptions=True)
