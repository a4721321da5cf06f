"""Threads in which connectors block, and the connections that end them."""

import asyncio
import socket
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final

from groundline_collector.changes import Change, Found

BATCH: Final = 200
"""Changes that are found before they are processed."""
BATCH_BYTES: Final = 1024**2
"""Maximum bytes of such changes in memory."""


class Connections:
    """Connections of one run, which are shut to end it: calls that block in its thread then return."""

    def __init__(self) -> None:
        self._held = weakref.WeakKeyDictionary[object, socket.socket]()
        self._lock = threading.Lock()
        self._is_shut = False

    def hold(self, owner: object, connection: socket.socket) -> None:
        """Have a connection shut with the others, until its owner is gone or has another. Raises OSError once
        the run has ended, and closes the connection."""
        with self._lock:
            if self._is_shut:
                connection.close()
                raise OSError("the run has ended")
            if (earlier := self._held.pop(owner, None)) is not None:
                earlier.close()
            # A duplicate, since TLS takes the descriptor of the given socket away.
            self._held[owner] = held = connection.dup()
            weakref.finalize(owner, held.close).atexit = False

    def shut(self) -> None:
        """Shut all connections; there will be no others."""
        with self._lock:
            self._is_shut = True
            for connection in self._held.values():
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
            self._held.clear()


class OwnThread:
    """Implements RunThread. It belongs to one run, so that one that hangs holds no other up."""

    def __init__(self) -> None:
        self.connections = Connections()
        self._executor = ThreadPoolExecutor(1, "collect")
        self._loop = asyncio.get_running_loop()
        self._awaited: Future[Any] | None = None

    async def call[**P, T](self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await self._loop.run_in_executor(self._executor, partial(work, *arguments, **named))

    def wait_for[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the event loop's work returns; blocks, in the thread."""
        awaited: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._awaited = awaited
        return awaited.result()

    async def batches(self, changes: Generator[Change]) -> AsyncGenerator[list[Change], None]:
        """Yield what a generator that blocks yields. One that is closed early ends its connections."""

        def step() -> list[Change]:
            found: list[Change] = []
            for change in changes:
                found.append(change)
                if is_full(found):
                    break
            return found

        def close() -> None:
            with suppress(Exception):
                changes.close()

        try:
            while found := await self.call(step):
                yield found
        finally:
            self.connections.shut()
            if self._awaited is not None:
                self._awaited.cancel()
            self._executor.submit(close)

    def end(self) -> None:
        """Let go of the thread, which ends when it comes back."""
        self._executor.shutdown(wait=False)


def is_full(changes: list[Change]) -> bool:
    """Tell whether changes are to be processed before others are looked for. They are at a cursor, since the
    connector may end after it."""
    last = changes[-1]
    is_place = not isinstance(last, Found) and last.HasField("reached")
    held = sum(change.held_bytes for change in changes if isinstance(change, Found))
    return len(changes) == BATCH or is_place or held > BATCH_BYTES
