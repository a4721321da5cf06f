"""Events on their way from the workflow to a peer that may be slow."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

from groundline_coordinator.domain import Delta, Event

__all__ = ["stream"]


class _Buffer:
    """Events in order. Deltas that wait become one; more text than `max_characters` makes the writer wait."""

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._events: deque[Event] = deque()
        self._characters = 0
        self._closed = False
        self._changed = asyncio.Condition()

    async def put(self, event: Event) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._characters < self._max_characters)
            if isinstance(event, Delta):
                self._characters += len(event.text)
                if self._events and isinstance(waiting := self._events[-1], Delta):
                    self._events[-1] = Delta(waiting.text + event.text)
                    return
            self._events.append(event)
            self._changed.notify_all()

    async def get(self) -> Event | None:
        """The next event, or None at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._events) or self._closed)
            if not self._events:
                return None
            event = self._events.popleft()
            if isinstance(event, Delta):
                self._characters -= len(event.text)
                self._changed.notify_all()
            return event

    async def close(self) -> None:
        async with self._changed:
            self._closed = True
            self._changed.notify_all()


async def stream[T](
    work: Callable[[Callable[[Event], Awaitable[None]]], Awaitable[T]], *, max_pending_characters: int
) -> AsyncGenerator[Event]:
    """What `work` emits, in order; it runs ahead of the reader by `max_pending_characters` of deltas.

    Raises what `work` raises, after all that it had emitted. Closing the stream cancels `work` and awaits it.
    """
    buffer = _Buffer(max_pending_characters)

    async def run() -> None:
        try:
            await work(buffer.put)
        finally:
            await buffer.close()

    task = asyncio.create_task(run(), name="workflow")
    try:
        while (event := await buffer.get()) is not None:
            yield event
        await task
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
