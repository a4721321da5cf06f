import asyncio
import time

import pytest
from groundline_generator.service.breaker import Breaker, Patience
from groundline_generator.service.quota import QuotaExhaustedError
from groundline_runtime.context import deadline_at
from groundline_runtime.errors import GroundlineError, InternalError, ResourceExhaustedError, UnavailableError
from groundline_tests.runtime import Clock


class Provider:
    """A provider behind a breaker, on a clock of its own."""

    def __init__(self, *, max_waiting: int = 100) -> None:
        self.clock = Clock()
        self.breaker = Breaker(max_waiting=max_waiting, clock=self.clock)
        self.calls = 0

    async def call(self, failure: GroundlineError | None = None, *, patience: float = 10) -> None:
        async with self.breaker.passage(Patience(patience, self.clock.sleep)):
            self.calls += 1
            if failure is not None:
                raise failure

    async def fails(self, failure: GroundlineError, *, times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(type(failure)):
                await self.call(failure)


def busy(seconds: float) -> ResourceExhaustedError:
    return ResourceExhaustedError("PROVIDER_QUOTA_EXHAUSTED", "busy", retry_after_seconds=seconds)


DOWN = UnavailableError("PROVIDER_UNAVAILABLE", "down")


async def test_a_longer_pause_than_the_patience_refuses_every_call_with_what_is_left_of_it() -> None:
    provider = Provider()
    await provider.fails(busy(100))
    provider.clock.now += 30
    with pytest.raises(ResourceExhaustedError) as refused:
        await provider.call()
    assert refused.value.reason == "PROVIDER_QUOTA_EXHAUSTED"
    assert refused.value.retry_after_seconds == pytest.approx(70)
    assert provider.calls == 1


async def test_a_short_pause_is_waited_for() -> None:
    provider = Provider()
    await provider.fails(busy(4))
    await provider.call()
    assert provider.clock.waits == [4]


async def test_nobody_waits_past_the_deadline() -> None:
    provider = Provider()
    await provider.fails(busy(4))
    with deadline_at(time.monotonic() + 2), pytest.raises(ResourceExhaustedError):
        await provider.call()
    assert provider.clock.waits == []


async def test_more_than_may_wait_are_refused() -> None:
    provider = Provider(max_waiting=0)
    await provider.fails(busy(4))
    with pytest.raises(ResourceExhaustedError):
        await provider.call()
    assert provider.calls == 1


async def test_a_few_failures_are_no_outage() -> None:
    provider = Provider()
    await provider.fails(DOWN, times=4)
    await provider.call()
    await provider.fails(DOWN, times=4)
    await provider.call()
    assert provider.clock.waits == []


async def test_an_outage_pauses_calls_for_longer_and_longer() -> None:
    provider = Provider()
    await provider.fails(DOWN, times=8)
    assert provider.clock.waits == [1, 2, 4]


async def test_after_a_pause_one_call_goes_ahead_of_the_others() -> None:
    provider = Provider()
    await provider.fails(busy(4))
    provider.clock.now += 5
    answered = asyncio.Event()

    async def trial() -> None:
        async with provider.breaker.passage(Patience(10, provider.clock.sleep)):
            provider.calls += 1
            await answered.wait()

    ahead = asyncio.create_task(trial())
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhaustedError):
        await provider.call(patience=0.5)
    assert provider.calls == 2
    answered.set()
    await ahead
    await provider.call(patience=0)
    assert provider.calls == 3


@pytest.mark.parametrize("failure", [None, InternalError("WRONG", "refused"), DOWN])
async def test_a_call_under_way_as_a_pause_began_does_not_change_it(failure: GroundlineError | None) -> None:
    provider = Provider()
    answered = asyncio.Event()

    async def begun_before() -> None:
        async with provider.breaker.passage(Patience(10, provider.clock.sleep)):
            await answered.wait()
            if failure is not None:
                raise failure

    before = [asyncio.create_task(begun_before()) for _ in range(10)]
    await asyncio.sleep(0)
    await provider.fails(busy(8))
    answered.set()
    await asyncio.gather(*before, return_exceptions=True)
    await provider.call()
    assert provider.clock.waits == [8]


async def test_a_trial_that_is_cancelled_leaves_its_turn_to_the_next() -> None:
    provider = Provider()
    await provider.fails(busy(4))
    provider.clock.now += 5

    async def trial() -> None:
        async with provider.breaker.passage(Patience(10, provider.clock.sleep)):
            await asyncio.Event().wait()

    task = asyncio.create_task(trial())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await provider.call(patience=0)


@pytest.mark.parametrize(
    "failure", [InternalError("PROVIDER_REJECTED_REQUEST", "no"), QuotaExhaustedError(50)]
)
async def test_what_is_not_the_providers_state_pauses_nothing(failure: GroundlineError) -> None:
    provider = Provider()
    await provider.fails(failure, times=10)
    await provider.call(patience=0)
