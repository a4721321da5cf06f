import asyncio
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from groundline_runtime.coalescing import Emit, Pace, coalesced
from groundline_runtime.errors import UnavailableError


@dataclass(frozen=True)
class Marker:
    """An event other than text."""

    name: str


END = Marker("end")


class Writer:
    """Writes as fast as it may, and counts."""

    def __init__(self, count: int, failure: Exception | None = None) -> None:
        self.count = count
        self.failure = failure
        self.written = 0
        self.closed = False

    async def __call__(self, emit: Emit[Marker]) -> None:
        try:
            for _ in range(self.count):
                self.written += 1
                await emit("x" * 10)
            if self.failure:
                raise self.failure
            await emit(END)
        finally:
            self.closed = True


async def idle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_writer_waits_for_a_reader_that_does_not_read() -> None:
    writer = Writer(10_000)
    events = coalesced(writer, max_waiting_characters=100)
    await anext(events)
    await idle()
    assert writer.written <= 21
    await events.aclose()
    assert writer.closed


async def test_what_waited_comes_as_one_and_nothing_is_lost() -> None:
    received = []
    async for event in coalesced(Writer(35), max_waiting_characters=100):
        received.append(event)
        await idle()
    assert received[-1] is END
    texts = [event for event in received if isinstance(event, str)]
    assert "".join(texts) == "x" * 350
    assert len(texts) < 10


async def test_a_failure_comes_after_what_was_written_before() -> None:
    events = coalesced(Writer(3, UnavailableError("DOWN", "down")), max_waiting_characters=1000)
    assert await anext(events) == "x" * 30
    with pytest.raises(UnavailableError):
        await anext(events)


async def test_text_is_never_joined_across_another_event() -> None:
    async def work(emit: Emit[Marker]) -> None:
        await emit(Marker("generating"))
        for letter in "abc":
            await emit(letter)
        await emit(Marker("retrieving"))
        await emit("d")

    assert [event async for event in coalesced(work, max_waiting_characters=100)] == [
        Marker("generating"),
        "abc",
        Marker("retrieving"),
        "d",
    ]


async def test_empty_text_is_no_event() -> None:
    async def work(emit: Emit[Marker]) -> None:
        await emit("")
        await emit(END)

    assert [event async for event in coalesced(work, max_waiting_characters=100)] == [END]


async def test_leaving_early_cancels_the_work_and_waits_for_it() -> None:
    ended = False

    async def work(emit: Emit[Marker]) -> None:
        nonlocal ended
        try:
            await emit("a")
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            ended = True

    events = coalesced(work, max_waiting_characters=10)
    assert await anext(events) == "a"
    await events.aclose()
    assert ended


def test_the_more_streams_the_less_often_each_sends() -> None:
    pace = Pace(100, 0.025)
    seen = []
    with ExitStack() as streams:
        for _ in range(4):
            streams.enter_context(pace.stream())
            seen.append(pace.gap_seconds)
    assert seen == [0.01, 0.02, 0.025, 0.025]
    assert pace.gap_seconds == 0


async def test_the_end_does_not_wait_for_its_turn() -> None:
    """An hour between texts: the first leaves at once, the rest with the end."""
    go_on = asyncio.Event()

    async def work(emit: Emit[Marker]) -> None:
        await emit("one")
        await go_on.wait()
        await emit("two")
        await emit("three")
        await emit(END)

    events = coalesced(work, max_waiting_characters=100, pace=Pace(1 / 3600, 3600))
    assert await anext(events) == "one"
    go_on.set()
    assert [event async for event in events] == ["twothree", END]


async def test_an_event_behind_text_does_not_wait_for_its_turn() -> None:
    never = asyncio.Event()

    async def work(emit: Emit[Marker]) -> None:
        await emit("one")
        await idle()
        await emit("two")
        await idle()
        await emit(END)
        await never.wait()

    events = coalesced(work, max_waiting_characters=100, pace=Pace(1 / 3600, 3600))
    assert [await anext(events) for _ in range(3)] == ["one", "two", END]
    await events.aclose()
