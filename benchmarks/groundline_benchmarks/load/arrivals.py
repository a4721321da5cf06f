"""Arrivals of an open model: they are drawn ahead, and come whatever the answers do."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Ramp:
    """A rate of arrivals that goes evenly from one to another."""

    first: float
    """Rate at the begin, a second; above 0."""
    last: float
    """Rate at the end, a second."""
    seconds: float

    @property
    def mean(self) -> float:
        """Rate on average, a second."""
        return (self.first + self.last) / 2

    def rate_at(self, moment: float) -> float:
        """Return the rate at a time since the begin, in seconds."""
        return self.first + (self.last - self.first) * moment / self.seconds

    def moments(self, generator: np.random.Generator) -> list[float]:
        """Draw the times of a Poisson process of this rate, in seconds since the begin, in their order.

        Their number follows a Poisson distribution; given that, each lies anywhere, as likely as the rate
        there is high.
        """
        count = generator.poisson(self.mean * self.seconds)
        before = np.sort(generator.random(count)) * self.mean * self.seconds
        slope = (self.last - self.first) / self.seconds
        # The root of `first * t + slope * t² / 2 = before`, in the form that a slope of 0 does not harm.
        moments = 2 * before / (self.first + np.sqrt(self.first**2 + 2 * slope * before))
        return [float(moment) for moment in moments]


def drawn[K](
    mix: Mapping[K, float], moments: Sequence[float], generator: np.random.Generator
) -> list[tuple[float, K]]:
    """Give each time a kind, drawn by the weights of `mix`."""
    kinds, weights = list(mix), np.array(list(mix.values()))
    indexes = generator.choice(len(kinds), len(moments), p=weights / weights.sum())
    return [(moment, kinds[index]) for moment, index in zip(moments, indexes, strict=True)]


async def paced[T](plan: Iterable[tuple[float, T]], begun: float) -> AsyncIterator[tuple[float, T]]:
    """Yield what is planned when it is due, in seconds after `begun` (time.perf_counter); what is late comes
    at once, however busy this process is."""
    for due, one in plan:
        if (ahead := begun + due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        yield due, one
