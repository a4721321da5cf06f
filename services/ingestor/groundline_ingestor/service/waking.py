"""How those who wait for work learn of it."""

import asyncio
from contextlib import suppress

__all__ = ["Waking"]


class Waking:
    """Wakes all who wait, and those who were about to: each says which call it has seen."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self.calls = 0
        """How often somebody called; look at it before looking for work."""

    def wake(self) -> None:
        """There may be work now."""
        self.calls += 1
        self._next.set()
        self._next = asyncio.Event()

    def wake_after(self, seconds: float) -> None:
        """There may be work then."""
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def wait(self, seen: int, seconds: float) -> None:
        """Until a call after the one that was `seen`, or until the time is up."""
        if self.calls == seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._next.wait()
