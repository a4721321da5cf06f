"""Repeated work: one after the other, and by several clients at once."""

import asyncio
import itertools
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from groundline_benchmarks.measuring.processes import processor_time
from groundline_benchmarks.measuring.statistics import percentile
from groundline_benchmarks.measuring.suite import SERVICES


@dataclass(slots=True)
class Figures:
    """Figures of one piece of work."""

    serial_ms: list[float] = field(default_factory=list)
    """Milliseconds of each piece of work, alone."""
    per_second: float = 0.0
    """Throughput of all clients together."""
    processor_ms: Mapping[str, float] = field(default_factory=dict)
    """Processor time of each process for one piece of work, in milliseconds, while all clients were
    active."""

    @property
    def p50(self) -> float:
        return percentile(self.serial_ms, 0.5)

    @property
    def p95(self) -> float:
        return percentile(self.serial_ms, 0.95)


async def measure_serially[T](
    works: Mapping[str, Callable[[T], Awaitable[None]]], inputs: Sequence[T]
) -> dict[str, Figures]:
    """Do each work with each input after one round that warms caches; in turn, so that noise affects all."""
    figures = {name: Figures() for name in works}
    for work in works.values():
        for one in inputs:
            await work(one)
    for one in inputs:
        for name, work in works.items():
            begun = time.perf_counter()
            await work(one)
            figures[name].serial_ms.append((time.perf_counter() - begun) * 1000)
    return figures


async def measure_load[T](
    figures: Figures,
    work: Callable[[T], Awaitable[None]],
    inputs: Sequence[T],
    pids: Mapping[str, int],
    *,
    clients: int,
    seconds: float,
) -> None:
    """Add throughput and processor time."""
    endless = itertools.cycle(inputs)
    done = 0

    async def client() -> None:
        nonlocal done
        while time.perf_counter() < begun + seconds:
            await work(next(endless))
            done += 1

    with processor_time(pids) as taken:
        begun = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        figures.per_second = done / (time.perf_counter() - begun)
    figures.processor_ms = {name: used / done * 1000 for name, used in taken.items()}


def services_to_postgres(processor_ms: Mapping[str, float]) -> float:
    """Divide the processor time of all services by PostgreSQL's, its backends included.

    Infinite if PostgreSQL took less than the system's clock can tell.
    """
    postgres = processor_ms["postgres"]
    return sum(processor_ms[name] for name in SERVICES) / postgres if postgres else math.inf
