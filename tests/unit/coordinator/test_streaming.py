import asyncio
from collections.abc import Awaitable, Callable

import pytest
from groundline_coordinator.domain import Delta, Event, Stage, StageBegan
from groundline_coordinator.streaming import stream

type Emit = Callable[[Event], Awaitable[None]]


async def test_a_failure_comes_after_everything_that_was_emitted() -> None:
    async def work(emit: Emit) -> None:
        await emit(Delta("a"))
        raise ValueError

    events = stream(work, max_pending_characters=10)
    seen = [await anext(events)]
    with pytest.raises(ValueError):  # noqa: PT011
        await anext(events)
    assert seen == [Delta("a")]


async def test_leaving_early_cancels_the_work_and_waits_for_it() -> None:
    ended = False

    async def work(emit: Emit) -> None:
        nonlocal ended
        try:
            await emit(Delta("a"))
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            ended = True

    events = stream(work, max_pending_characters=10)
    assert await anext(events) == Delta("a")
    await events.aclose()
    assert ended


async def test_deltas_join_while_the_reader_is_slow() -> None:
    finished = asyncio.Event()

    async def work(emit: Emit) -> None:
        await emit(StageBegan(Stage.GENERATING))
        for letter in "abc":
            await emit(Delta(letter))
        await emit(StageBegan(Stage.RETRIEVING))
        await emit(Delta("d"))
        finished.set()

    events = stream(work, max_pending_characters=100)
    first = await anext(events)
    await finished.wait()
    assert [first, *[event async for event in events]] == [
        StageBegan(Stage.GENERATING),
        Delta("abc"),
        StageBegan(Stage.RETRIEVING),
        Delta("d"),
    ]


async def test_work_waits_when_too_much_text_is_pending() -> None:
    emitted = 0

    async def work(emit: Emit) -> None:
        nonlocal emitted
        for _ in range(1000):
            await emit(Delta("x" * 10))
            emitted += 1

    events = stream(work, max_pending_characters=100)
    text = ""
    async for event in events:
        assert isinstance(event, Delta)
        assert len(event.text) <= 110
        text += event.text
        for _ in range(50):
            await asyncio.sleep(0)
        assert emitted * 10 <= len(text) + 110
    assert text == "x" * 10_000
