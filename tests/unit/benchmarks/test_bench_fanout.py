"""The simulation of a fan-out: right where the answer is known, and the same each time."""

import numpy as np
import pytest
from groundline_benchmarks.fanout.benchmark import Shard, simulate

CALM = Shard(p50_ms=8.0, p95_ms=16.0, pause_share=0.0)


def test_one_shard_is_as_quick_as_it_was_said_to_be() -> None:
    times = CALM.draw(np.random.default_rng(1), (100_000, 1))
    assert np.quantile(times, 0.5) == pytest.approx(8.0, rel=0.02)
    assert np.quantile(times, 0.95) == pytest.approx(16.0, rel=0.02)


def test_the_median_of_many_shards_is_a_high_quantile_of_one() -> None:
    # All of n are below x with p(x)^n: the median is where p is .5^(1/n).
    answers = simulate(CALM, 16, None, searches=50_000, seed=2)
    one = CALM.draw(np.random.default_rng(3), (200_000, 1))
    assert answers.p50_ms == pytest.approx(np.quantile(one, 0.5 ** (1 / 16)), rel=0.03)


def test_hedging_cuts_pauses_off_for_few_more_requests() -> None:
    pausing = Shard(pause_share=0.01, pause_ms=300.0)
    plain = simulate(pausing, 16, None, searches=20_000, seed=4)
    hedged = simulate(pausing, 16, 0.95, searches=20_000, seed=4)
    assert plain.extra_requests == 0
    assert hedged.p99_ms < plain.p99_ms / 3
    assert hedged.extra_requests == pytest.approx(0.05, abs=0.01)


def test_the_same_seed_gives_the_same_figures() -> None:
    first, again = (simulate(Shard(), 4, 0.99, searches=1000, seed=5) for _ in range(2))
    assert first == again
