"""Calls of the generator, at the pace that it allows."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from groundline_runtime.errors import Code, GroundlineError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_delay
from tenacity.wait import wait_exponential_jitter

PATIENCE_SECONDS: Final = 900.0
"""Time for which a call is retried while the generator is over its quota or out of reach, in seconds."""

_TRANSIENT: Final = (Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)

_log = structlog.get_logger(__name__)


class GeneratorCalls:
    """Turns of calls of the generator.

    One object is shared by all documents of a process: together they make at most `calls` calls at a time,
    and when the generator tells one of them to wait, all do.
    """

    def __init__(self, calls: int = 4, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._turns = asyncio.Semaphore(calls)
        self._sleep = sleep
        self._resume_time = 0.0  # of time.monotonic
        self._backoff = wait_exponential_jitter(initial=1, max=60)

    async def patiently[T](self, call: Callable[[], Awaitable[T]]) -> T:
        """Call the generator when it is our turn, repeatedly while a retry may help."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_transient),
            wait=self._wait_seconds,
            stop=stop_after_delay(PATIENCE_SECONDS),
            sleep=self._sleep,
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                if (pause := self._resume_time - time.monotonic()) > 0:
                    await self._sleep(pause)
                async with self._turns:
                    return await call()
        raise AssertionError("tenacity returns or raises")

    def _wait_seconds(self, state: RetryCallState) -> float:
        """Return the wait that the generator asks for, at least a growing back-off; meanwhile no other call
        begins."""
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after_seconds if isinstance(error, GroundlineError) else None
        seconds = max(asked or 0.0, self._backoff(state))
        self._resume_time = max(self._resume_time, time.monotonic() + seconds)
        reason = error.reason if isinstance(error, GroundlineError) else ""
        _log.info("contextualization_slowed", seconds=round(seconds, 1), reason=reason)
        return seconds


def is_transient(error: BaseException) -> bool:
    """Return whether a call may succeed later that failed with this."""
    return isinstance(error, GroundlineError) and error.code in _TRANSIENT
