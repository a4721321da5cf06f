"""`groundline bench load`: an open load of mixed requests, and what each kind of them costs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import asyncpg
import numpy as np

from groundline_benchmarks.load.arrivals import Ramp, drawn
from groundline_benchmarks.load.figures import LoadFigures
from groundline_benchmarks.load.requests import Requests
from groundline_benchmarks.load.sending import Sent, send
from groundline_benchmarks.measuring.processes import all_held, processor_time
from groundline_benchmarks.measuring.running import MeasurementError, Report
from groundline_benchmarks.measuring.suite import Suite

_MAX_IN_FLIGHT: Final = 1_000
"""Maximum number of requests in flight; what is due beyond is not sent."""


@dataclass(frozen=True, slots=True)
class LoadBench:
    """Extent of the measurement."""

    ramp: Ramp
    mix: Mapping[str, float]
    """Weight of each kind of requests."""
    within: float
    """Time within which requests are to be answered, in seconds."""
    cost_seconds: float = 10.0
    """How long each kind is sent alone, in seconds; 0: not at all."""
    seed: int = 1

    async def run(self, requests: Requests, report: Report) -> LoadFigures:
        """Measure what answers."""
        await self._warm_up(requests)
        steady = self.ramp.first == self.ramp.last
        rates = f"{self.ramp.first:g}" if steady else f"{self.ramp.first:g} to {self.ramp.last:g}"
        report(f"{rates} requests a second for {self.ramp.seconds:g} s")
        generator = np.random.default_rng(self.seed)
        return LoadFigures(
            self.ramp, self.mix, self.within, await self._send(requests, self.ramp, self.mix, generator)
        )

    async def run_suite(self, suite: Suite, requests: Requests, report: Report) -> LoadFigures:
        """Measure a suite whose processes are known. Raises MeasurementError."""
        costs = await self._costs(suite, requests, report) if self.cost_seconds else {}
        idle = all_held(suite.pids)
        figures = await self.run(requests, report)
        figures.costs, figures.idle, figures.loaded = costs, idle, all_held(suite.pids)
        figures.database_connections = await _database_connections(suite.database_url)
        return figures

    async def _costs(
        self, suite: Suite, requests: Requests, report: Report
    ) -> dict[str, Mapping[str, float]]:
        """Send each kind alone, at the run's first rate, so that little waits."""
        costs: dict[str, Mapping[str, float]] = {}
        steady = Ramp(self.ramp.first, self.ramp.first, self.cost_seconds)
        generator = np.random.default_rng(self.seed)
        await self._warm_up(requests)
        for kind in self.mix:
            report(f"{kind} alone, {steady.first:g} a second for {self.cost_seconds:g} s")
            with processor_time(suite.pids) as taken:
                sent = await self._send(requests, steady, {kind: 1.0}, generator)
                await requests.settled()
            answered = sum(one.is_answered for one in sent)
            if not answered:
                reasons = dict(Counter(one.reason for one in sent))
                raise MeasurementError(f"no request of the kind {kind} was answered: {reasons}")
            costs[kind] = {name: seconds / answered * 1000 for name, seconds in taken.items()}
        return costs

    async def _warm_up(self, requests: Requests) -> None:
        """Send two requests of each kind: the first ones open connections and load a model."""
        for kind in self.mix:
            await send([(0.0, kind)] * 2, requests.ask, max_in_flight=_MAX_IN_FLIGHT)

    async def _send(
        self, requests: Requests, ramp: Ramp, mix: Mapping[str, float], generator: np.random.Generator
    ) -> list[Sent]:
        plan = drawn(mix, ramp.moments(generator), generator)
        return await send(plan, requests.ask, max_in_flight=_MAX_IN_FLIGHT)


async def _database_connections(database_url: str) -> dict[str, int]:
    """Count connections by the service that has opened them."""
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        rows = await connection.fetch(
            "SELECT split_part(split_part(application_name, '-', 2), '/', 1) AS service, count(*) AS opened"
            " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND application_name LIKE 'groundline-%' GROUP BY 1 ORDER BY 1"
        )
    finally:
        await connection.close()
    return {row["service"]: row["opened"] for row in rows}
