"""Places for threads and coroutines, at which clients take turns."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Final

from groundline_runtime.turns.queue import ClientQueue


class ClientTurns:
    """Places, at most `places` taken at a time, `share` of them by one client: all but one by default, if
    there are several.

    Whose turn it is says ClientQueue. For threads and for coroutines, which may wait for the same places.
    """

    def __init__(
        self, places: int, *, share: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._free = places
        self._share: Final = share or max(1, places - 1)
        self._queue = ClientQueue[Future[None]](clock=clock)
        self._lock = threading.Lock()

    @contextmanager
    def blocking(self, client: str) -> Iterator[None]:
        """Hold a turn for the block; the thread waits for it."""
        if asked := self._ask(client):
            asked.result()
        begun = self._clock()
        try:
            yield
        finally:
            self._leave(client, begun)

    @asynccontextmanager
    async def turn(
        self, client: str, waiting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    ) -> AsyncIterator[None]:
        """Hold a turn for the block; see `take`."""
        give_back = await self.take(client, waiting)
        try:
            yield
        finally:
            give_back()

    async def take(
        self, client: str, waiting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    ) -> Callable[[], None]:
        """Take a turn, and return what gives it back. If it must be waited for, that is done within
        `waiting`, whose failure gives the turn up."""
        if asked := self._ask(client):
            try:
                async with waiting():
                    await asyncio.wrap_future(asked)
            except BaseException:
                if not asked.cancel():  # it was granted at the same moment
                    self._leave(client, self._clock())
                raise
        return partial(self._leave, client, self._clock())

    def _ask(self, client: str) -> Future[None] | None:
        """Take a turn, or return what says when it comes."""
        with self._lock:
            # While places are free, only clients wait that hold as many as they may.
            if self._free and self._queue.take(client, self._share):
                self._free -= 1
                return None
            asked: Future[None] = Future()
            self._queue.add(client, asked)
            return asked

    def _leave(self, client: str, begun: float) -> None:
        """Give back a turn that began at an instant of the clock."""
        granted = []
        with self._lock:
            self._free += 1
            self._queue.leave(client, self._clock() - begun)
            while self._free and (first := self._queue.pop(self._share)):
                client, asked = first
                if asked.set_running_or_notify_cancel():
                    self._free -= 1
                    self._queue.take(client)
                    granted.append(asked)
        for asked in granted:
            asked.set_result(None)
