"""Deltas for a reader that may be slow: what waits becomes one, and only so much waits."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress

from groundline_generator.domain import Completed, Delta

__all__ = ["Pace", "coalesced"]


class Pace:
    """How often the streams of a process may send a delta: less often the more of them there are.

    A message costs about the same whether it holds one word or three, here and in each hop behind, and with
    many streams that is what uses up the processors.
    """

    def __init__(self, deltas_per_second: float, longest_seconds: float) -> None:
        self._seconds_each = 1 / deltas_per_second
        self._longest_seconds = longest_seconds
        self._streams = 0

    @contextmanager
    def stream(self) -> Iterator[None]:
        """One stream more inside the block."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    @property
    def seconds(self) -> float:
        """Between two deltas of one stream."""
        return min(self._streams * self._seconds_each, self._longest_seconds)


async def coalesced(
    events: AsyncGenerator[Delta | Completed], pace: Pace, *, max_waiting_characters: int
) -> AsyncGenerator[Delta | Completed]:
    """The same events, read ahead by at most `max_waiting_characters`; then the source has to wait.

    The first delta leaves at once, those after it no more often than `pace` allows. Raises what the source
    raises, after all that came before. Closing this closes the source.
    """
    loop = asyncio.get_running_loop()
    earliest = loop.time()
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
        with pace.stream():
            while waiting or not finished:
                if not waiting:
                    arrived.clear()
                    await arrived.wait()
                elif (early := earliest - loop.time()) > 0 and not finished:
                    await asyncio.sleep(early)
                else:
                    text = "".join(waiting)
                    waiting.clear()
                    length = 0
                    taken.set()
                    earliest = loop.time() + pace.seconds
                    yield Delta(text)
            await reader
            if completed is not None:
                yield completed
    finally:
        if not reader.done():
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
