"""Admission of requests: which a server works on, which wait for their turn, and which it refuses at once.

Requests wait here, in one queue whose order and length are known, rather than unseen in front of the database
or a processor. Their clients take turns in it. The number worked on at a time follows from how long they
take; a request that would not get its turn in time is refused at once, while its client can still act.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final
from weakref import WeakSet

from groundline_runtime.context import HELD_PLACE, current_caller, has_begun, remaining_seconds
from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.metrics.common import (
    PLACE_WAIT,
    REQUESTS_REFUSED,
    REQUESTS_UNDER_WAY,
    REQUESTS_WAITING,
)
from groundline_runtime.serving.share import ClientShare
from groundline_runtime.turns import ClientQueue

MAX_WAIT_SECONDS: Final = 2.0
"""Maximum wait for a turn, in seconds; a request that would wait longer is refused. Calls of a chat that has
begun wait until their deadline."""
MAX_WAITING: Final = 1_000
"""Maximum number of requests that wait for their turn."""

_MIN_CONCURRENCY: Final = 32
"""Minimum limit. Requests that differ by nature look as if some had waited, which must not slow down a
service that only waits for others; this many are more than any processor needs, and are still answered in a
second."""
_MAX_CONCURRENCY: Final = 1_024
_FORGET_SECONDS: Final = 60.0
"""Time after which a least duration is forgotten, in seconds, at the latest after twice as long: data grows,
and machines change."""
_QUEUED_LITTLE: Final = 0.25
_QUEUED_MUCH: Final = 0.5
_SMOOTHING: Final = 0.1


class ConcurrencyLimit:
    """Limit of concurrent requests, derived from their durations.

    TCP Vegas (Brakmo and Peterson, 1995), as Netflix's concurrency-limits applies it to requests: the least
    duration of a method is taken for its duration alone, so of `limit` requests `limit * (1 - least /
    duration)` wait somewhere. If less than a quarter waits, the limit grows by one for each round of
    requests, as long as it is used; if more than half does, it shrinks. Vegas has fixed numbers in place of
    the shares; they would not suit limits between 32 and 1,024.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limit = float(_MIN_CONCURRENCY)
        self.value = _MIN_CONCURRENCY
        """Current limit, in requests."""
        self._least: dict[str, float] = {}
        self._least_before: dict[str, float] = {}
        self._forget_at = clock() + _FORGET_SECONDS

    def observe(self, method: str, seconds: float, under_way: int) -> None:
        """Record the duration of a request, one of `under_way` at its end."""
        if self._clock() >= self._forget_at:
            self._least_before, self._least = self._least, {}
            self._forget_at = self._clock() + _FORGET_SECONDS
        self._least[method] = min(seconds, self._least.get(method, seconds))
        least = min(self._least[method], self._least_before.get(method, seconds))
        queued = 1 - least / seconds if seconds > 0 else 0.0
        if queued > _QUEUED_MUCH:
            self._limit = max(_MIN_CONCURRENCY, self._limit - 1 / self._limit)
        elif queued < _QUEUED_LITTLE and under_way >= self._limit / 2:
            self._limit = min(_MAX_CONCURRENCY, self._limit + 1 / self._limit)
        self.value = int(self._limit)


_admissions: Final[WeakSet["Admission"]] = WeakSet()
REQUESTS_UNDER_WAY.observe(lambda: [(sum(each.under_way for each in [*_admissions]), {})])
REQUESTS_WAITING.observe(lambda: [(sum(each.waiting for each in [*_admissions]), {})])


class Admission:
    """Places of a server, and the queue for them.

    Clients take turns, as ClientQueue says: however many requests of one wait, a single one of another gets
    the next place. A client is the owner for whom a request acts. Calls of a chat that has begun are urgent.
    With a `share`, no client holds more places than it says.
    """

    def __init__(
        self,
        *,
        limit: ConcurrencyLimit | None = None,
        share: ClientShare | None = None,
        max_wait_seconds: float = MAX_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit or ConcurrencyLimit(clock)
        self._share = share
        self._max_wait_seconds = max_wait_seconds
        self.clock = clock
        self._under_way = 0
        self._queue = ClientQueue[asyncio.Future[None]](clock=clock)
        self._mean_seconds = 0.0
        self._turn_seconds: float | None = None
        """Time from one turn to the next while requests wait, in seconds; kept for the next queue, which
        needs it at once."""
        self._last_turn: float | None = None
        _admissions.add(self)

    @property
    def under_way(self) -> int:
        """Number of requests that hold a place."""
        return self._under_way

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._queue)

    def place(self, method: str) -> "AbstractAsyncContextManager[None]":
        """Hold a place for the block, or until `give_place_back`.

        Raises ResourceExhaustedError (OVERLOADED) at once if the turn would come too late for the request's
        deadline or the queue is full, and later if it does not come as expected, or if others need the place
        in a full queue of which this client has most.
        """
        return _HeldPlace(self, method)

    async def enter(self, client: str, first: bool) -> None:
        """Wait for a place, which must be given back by `leave`; see `place`."""
        limit = self._limit.value
        if self._share is not None:
            self._share.ask(client)
            self._share.look(self._under_way)
        if self._queue:
            self._admit()
        # While places are free, only clients wait that hold as many as they may.
        if self._under_way < limit and self._queue.take(client, self._max_taken()):
            self._under_way += 1
            return
        left = remaining_seconds()
        patience = left if first and left is not None else self._max_wait_seconds
        if left is not None:
            patience = min(patience, left - self._mean_seconds)
        ahead = self._queue.ahead_of(client, urgent=first)
        wait = (ahead + 1) * (self._turn_seconds or self._mean_seconds / limit)
        # Who waits for nobody but itself would be refused at once only to ask again, which costs the others.
        is_full = self._under_way >= limit
        if (is_full and wait > patience) or not self._has_room(client, wait):
            raise self._overloaded(wait)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._queue.add(client, turn, urgent=first)
        began = self.clock()
        expiry = loop.call_later(patience, self._expire, turn, wait)
        try:
            await turn
            PLACE_WAIT.record(self.clock() - began)
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:
                # Its turn came at the same moment.
                self._end(client, 0.0)
            raise
        finally:
            expiry.cancel()
            self._queue.discard(client, turn)

    def _has_room(self, client: str, expected_seconds: float) -> bool:
        """Tell whether one more may wait: in a full queue, in place of one of a client that has more."""
        if self.waiting < MAX_WAITING:
            return True
        excess = self._queue.pop_excess(client)
        if excess is not None:
            self._expire(excess, expected_seconds)
        return excess is not None

    def _expire(self, turn: asyncio.Future[None], expected_seconds: float) -> None:
        if not turn.done():
            turn.set_exception(self._overloaded(expected_seconds))

    def leave(self, client: str, method: str, seconds: float, *, is_done: bool) -> None:
        """Free a place that was held for `seconds`."""
        if is_done:
            self._limit.observe(method, seconds, self._under_way)
            self._mean_seconds += _SMOOTHING * (seconds - self._mean_seconds)
        if self._queue:
            self._measure_turn()
        else:
            self._last_turn = None
        self._end(client, seconds)

    def _max_taken(self) -> int:
        """Return the maximum number of places of one client."""
        return min(self._limit.value, self._share.value) if self._share else self._limit.value

    def _end(self, client: str, held_seconds: float) -> None:
        self._under_way -= 1
        self._queue.leave(client, held_seconds)
        if self._share is not None:
            self._share.look(self._under_way)
        if self._queue:
            self._admit()

    def _measure_turn(self) -> None:
        now, before = self.clock(), self._last_turn
        self._last_turn = now
        if before is None:
            return
        known = self._turn_seconds
        self._turn_seconds = now - before if known is None else known + _SMOOTHING * (now - before - known)

    def _admit(self) -> None:
        """Give free places to those whose turn it is."""
        while self._under_way < self._limit.value and (first := self._queue.pop(self._max_taken())):
            client, turn = first
            if not turn.done():  # a cancelled one no longer waits
                self._under_way += 1
                self._queue.take(client)
                turn.set_result(None)

    def _overloaded(self, wait_seconds: float) -> ResourceExhaustedError:
        REQUESTS_REFUSED.add(1)
        return ResourceExhaustedError(
            "OVERLOADED",
            "more requests than can be answered in time; try again later",
            retry_after_seconds=max(1.0, wait_seconds),
        )


class _HeldPlace(AbstractAsyncContextManager[None]):
    """Place of a request for a block. A class, since every request has one, and a generator takes longer."""

    __slots__ = ("_admission", "_client", "_entered", "_is_held", "_method", "_token")

    def __init__(self, admission: Admission, method: str) -> None:
        self._admission = admission
        self._method = method

    async def __aenter__(self) -> None:
        self._client = current_caller().owner
        await self._admission.enter(self._client, has_begun())
        self._entered, self._is_held = self._admission.clock(), True
        self._token = HELD_PLACE.set(self)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        HELD_PLACE.reset(self._token)
        # A request that fails fast says nothing about how long the work takes.
        self.give_back(is_done=kind is None)

    def give_back(self, *, is_done: bool = True) -> None:
        """Free the place; a second call does nothing."""
        if self._is_held:
            self._is_held = False
            held_seconds = self._admission.clock() - self._entered
            self._admission.leave(self._client, self._method, held_seconds, is_done=is_done)
