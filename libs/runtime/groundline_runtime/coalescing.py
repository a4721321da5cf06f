"""Streams of text and other events for readers that may be slow: text that waits is joined, and bounded."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

type Emit[E] = Callable[[E | str], Awaitable[None]]
"""Takes the next event of a stream; a `str` is text to append."""


class Pace:
    """Pace of a process's text streams: the more streams, the less often each sends.

    A message costs about the same whether it holds one word or three, here and at every hop behind, and with
    many streams that is what uses up the processors.
    """

    def __init__(self, texts_per_second: float, maximum_gap_seconds: float) -> None:
        self._seconds_each = 1 / texts_per_second
        self._maximum_gap_seconds = maximum_gap_seconds
        self._streams = 0

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count one more stream inside the block."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    @property
    def gap_seconds(self) -> float:
        """Time between two texts of one stream, in seconds."""
        return min(self._streams * self._seconds_each, self._maximum_gap_seconds)


UNPACED: Final = Pace(float("inf"), 0)


class _Text:
    """Pieces that leave as one."""

    def __init__(self) -> None:
        self.pieces: list[str] = []


async def coalesced[E](
    work: Callable[[Emit[E]], Awaitable[object]], *, max_waiting_characters: int, pace: Pace = UNPACED
) -> AsyncGenerator[E | str]:
    """Yield the output of `work`, in order; it runs ahead of the reader by at most `max_waiting_characters`
    of text.

    Neighbouring texts that wait become one. The first leaves at once and later ones no more often than `pace`
    allows, unless another event or the end is behind them. Raises what `work` raises, after all that it had
    emitted. Closing the stream cancels `work` and waits for it.
    """
    loop = asyncio.get_running_loop()
    waiting: deque[E | _Text] = deque()
    waiting_characters = 0
    finished = False
    arrived, due, room = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def emit(event: E | str) -> None:
        nonlocal waiting_characters
        if not isinstance(event, str):
            waiting.append(event)
            due.set()
        elif event:
            if not waiting or not isinstance(last := waiting[-1], _Text):
                waiting.append(last := _Text())
            last.pieces.append(event)
            waiting_characters += len(event)
        arrived.set()
        while waiting_characters >= max_waiting_characters:
            room.clear()
            await room.wait()

    async def run() -> None:
        nonlocal finished
        try:
            await work(emit)
        finally:
            finished = True
            arrived.set()
            due.set()

    task = asyncio.create_task(run(), name="stream")
    earliest = loop.time()
    try:
        with pace.stream():
            while waiting or not finished:
                if not waiting:
                    arrived.clear()
                    await arrived.wait()
                    continue
                first = waiting[0]
                if not isinstance(first, _Text):
                    waiting.popleft()
                    yield first
                    continue
                early = earliest - loop.time()
                if early > 0 and len(waiting) == 1 and not finished:
                    due.clear()
                    timer = loop.call_later(early, due.set)
                    await due.wait()
                    timer.cancel()
                    continue
                waiting.popleft()
                text = "".join(first.pieces)
                waiting_characters -= len(text)
                room.set()
                earliest = loop.time() + pace.gap_seconds
                yield text
        await task
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
