"""The number of requests at once that a server adapts to what it can answer."""

import pytest
from groundline_runtime.serving.admission import ConcurrencyLimit
from groundline_tests.runtime import Clock

LEAST = 32


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Machine:
    """A machine with a maximum of requests per second, each no faster than alone: those beyond wait their
    turn, as they do in front of a processor or a database."""

    def __init__(self, clock: Clock, alone_seconds: float, rate: float) -> None:
        self.clock, self.alone_seconds, self.rate = clock, alone_seconds, rate

    def take_rounds(self, limit: ConcurrencyLimit, rounds: int) -> None:
        """Take as many requests as the limit lets through, in this many rounds."""
        for _ in range(rounds):
            count = limit.value
            seconds = max(self.alone_seconds, count / self.rate)
            self.clock.now += seconds
            for _ in range(count):
                limit.observe("Search", seconds, count)


def test_the_limit_grows_while_more_at_a_time_does_not_take_longer(clock: Clock) -> None:
    limit = ConcurrencyLimit(clock)
    Machine(clock, alone_seconds=0.01, rate=20_000).take_rounds(limit, 500)
    # 200 are under way without waiting; beyond 267, a quarter of them waits.
    assert 200 <= limit.value <= 280


def test_the_limit_shrinks_to_what_the_machine_is_left_with(clock: Clock) -> None:
    limit = ConcurrencyLimit(clock)
    Machine(clock, alone_seconds=0.01, rate=20_000).take_rounds(limit, 500)
    Machine(clock, alone_seconds=0.01, rate=5_000).take_rounds(limit, 400)
    assert 50 <= limit.value <= 105


def test_a_limit_that_is_not_used_does_not_grow(clock: Clock) -> None:
    limit = ConcurrencyLimit(clock)
    for _ in range(10_000):
        limit.observe("Search", 0.01, 3)
    assert limit.value == LEAST


def test_a_slow_method_beside_a_fast_one_is_not_taken_for_a_queue(clock: Clock) -> None:
    limit = ConcurrencyLimit(clock)
    for _ in range(5_000):
        limit.observe("GetThread", 0.001, limit.value)
        limit.observe("Answer", 5, limit.value)
    assert limit.value > LEAST


def test_a_machine_that_has_become_slower_for_good_gets_its_limit_back(clock: Clock) -> None:
    limit = ConcurrencyLimit(clock)
    Machine(clock, alone_seconds=0.01, rate=20_000).take_rounds(limit, 500)
    slower = Machine(clock, alone_seconds=0.1, rate=2_000)
    slower.take_rounds(limit, 1_000)
    clock.now += 200
    slower.take_rounds(limit, 500)
    assert limit.value >= 150
