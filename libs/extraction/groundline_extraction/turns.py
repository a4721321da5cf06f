"""Turns at scarce places, so that no client keeps the others from them."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Final

__all__ = ["ClientTurns"]


class ClientTurns:
    """Places, at most `places` taken at a time; one client has all but one of them, if there are several.

    The client with the fewest places goes first, and of several the one that has waited longest. For threads
    and for coroutines, which may wait for the same places.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._share: Final = max(1, places - 1)
        self._taken: Counter[str] = Counter()
        self._waiting: list[tuple[str, Future[None]]] = []
        self._lock = threading.Lock()

    @contextmanager
    def blocking(self, client: str) -> Iterator[None]:
        """Hold a turn for the block; the thread waits for it."""
        self._ask(client).result()
        try:
            yield
        finally:
            self._leave(client)

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Hold a turn for the block."""
        granted = self._ask(client)
        try:
            if not granted.done():  # otherwise the loop would have to be woken
                await asyncio.wrap_future(granted)
        except asyncio.CancelledError:
            if not granted.cancel():  # it was granted at the same moment
                self._leave(client)
            raise
        try:
            yield
        finally:
            self._leave(client)

    def _ask(self, client: str) -> Future[None]:
        asked: Future[None] = Future()
        with self._lock:
            self._waiting.append((client, asked))
        self._grant()
        return asked

    def _leave(self, client: str) -> None:
        with self._lock:
            self._free += 1
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
        self._grant()

    def _grant(self) -> None:
        granted = []
        with self._lock:
            while self._free and self._waiting:
                first = min(self._waiting, key=lambda waiting: self._taken[waiting[0]])
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
