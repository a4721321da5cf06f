"""Places for threads and coroutines, at which clients take turns."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Final

from groundline_runtime.turns.queue import ClientQueue


class ClientTurns:
    """Places, at most `places` taken at a time; one client has all but one of them, if there are several.

    Whose turn it is says ClientQueue. For threads and for coroutines, which may wait for the same places.
    """

    def __init__(self, places: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free = places
        self._share: Final = max(1, places - 1)
        self._queue = ClientQueue[Future[None]](clock=clock)
        self._lock = threading.Lock()

    @contextmanager
    def blocking(self, client: str) -> Iterator[None]:
        """Hold a turn for the block; the thread waits for it."""
        self._ask(client).result()
        begun = self._clock()
        try:
            yield
        finally:
            self._leave(client, self._clock() - begun)

    @asynccontextmanager
    async def turn(
        self, client: str, waiting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    ) -> AsyncIterator[None]:
        """Hold a turn for the block. If it must be waited for, that is done within `waiting`, whose failure
        gives the turn up."""
        granted = self._ask(client)
        try:
            if not granted.done():  # otherwise the loop would have to be woken
                async with waiting():
                    await asyncio.wrap_future(granted)
        except BaseException:
            if not granted.cancel():  # it was granted at the same moment
                self._leave(client, 0.0)
            raise
        begun = self._clock()
        try:
            yield
        finally:
            self._leave(client, self._clock() - begun)

    def _ask(self, client: str) -> Future[None]:
        asked: Future[None] = Future()
        with self._lock:
            self._queue.add(client, asked)
        self._grant()
        return asked

    def _leave(self, client: str, held_seconds: float) -> None:
        with self._lock:
            self._free += 1
            self._queue.leave(client, held_seconds)
        self._grant()

    def _grant(self) -> None:
        granted = []
        with self._lock:
            while self._free and (first := self._queue.pop(self._share)):
                client, asked = first
                if asked.set_running_or_notify_cancel():
                    self._free -= 1
                    self._queue.take(client)
                    granted.append(asked)
        for asked in granted:
            asked.set_result(None)
