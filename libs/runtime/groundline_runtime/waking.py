"""Waking of tasks that wait for work."""

import asyncio
from contextlib import suppress


class Waking:
    """An event that wakes all waiting tasks, and those about to wait: each says which call it has seen."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self.calls = 0
        """Number of calls so far; read it before looking for work."""

    def wake(self) -> None:
        """Wake: there may be work now."""
        self.calls += 1
        self._next.set()
        self._next = asyncio.Event()

    def wake_after(self, seconds: float) -> None:
        """Wake after this many seconds."""
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def wait(self, seen: int, seconds: float | None = None) -> None:
        """Wait until a call after the one that was `seen`, or until the time is up, if there is a limit."""
        if self.calls == seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._next.wait()
