"""Circuit breaker: it keeps calls away from a provider that asked for a pause or fails repeatedly."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from groundline.v1 import chat_pb2
from groundline_runtime.context import remaining_seconds
from groundline_runtime.errors import GroundlineError, ResourceExhaustedError, UnavailableError
from groundline_runtime.reasons import reason_value

from groundline_generator.domain.calls import OnWait
from groundline_generator.metrics import PAUSED
from groundline_generator.service.quota import QuotaExhaustedError

_FAILURES_IN_A_ROW: Final = 5
"""Failures in a row after which the provider counts as down; a request for a pause (429) counts at once."""

_FIRST_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 30.0
_TRIAL_SECONDS: Final = 1.0
"""Time between a trial call and the next question of those that wait, in seconds."""


_TOLD_SECONDS: Final = 1.0
"""Minimum wait that is reported, in seconds; a shorter one is over before anybody has read of it."""


class Patience:
    """Total time that one call may still wait, in seconds; never past the request's deadline."""

    def __init__(
        self,
        max_seconds: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_wait: OnWait | None = None,
    ) -> None:
        self._own = max_seconds
        self._sleep = sleep
        self._on_wait = on_wait

    @property
    def seconds(self) -> float:
        left = remaining_seconds()
        return self._own if left is None else min(self._own, left)

    async def wait(self, seconds: float) -> None:
        self._own -= seconds
        await self._sleep(seconds)

    async def tell(self, reason: str, seconds: float = 0.0) -> None:
        """Report that a wait begins; 0 seconds if its length is unknown."""
        if self._on_wait is not None and not 0 < seconds < _TOLD_SECONDS:
            await self._on_wait(chat_pb2.ModelWait(reason=reason_value(reason), duration_seconds=seconds))


class Breaker:
    """Circuit breaker for one provider and process.

    During a pause nobody calls. After it one call goes ahead; the others follow once it has succeeded, so
    that a provider that has just recovered does not meet all waiting calls at once. What was under way as a
    pause began neither ends nor doubles it: it tells how the provider was before.
    """

    def __init__(
        self, *, provider: str = "", max_waiting: int = 100, clock: Callable[[], float] | None = None
    ) -> None:
        self._labels = {"gen_ai.provider.name": provider}
        self._max_waiting = max_waiting
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._answered()
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._paused_until = 0.0
        self._cause: GroundlineError | None = None
        self._trying = False
        self._waiting = 0
        self._pauses = 0

    @asynccontextmanager
    async def passage(self, patience: Patience) -> AsyncIterator[None]:
        """Allow one call inside the block, and judge the provider by its failure or success.

        Waits for the end of a pause. Raises the provider's last failure, with the time to wait, if that
        exceeds the call's patience or too many wait already.
        """
        trial = await self._admitted(patience)
        pauses = self._pauses
        try:
            yield
        except GroundlineError as error:
            self._failed(error, is_late=pauses != self._pauses)
            raise
        else:
            if pauses == self._pauses:
                self._answered()
                self._pause_seconds = _FIRST_PAUSE_SECONDS
        finally:
            if trial:
                self._trying = False

    async def _admitted(self, patience: Patience) -> bool:
        """Wait until a call may go; return whether it is the trial."""
        while self._cause is not None:
            wait = self._paused_until - self._clock()
            if wait <= 0 and not self._trying:
                self._trying = True
                return True
            wait = max(wait, _TRIAL_SECONDS) if self._trying else wait
            if wait > patience.seconds or self._waiting >= self._max_waiting:
                raise type(self._cause)(
                    self._cause.reason, self._cause.message, retry_after_seconds=wait
                ) from self._cause
            self._waiting += 1
            try:
                await patience.tell(self._cause.reason, wait)
                await patience.wait(wait)
            finally:
                self._waiting -= 1
        return False

    def _answered(self) -> None:
        self._failures, self._cause = 0, None
        PAUSED.set(0, self._labels)

    def _failed(self, error: GroundlineError, *, is_late: bool) -> None:
        """Judge a failure; `is_late` if a pause has begun since its call did."""
        if isinstance(error, QuotaExhaustedError):
            return  # a refusal of our own: the provider was not asked
        if not isinstance(error, ResourceExhaustedError | UnavailableError):
            # The provider answers, if only to refuse this request.
            if not is_late:
                self._answered()
            return
        pause = error.retry_after_seconds
        if is_late and pause is None:
            return
        self._failures += 1
        if isinstance(error, UnavailableError) and self._failures < _FAILURES_IN_A_ROW:
            return
        if pause is None:
            pause = self._pause_seconds
            self._pause_seconds = min(2 * pause, _MAX_PAUSE_SECONDS)
        self._cause = error
        PAUSED.set(1, self._labels)
        self._pauses += 1
        self._paused_until = max(self._paused_until, self._clock() + pause)
