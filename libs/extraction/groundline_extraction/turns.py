"""Turns at scarce places, so that no client keeps the others from them."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from cachetools import LRUCache

__all__ = ["ClientTurns", "RecentUse"]

HALF_LIFE_SECONDS: Final = 60.0
"""Time after which half of what a client has used is forgotten, in seconds."""
MAX_CLIENTS: Final = 10_000


class RecentUse:
    """Time that clients have lately used of something scarce, in seconds."""

    def __init__(
        self, *, half_life_seconds: float = HALF_LIFE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock: Final = clock
        self._half_life_seconds = half_life_seconds
        self._used = LRUCache[str, tuple[float, float]](MAX_CLIENTS)
        """Seconds used, and when they were counted."""

    def of(self, client: str) -> float:
        """Return the seconds that a client has lately used."""
        now = self.clock()
        used, counted = self._used.get(client, (0.0, now))
        return float(used * 0.5 ** ((now - counted) / self._half_life_seconds))

    def of_all(self) -> Mapping[str, float]:
        """Return the seconds of each client that has used any."""
        return self.of_each(self._used)

    def of_each(self, clients: Iterable[str]) -> Mapping[str, float]:
        """Return the seconds of each of these clients, by which to order what is theirs: each is looked up
        once, since time passes between two looks, and the later one shows less use."""
        return {client: self.of(client) for client in set(clients)}

    def add(self, client: str, seconds: float) -> None:
        """Charge a client."""
        self._used[client] = (self.of(client) + seconds, self.clock())


class ClientTurns:
    """Places, at most `places` taken at a time; one client has all but one of them, if there are several.

    The client with the fewest places goes first, of several the one that has lately held places for the least
    time, and of its turns the one that has waited longest. For threads and for coroutines, which may wait for
    the same places.
    """

    def __init__(self, places: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._used = RecentUse(clock=clock)
        self._free = places
        self._share: Final = max(1, places - 1)
        self._taken: Counter[str] = Counter()
        self._waiting: list[tuple[str, Future[None]]] = []
        self._lock = threading.Lock()

    @contextmanager
    def blocking(self, client: str) -> Iterator[None]:
        """Hold a turn for the block; the thread waits for it."""
        self._ask(client).result()
        begun = self._used.clock()
        try:
            yield
        finally:
            self._leave(client, self._used.clock() - begun)

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Hold a turn for the block."""
        granted = self._ask(client)
        try:
            if not granted.done():  # otherwise the loop would have to be woken
                await asyncio.wrap_future(granted)
        except asyncio.CancelledError:
            if not granted.cancel():  # it was granted at the same moment
                self._leave(client, 0.0)
            raise
        begun = self._used.clock()
        try:
            yield
        finally:
            self._leave(client, self._used.clock() - begun)

    def _ask(self, client: str) -> Future[None]:
        asked: Future[None] = Future()
        with self._lock:
            self._waiting.append((client, asked))
        self._grant()
        return asked

    def _leave(self, client: str, held_seconds: float) -> None:
        with self._lock:
            self._used.add(client, held_seconds)
            self._free += 1
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
        self._grant()

    def _grant(self) -> None:
        granted = []
        with self._lock:
            used = self._used.of_each(client for client, _ in self._waiting)
            while self._free and self._waiting:
                first = min(self._waiting, key=lambda waiting: (self._taken[waiting[0]], used[waiting[0]]))
                client, asked = first
                if self._taken[client] >= self._share:
                    break
                self._waiting.remove(first)
                if asked.set_running_or_notify_cancel():
                    self._free -= 1
                    self._taken[client] += 1
                    granted.append(asked)
        for asked in granted:
            asked.set_result(None)
