"""How much of a provider one process may use: requests and tokens per minute, first come, first served."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from groundline_runtime.context import remaining_seconds
from groundline_runtime.errors import ResourceExhaustedError

__all__ = ["Limiter", "Reservation"]


class _Bucket:
    """The generic cell rate algorithm: a full bucket allows one minute's worth at once."""

    def __init__(self, per_minute: int) -> None:
        self._capacity = per_minute
        self._seconds_each = 60 / per_minute
        # The instant at which everything reserved so far will have been earned.
        self._earned_at = 0.0

    def wait(self, amount: int, now: float) -> float:
        """Seconds until `amount` may be taken; more than fits waits for a full bucket."""
        asked = min(amount, self._capacity) * self._seconds_each
        return max(0.0, max(self._earned_at, now) + asked - 60 - now)

    def take(self, amount: int, now: float) -> None:
        """Negative amounts give back."""
        self._earned_at = max(self._earned_at, now) + amount * self._seconds_each


@dataclass(slots=True)
class Reservation:
    """What a call was allowed; `settle` replaces the tokens guessed by those used."""

    limiter: "Limiter"
    tokens: int

    def settle(self, used: int) -> None:
        self.limiter.adjust(used - self.tokens)
        self.tokens = used


class Limiter:
    """Shared by all calls to a provider. None means unlimited."""

    def __init__(
        self,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        max_waiting: int = 100,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._requests = _Bucket(requests_per_minute) if requests_per_minute else None
        self._tokens = _Bucket(tokens_per_minute) if tokens_per_minute else None
        self._max_waiting = max_waiting
        self._waiting = 0
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep

    async def reserve(self, tokens: int) -> Reservation:
        """Wait for the right to one request of about `tokens`.

        Raises ResourceExhaustedError, with the time to wait, where too many wait already or the request's
        deadline would pass before its turn.
        """
        now = self._clock()
        wait = max(
            self._requests.wait(1, now) if self._requests else 0.0,
            self._tokens.wait(tokens, now) if self._tokens else 0.0,
        )
        if wait > 0:
            left = remaining_seconds()
            if self._waiting >= self._max_waiting or (left is not None and wait >= left):
                raise ResourceExhaustedError(
                    "GENERATOR_QUOTA_EXHAUSTED",
                    "the limit on calls to the language model is reached",
                    retry_after_seconds=wait,
                )
        self._take(1, tokens, now)
        if wait > 0:
            self._waiting += 1
            try:
                await self._sleep(wait)
            except BaseException:
                self._take(-1, -tokens, self._clock())
                raise
            finally:
                self._waiting -= 1
        return Reservation(self, tokens)

    def adjust(self, tokens: int) -> None:
        self._take(0, tokens, self._clock())

    def _take(self, requests: int, tokens: int, now: float) -> None:
        if self._requests:
            self._requests.take(requests, now)
        if self._tokens:
            self._tokens.take(tokens, now)
