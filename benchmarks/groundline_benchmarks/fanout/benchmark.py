"""Simulated time of the slowest of many shards, which a search that asks all of them waits for.

A shard answers in a lognormal time, and now and then it pauses (a checkpoint, a neighbour's disk) for an
exponential time beside that. With hedging, a shard that has not answered after a while is asked a second
time, at a replica whose time is drawn independently; the first answer counts (Dean and Barroso, "The Tail at
Scale", 2013).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answers", "Shard", "simulate"]

type Milliseconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shard:
    """Times of a shard, in milliseconds."""

    p50_ms: float = 8.0
    p95_ms: float = 16.0
    pause_share: float = 0.002
    """Share of requests that meet a pause."""
    pause_ms: float = 200.0
    """Mean length of a pause."""

    def draw(self, generator: np.random.Generator, shape: tuple[int, int]) -> Milliseconds:
        sigma = np.log(self.p95_ms / self.p50_ms) / NormalDist().inv_cdf(0.95)
        times = generator.lognormal(np.log(self.p50_ms), sigma, shape)
        paused = generator.random(shape) < self.pause_share
        slowed: Milliseconds = times + paused * generator.exponential(self.pause_ms, shape)
        return slowed


@dataclass(frozen=True, slots=True)
class Answers:
    """Times of many searches over a number of shards."""

    shards: int
    hedged_after_ms: float | None
    p50_ms: float
    p99_ms: float
    p999_ms: float
    extra_requests: float
    """Second requests for each first one."""


def simulate(shard: Shard, shards: int, hedge_quantile: float | None, *, searches: int, seed: int) -> Answers:
    """Simulate searches that ask every shard; each hedged after this quantile of a shard's own time, or
    never."""
    generator = np.random.default_rng(seed)
    times = shard.draw(generator, (searches, shards))
    after: float | None = None
    extra = 0.0
    if hedge_quantile is not None:
        after = _quantiles(shard.draw(generator, (searches, 1)), [hedge_quantile])[0]
        late = times > after
        times = np.where(late, np.minimum(times, after + shard.draw(generator, times.shape)), times)
        extra = float(late.mean())
    p50, p99, p999 = _quantiles(times.max(axis=1), [0.5, 0.99, 0.999])
    return Answers(shards, after, p50, p99, p999, extra)


def _quantiles(times: Milliseconds, quantiles: Sequence[float]) -> list[float]:
    return [float(value) for value in np.quantile(times, quantiles)]
