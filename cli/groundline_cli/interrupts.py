"""Coroutines that Ctrl-C ends at once."""

import asyncio
import signal
import socket
from collections.abc import Coroutine
from typing import Any


def run_interruptible[T](work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does. Raises KeyboardInterrupt, after the coroutine's own cleaning up.

    An interrupt that comes just before the event loop begins to wait does not end the wait of `asyncio.run`,
    which may last until the next answer. Here a byte wakes the loop for each signal.
    """

    async def woken() -> T:
        waking, signalled = socket.socketpair()
        loop = asyncio.get_running_loop()
        with waking, signalled:
            for end in (waking, signalled):
                end.setblocking(False)
            loop.add_reader(waking, waking.recv, 4096)
            before = signal.set_wakeup_fd(signalled.fileno())
            try:
                return await work
            finally:
                signal.set_wakeup_fd(before)
                loop.remove_reader(waking)

    return asyncio.run(woken())
