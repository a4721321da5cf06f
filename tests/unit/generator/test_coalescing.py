import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack

import pytest
from groundline_generator.coalescing import Pace, coalesced
from groundline_generator.domain import Completed, Delta, FinishReason, Usage, Validation
from groundline_runtime.errors import UnavailableError

UNPACED = Pace(1e9, 0)
END = Completed(FinishReason.STOP, Usage(), (), Validation(True, 1, 1, 1, 1), "m")


class Source:
    """Writes as fast as it may, and counts."""

    def __init__(self, count: int, failure: Exception | None = None) -> None:
        self.count = count
        self.failure = failure
        self.written = 0
        self.closed = False

    async def events(self) -> AsyncGenerator[Delta | Completed]:
        try:
            for _ in range(self.count):
                self.written += 1
                yield Delta("x" * 10)
            if self.failure:
                raise self.failure
            yield END
        finally:
            self.closed = True


async def idle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_source_waits_for_a_reader_that_does_not_read() -> None:
    source = Source(10_000)
    events = coalesced(source.events(), UNPACED, max_waiting_characters=100)
    await anext(events)
    await idle()
    assert source.written <= 21
    await events.aclose()
    assert source.closed


async def test_what_waited_comes_as_one_and_nothing_is_lost() -> None:
    source = Source(35)
    received = []
    async for event in coalesced(source.events(), UNPACED, max_waiting_characters=100):
        received.append(event)
        await idle()
    assert received[-1] is END
    texts = [event.text for event in received if isinstance(event, Delta)]
    assert "".join(texts) == "x" * 350
    assert len(texts) < 10


async def test_a_failure_comes_after_what_was_written_before() -> None:
    events = coalesced(
        Source(3, UnavailableError("DOWN", "down")).events(), UNPACED, max_waiting_characters=1000
    )
    assert await anext(events) == Delta("x" * 30)
    with pytest.raises(UnavailableError):
        await anext(events)


def test_the_more_streams_the_less_often_each_sends() -> None:
    pace = Pace(100, 0.025)
    seen = []
    with ExitStack() as streams:
        for _ in range(4):
            streams.enter_context(pace.stream())
            seen.append(pace.seconds)
    assert seen == [0.01, 0.02, 0.025, 0.025]
    assert pace.seconds == 0


async def test_the_end_does_not_wait_for_its_turn() -> None:
    """An hour between deltas: the first leaves at once, the rest with the end."""
    go_on = asyncio.Event()

    async def words() -> AsyncGenerator[Delta | Completed]:
        yield Delta("one")
        await go_on.wait()
        yield Delta("two")
        yield Delta("three")
        yield END

    events = coalesced(words(), Pace(1 / 3600, 3600), max_waiting_characters=100)
    assert await anext(events) == Delta("one")
    go_on.set()
    assert [event async for event in events] == [Delta("twothree"), END]
