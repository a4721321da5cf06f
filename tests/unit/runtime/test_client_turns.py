"""Fair shares of scarce places among clients."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from groundline_runtime.turns import ClientTurns, RecentUse


async def test_one_client_leaves_a_place_to_the_others() -> None:
    turns = ClientTurns(3)
    async with turns.turn("a"), turns.turn("a"):
        third = asyncio.create_task(_enter(turns, "a"))
        async with asyncio.timeout(5), turns.turn("b"):
            assert not third.done()
        assert not third.done()
    await third


async def test_who_has_none_goes_before_one_client_that_may_have_all() -> None:
    turns = ClientTurns(2, share=2)
    first, second = await turns.take("a"), await turns.take("a")
    waiting = [asyncio.create_task(turns.take(client)) for client in ("a", "a", "b")]
    await asyncio.sleep(0)

    first()
    async with asyncio.timeout(5):
        await waiting[2]
    assert not waiting[0].done()

    second()
    (await waiting[0])()
    await waiting[1]


async def test_the_only_place_is_anyones() -> None:
    turns = ClientTurns(1)
    async with asyncio.timeout(5):
        await _enter(turns, "a")
        await _enter(turns, "b")


async def test_whose_client_has_fewest_goes_first_and_then_who_waits_longest() -> None:
    turns = ClientTurns(2, clock=lambda: 0.0)
    order: list[str] = []

    async def enter(client: str, name: str) -> None:
        async with turns.turn(client):
            order.append(name)

    async with turns.turn("a"):
        async with turns.turn("b"):
            waiting = [asyncio.create_task(enter(name[0], name)) for name in ("b1", "c1", "a1", "c2")]
            await asyncio.sleep(0)
        await asyncio.gather(waiting[0], waiting[1], waiting[3])
        assert not waiting[2].done()
    await waiting[2]
    assert order == ["b1", "c1", "c2", "a1"]


async def test_of_one_clients_turns_the_first_goes_first_however_time_passes() -> None:
    turns = ClientTurns(1, clock=count().__next__)
    order: list[int] = []

    async def enter(number: int) -> None:
        async with turns.turn("a"):
            order.append(number)

    await enter(0)  # since the shares of a client that has used nothing stay the same
    async with turns.turn("a"):
        waiting = [asyncio.create_task(enter(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3]


async def test_who_no_longer_waits_takes_no_place() -> None:
    turns = ClientTurns(1)
    async with turns.turn("a"):
        gone = asyncio.create_task(_enter(turns, "b"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    async with asyncio.timeout(5):
        await _enter(turns, "c")


def test_threads_wait_for_the_same_places() -> None:
    turns, entered, may_leave = ClientTurns(2), threading.Barrier(2), threading.Event()

    def work(client: str) -> str:
        with turns.blocking(client):
            if client == "slow":
                entered.wait(5)
                may_leave.wait(5)
            return client

    with ThreadPoolExecutor(4) as threads:
        slow = [threads.submit(work, "slow") for _ in range(2)]
        entered.wait(5)
        assert threads.submit(work, "other").result(5) == "other"
        assert not any(one.done() for one in slow)
        may_leave.set()
        entered.wait(5)
        assert [one.result(5) for one in slow] == ["slow", "slow"]


async def _enter(turns: ClientTurns, client: str) -> None:
    async with turns.turn(client):
        pass


async def test_of_clients_with_as_many_places_the_one_that_held_them_for_less_time_goes_first() -> None:
    now = 0.0
    turns = ClientTurns(1, clock=lambda: now)
    order: list[str] = []

    async def enter(client: str, seconds: float) -> None:
        nonlocal now
        async with turns.turn(client):
            order.append(client)
            now += seconds

    async with turns.turn("other"):
        waiting = [asyncio.create_task(enter("slow", 10.0)) for _ in range(2)]
        waiting += [asyncio.create_task(enter("quick", 1.0)) for _ in range(4)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert order == ["slow", "quick", "quick", "quick", "quick", "slow"]


def test_what_a_client_has_used_is_forgotten_by_halves() -> None:
    now = 0.0
    used = RecentUse(half_life_seconds=60.0, clock=lambda: now)
    used.add("a", 8.0)
    now = 120.0
    assert (used.of("a"), used.of("b")) == (2.0, 0.0)
    used.add("a", 8.0)
    assert used.of("a") == pytest.approx(10)
