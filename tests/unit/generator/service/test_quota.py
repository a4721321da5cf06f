import asyncio
import time

import pytest
from groundline_generator.service.quota import Limiter
from groundline_runtime.context import deadline_at
from groundline_runtime.errors import ResourceExhaustedError
from groundline_tests.runtime import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limiter(
    clock: Clock, *, requests: int | None = None, tokens: int | None = None, waiting: int = 100
) -> Limiter:
    return Limiter(
        requests_per_minute=requests,
        tokens_per_minute=tokens,
        max_waiting=waiting,
        clock=clock,
        sleep=clock.sleep,
    )


async def test_nobody_waits_without_a_limit(clock: Clock) -> None:
    for _ in range(1000):
        await limiter(clock).reserve(10**9)
    assert clock.waits == []


async def test_no_minute_sees_more_than_the_limit(clock: Clock) -> None:
    limit = limiter(clock, requests=60)
    times = []
    for _ in range(200):
        await limit.reserve(1)
        times.append(clock.now)
        clock.now += 0.1
    for first, beyond in zip(times, times[60:], strict=False):
        assert beyond - first >= 60 - 1e-6
    # A minute's worth goes at once: 60 calls of a tenth of a second, then the rest of the minute.
    assert sum(clock.waits) == pytest.approx(3 * 54.0)


async def test_those_who_wait_get_their_turns_in_order() -> None:
    clock, others, turn = Clock(), asyncio.Barrier(6), asyncio.Event()

    async def wait_for_the_others(seconds: float) -> None:
        clock.waits.append(seconds)
        await others.wait()
        await turn.wait()

    limit = Limiter(requests_per_minute=2, clock=clock, sleep=wait_for_the_others)
    calls = [asyncio.create_task(limit.reserve(1)) for _ in range(7)]
    await others.wait()
    turn.set()
    await asyncio.gather(*calls)
    assert clock.waits == [60, 60, 120, 120, 180]


async def test_tokens_count_as_well(clock: Clock) -> None:
    limit = limiter(clock, tokens=600)
    await limit.reserve(500)
    clock.now += 20
    await limit.reserve(100)
    await limit.reserve(100)
    assert clock.waits == [pytest.approx(40.0)]


async def test_a_call_larger_than_the_limit_waits_for_an_empty_minute_and_goes(clock: Clock) -> None:
    limit = limiter(clock, tokens=600)
    await limit.reserve(60)
    clock.now += 6
    await limit.reserve(6000)
    assert clock.waits == [pytest.approx(54.0)]


async def test_tokens_that_were_not_used_are_given_back(clock: Clock) -> None:
    limit = limiter(clock, tokens=600)
    reservation = await limit.reserve(600)
    reservation.settle(100)
    await limit.reserve(500)
    assert clock.waits == []


async def test_beyond_the_queue_calls_are_refused_with_the_time_to_wait(clock: Clock) -> None:
    limit = limiter(clock, requests=60, waiting=0)
    for _ in range(60):
        await limit.reserve(1)
    with pytest.raises(ResourceExhaustedError) as failure:
        await limit.reserve(1)
    assert failure.value.reason == "GENERATOR_QUOTA_EXHAUSTED"
    assert failure.value.retry_after_seconds == pytest.approx(60.0)


async def test_who_cannot_be_served_in_time_is_refused_at_once(clock: Clock) -> None:
    limit = limiter(clock, requests=1)
    await limit.reserve(1)
    with deadline_at(time.monotonic() + 5), pytest.raises(ResourceExhaustedError):
        await limit.reserve(1)
    assert clock.waits == []


async def test_who_leaves_the_queue_gives_its_turn_back() -> None:
    clock = Clock()
    never = asyncio.Event()

    async def wait_forever(seconds: float) -> None:
        clock.waits.append(seconds)
        await never.wait()

    limit = Limiter(requests_per_minute=1, clock=clock, sleep=wait_forever)
    await limit.reserve(1)
    for _ in range(2):
        waiting = asyncio.create_task(limit.reserve(1))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert clock.waits == [pytest.approx(60.0)] * 2
