"""Limits of one process's use of a provider: calls at a time, at which clients take turns, and requests and
tokens per minute, first come, first served."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from groundline_runtime.context import current_caller, remaining_seconds
from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.turns import ClientTurns

QUOTA_EXHAUSTED: Final = "GENERATOR_QUOTA_EXHAUSTED"

_MINUTE_SECONDS: Final = 60.0


_PLACE_RETRY_SECONDS: Final = 1.0
"""Time after which a refused call should try again, in seconds; calls end one by one."""


@dataclass(slots=True, eq=False)
class _Taken:
    """An amount in use for a minute from `time` on; `time` is ahead while its owner waits."""

    time: float
    amount: int


class QuotaExhaustedError(ResourceExhaustedError):
    """This process has reached its own limit on calls of the provider."""

    def __init__(self, retry_after_seconds: float) -> None:
        super().__init__(
            QUOTA_EXHAUSTED,
            "the limit on calls to the language model is reached",
            retry_after_seconds=retry_after_seconds,
        )


class _Window:
    """A sliding minute of at most `limit`; an average would not do, since providers count in this way."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: deque[_Taken] = deque()
        self._total = 0

    def wait(self, amount: int, now: float) -> float:
        """Return the seconds until `amount` may be taken, after all earlier amounts; more than fits waits for
        an empty window."""
        while self._taken and self._taken[0].time + _MINUTE_SECONDS <= now:
            self._total -= self._taken.popleft().amount
        start = max(now, self._taken[-1].time) if self._taken else now
        excess = self._total + min(amount, self._limit) - self._limit
        for taken in self._taken:
            if excess <= 0:
                break
            excess -= taken.amount
            start = max(start, taken.time + _MINUTE_SECONDS)
        return start - now

    def take(self, amount: int, time: float) -> _Taken:
        taken = _Taken(time, amount)
        self._taken.append(taken)
        self._total += amount
        return taken

    def adjust(self, taken: _Taken, amount: int) -> None:
        """Correct an amount; without effect once its minute is over."""
        if taken in self._taken:
            self._total += amount - taken.amount
            taken.amount = amount

    def give_back(self, taken: _Taken) -> None:
        """Return an amount that is not used at all."""
        self._taken.remove(taken)
        self._total -= taken.amount


class Reservation:
    """Tokens reserved for a call; `settle` replaces the estimate by the tokens used."""

    def __init__(self, tokens: _Window | None, taken: _Taken | None) -> None:
        self._tokens = tokens
        self._taken = taken

    def settle(self, used: int) -> None:
        if self._tokens and self._taken:
            self._tokens.adjust(self._taken, used)


class Limiter:
    """A limiter that all calls to a provider share. A rate of None is unlimited."""

    def __init__(
        self,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        max_concurrent: int = 64,
        max_waiting: int = 100,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._requests = _Window(requests_per_minute) if requests_per_minute else None
        self._tokens = _Window(tokens_per_minute) if tokens_per_minute else None
        self._calls = ClientTurns(max_concurrent)
        self._max_waiting = max_waiting
        self._waiting = Counter[str]()
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep

    @asynccontextmanager
    async def place(self, on_wait: Callable[[str], Awaitable[None]] | None = None) -> AsyncIterator[None]:
        """Hold one of the concurrent calls for the block; `on_wait` is told why it waits.

        Clients take turns, and one of them has all calls but one. Raises QuotaExhaustedError if too many wait
        already.
        """
        client = current_caller().owner

        @asynccontextmanager
        async def waiting() -> AsyncIterator[None]:
            with self._queued(client, _PLACE_RETRY_SECONDS):
                if on_wait is not None:
                    await on_wait(QUOTA_EXHAUSTED)
                yield

        async with self._calls.turn(client, waiting):
            yield

    async def reserve(
        self, tokens: int, on_wait: Callable[[str, float], Awaitable[None]] | None = None
    ) -> Reservation:
        """Wait for the right to one request of about `tokens`; `on_wait` is told why and how long.

        Raises QuotaExhaustedError, with the time to wait, if too many wait already or the request's deadline
        would pass before its turn.
        """
        now = self._clock()
        wait = max(
            self._requests.wait(1, now) if self._requests else 0.0,
            self._tokens.wait(tokens, now) if self._tokens else 0.0,
        )
        if wait > 0:
            left = remaining_seconds()
            if left is not None and wait >= left:
                raise QuotaExhaustedError(wait)
        request = self._requests.take(1, now + wait) if self._requests else None
        taken = self._tokens.take(tokens, now + wait) if self._tokens else None
        if wait > 0:
            try:
                with self._queued(current_caller().owner, wait):
                    if on_wait is not None:
                        await on_wait(QUOTA_EXHAUSTED, wait)
                    await self._sleep(wait)
            except BaseException:
                if self._requests and request:
                    self._requests.give_back(request)
                if self._tokens and taken:
                    self._tokens.give_back(taken)
                raise
        return Reservation(self._tokens, taken)

    @contextmanager
    def _queued(self, client: str, wait_seconds: float) -> Iterator[None]:
        """Count a call as waiting. Raises QuotaExhaustedError if too many wait already and one of them is the
        client's."""
        if self._waiting.total() >= self._max_waiting and (self._waiting[client] or not self._max_waiting):
            raise QuotaExhaustedError(wait_seconds)
        self._waiting[client] += 1
        try:
            yield
        finally:
            self._waiting[client] -= 1
            self._waiting += Counter()  # drops clients of whom nothing waits
