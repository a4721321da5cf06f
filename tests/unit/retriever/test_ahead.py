"""Work that begins before it is known whether what it rests on is still so."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from operator import eq

import pytest
from groundline_retriever.ahead import begun_ahead


@dataclass
class Work:
    """Doubles a number; it fails for the numbers given, and hangs on one."""

    fails_for: tuple[int, ...] = ()
    hangs_on: int | None = None
    begun: list[int] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    was_cancelled: bool = False

    async def on(self, number: int) -> int:
        self.begun.append(number)
        self.reached.set()
        if number in self.fails_for:
            raise ValueError(number)
        if number == self.hangs_on:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
        return 2 * number

    async def of(self, expected: int | None, look_up: Awaitable[int]) -> int:
        return await begun_ahead(expected, look_up, eq, self.on)


async def later(work: Work, outcome: int | Exception) -> int:
    """Looked up when the work has begun."""
    await work.reached.wait()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def test_failing_to_look_up_ends_the_work_and_is_what_fails() -> None:
    for work in (Work(hangs_on=1), Work(fails_for=(1,))):
        with pytest.raises(LookupError):
            await work.of(1, later(work, LookupError()))
    assert work.begun == [1]


async def test_what_was_made_of_something_else_does_not_count() -> None:
    for work in (Work(), Work(hangs_on=1), Work(fails_for=(1,))):
        assert await work.of(1, later(work, 3)) == 6
        assert work.begun == [1, 3]


async def test_a_failure_counts_where_all_is_as_expected() -> None:
    work = Work(fails_for=(1,))
    with pytest.raises(ValueError, match="1"):
        await work.of(1, later(work, 1))


async def test_cancelled_while_it_is_looked_up_and_afterwards_the_work_ends_too() -> None:
    for is_looked_up in (False, True):
        work = Work(hangs_on=1)
        hanging = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(work.of(1, later(work, 1) if is_looked_up else hanging))
        await work.reached.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.was_cancelled


async def test_what_is_as_expected_is_worked_on_once() -> None:
    work = Work()
    assert await work.of(1, later(work, 1)) == 2
    assert work.begun == [1]


async def test_without_an_expectation_work_begins_with_what_was_found() -> None:
    work = Work()
    work.reached.set()
    assert await work.of(None, later(work, 1)) == 2
