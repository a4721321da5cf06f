"""Deltas for a reader that may be slow: what waits becomes one, and only so much waits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from groundline_generator.domain import Completed, Delta

__all__ = ["coalesced"]


async def coalesced(
    events: AsyncGenerator[Delta | Completed], *, max_waiting_characters: int
) -> AsyncGenerator[Delta | Completed]:
    """The same events, read ahead by at most `max_waiting_characters`; then the source has to wait.

    Raises what the source raises, after all that came before. Closing this closes the source.
    """
    waiting: list[str] = []
    length = 0
    completed: Completed | None = None
    finished = False
    arrived, taken = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        nonlocal completed, finished, length
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Completed):
                        completed = event
                        continue
                    waiting.append(event.text)
                    length += len(event.text)
                    arrived.set()
                    while length >= max_waiting_characters:
                        taken.clear()
                        await taken.wait()
        finally:
            finished = True
            arrived.set()

    reader = asyncio.create_task(read(), name="model-stream")
    try:
        while waiting or not finished:
            if waiting:
                text = "".join(waiting)
                waiting.clear()
                length = 0
                taken.set()
                yield Delta(text)
            else:
                arrived.clear()
                await arrived.wait()
        await reader
        if completed is not None:
            yield completed
    finally:
        if not reader.done():
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
