"""Measurement of one fault under load: what is done, how requests end meanwhile, and how they should."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import httpx

from groundline_benchmarks.chaos.faults import Bounds, Fault, Rig
from groundline_benchmarks.chaos.load import Asked, Kind, Load, Outcome
from groundline_benchmarks.load.arrivals import paced
from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.statistics import percentile

_BEFORE_SECONDS: Final = 2.0
_AFTER_SECONDS: Final = 6.0
"""Times of the load before and after a fault, in seconds; around a short one only as long as it lasts."""
_EJECTED_SECONDS: Final = 3.0
"""Time after which a replica that hangs should get no requests, in seconds."""
_SETTLE_SECONDS: Final = 120.0
_HEALTH_SECONDS: Final = 0.25
_BEST_CLIENTS: Final = 24


@dataclass(slots=True)
class FaultFigures:
    """Outcomes of the requests around a fault. Times are of time.monotonic."""

    name: str
    bounds: Bounds
    asked: Sequence[Asked] = ()
    begin: float = 0.0
    end: float = 0.0
    health: list[tuple[float, bool]] = field(default_factory=list)
    """Answers of `/healthz` with their times; True: everything is well."""
    is_settled: bool = True
    """Whether every document that was handed in has ended two minutes later."""
    lost: Sequence[str] = ()
    doubled: Sequence[str] = ()
    refused_calls: int = 0
    """Calls that the provider refused during the fault."""
    best_rate: float | None = None
    """Searches answered per second before an overload, by clients that wait for their answers."""
    alone_seconds: float | None = None
    """Median duration of a search before the neighbours came, in seconds."""

    @property
    def during(self) -> list[Asked]:
        """Requests that began while the fault lasted."""
        return [one for one in self.asked if self.begin <= one.begun <= self.end]

    def counts(self, asked: Sequence[Asked] | None = None) -> Mapping[Outcome, int]:
        """Count the outcomes of all requests, or of those given."""
        return Counter(one.outcome for one in (self.asked if asked is None else asked))

    @property
    def reasons(self) -> Mapping[str, int]:
        """Number of failures by reason."""
        return Counter(one.reason for one in self.asked if one.outcome is Outcome.FAILED)

    @property
    def failed_percent(self) -> float:
        asked = [one for one in self.during if one.kind is not Kind.INGEST]
        failed = sum(one.outcome in (Outcome.FAILED, Outcome.CUT) for one in asked)
        return 100 * failed / max(1, len(asked))

    @property
    def goodput(self) -> float:
        """Searches answered per second during the fault."""
        ended = [
            one
            for one in self.asked
            if one.kind is Kind.SEARCH and self.begin <= one.begun + one.seconds <= self.end
        ]
        answered = sum(one.outcome in (Outcome.OK, Outcome.DEGRADED) for one in ended)
        return answered / max(1e-9, self.end - self.begin)

    @property
    def refused_seconds(self) -> float:
        """Duration of 99 % of the requests that failed during the fault, in seconds."""
        refused = [one.seconds for one in self.during if one.outcome is Outcome.FAILED]
        return percentile(refused, 0.99) if refused else 0.0

    @property
    def search_seconds(self) -> float:
        """Median duration of a search that began during the fault, in seconds."""
        return _search_seconds(self.during)

    @property
    def slowest_seconds(self) -> float:
        return max((one.seconds for one in self.asked), default=0.0)

    @property
    def slowest_later_seconds(self) -> float:
        later = [one.seconds for one in self.during if one.begun > self.begin + _EJECTED_SECONDS]
        return max(later, default=0.0)

    @property
    def well_after_seconds(self) -> float:
        unwell = [one.begun for one in self.asked if one.outcome not in (Outcome.OK, Outcome.DEGRADED)]
        return max(0.0, max(unwell, default=0.0) - self.end)

    @property
    def unready_after_seconds(self) -> float:
        """Time until `/healthz` said that something is wrong, in seconds; infinite if it never did."""
        unready = [moment for moment, is_well in self.health if not is_well and moment >= self.begin]
        return min(unready, default=float("inf")) - self.begin

    def goals(self) -> list[Goal]:
        """Return the goals of the fault."""
        bounds, counts = self.bounds, self.counts()
        found = [
            Goal("silently wrong", counts.get(Outcome.WRONG, 0), bounds.wrong),
            Goal("acknowledged documents lost", len(self.lost), 0),
            Goal("documents doubled", len(self.doubled), 0),
            Goal("ingestion still unfinished after two minutes", int(not self.is_settled), 0),
        ]
        for name, figure, limit in (
            ("streams cut without an end", counts.get(Outcome.CUT, 0), bounds.cut),
            ("failed during the fault, percent", self.failed_percent, bounds.failed_percent),
            ("slowest, s", self.slowest_seconds, bounds.slowest_seconds),
            ("slowest from 3 s on, s", self.slowest_later_seconds, bounds.slowest_later_seconds),
            ("last failure after the end, s", self.well_after_seconds, bounds.well_after_seconds),
            ("99 % of refusals within, s", self.refused_seconds, bounds.refused_seconds),
            ("unready after, s", self.unready_after_seconds, bounds.unready_after_seconds),
        ):
            if limit is not None:
                found.append(Goal(name, figure, limit))
        if bounds.is_ready:
            found.append(Goal("times unready", sum(not well for _, well in self.health), 0))
        if bounds.failed_searches is not None:
            searches = [one for one in self.during if one.kind is Kind.SEARCH]
            failed = self.counts(searches).get(Outcome.FAILED, 0)
            found.append(Goal("searches failed during the fault", failed, bounds.failed_searches))
        if bounds.reasons is not None:
            others = sum(count for reason, count in self.reasons.items() if reason not in bounds.reasons)
            found.append(Goal("failed for another reason", others, 0))
        if bounds.calls_for_each_chat is not None:
            chats = sum(one.kind in (Kind.CHAT, Kind.VERIFY) for one in self.during)
            calls = self.refused_calls / max(1, chats)
            found.append(Goal("refused calls for each chat", calls, bounds.calls_for_each_chat))
        if self.best_rate is not None:
            best = max(1e-9, self.best_rate)
            found.append(Goal("goodput / best", self.goodput / best, bounds.goodput_share, is_minimum=True))
        if self.alone_seconds is not None and bounds.slowed is not None:
            found.append(
                Goal("search / alone", self.search_seconds / max(1e-9, self.alone_seconds), bounds.slowed)
            )
        return found


async def measure_fault(
    name: str, fault: Fault, rig: Rig, load: Load, seconds: float, report: Report
) -> FaultFigures:
    """Measure under load before, during and after the fault, which lasts `seconds`."""
    report(f"{name}: {fault.summary}")
    figures = FaultFigures(name, fault.bounds)
    load.asked = []
    watch = asyncio.create_task(_watch_health(load.client, figures.health))
    try:
        async with load.running(searches=4, chats=2, hand_ins=1, completions=1, verifications=1, ratings=1):
            await asyncio.sleep(min(_BEFORE_SECONDS, seconds))
            if fault.overload:
                figures.best_rate = await _best_rate(load, seconds)
            if fault.neighbours:
                await asyncio.sleep(seconds)
                figures.alone_seconds = _search_seconds(load.asked)
            refused = rig.provider.refused_calls
            figures.begin = time.monotonic()
            async with (
                fault.happens(rig),
                rig.neighbour.running(**fault.neighbours),
                asyncio.TaskGroup() as searches,
            ):
                for _ in range(fault.burst):
                    searches.create_task(load.search())
                rate = fault.overload * max(1.0, figures.best_rate or 0.0)
                due = ((number / rate, None) for number in range(int(rate * seconds)))
                async for _ in paced(due, time.perf_counter()):
                    searches.create_task(load.search())
                await asyncio.sleep(figures.begin + seconds - time.monotonic())
                figures.end = time.monotonic()
            figures.refused_calls = rig.provider.refused_calls - refused
            await asyncio.sleep(min(_AFTER_SECONDS, seconds))
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    figures.asked = load.asked
    figures.is_settled = await _settled(load)
    try:
        figures.lost, figures.doubled = await load.lost_and_doubled()
    except httpx.TransportError:
        figures.lost = tuple(load.handed_in)
    return figures


def _search_seconds(asked: Sequence[Asked]) -> float:
    searches = [one.seconds for one in asked if one.kind is Kind.SEARCH]
    return percentile(searches, 0.5) if searches else 0.0


async def _best_rate(load: Load, seconds: float) -> float:
    """Return searches answered per second while as many clients ask as the suite can serve."""
    known, begin = len(load.asked), time.monotonic()
    async with load.running(searches=_BEST_CLIENTS, chats=0, hand_ins=0):
        await asyncio.sleep(seconds)
        elapsed = time.monotonic() - begin
        answered = [
            one
            for one in load.asked[known:]
            if one.kind is Kind.SEARCH and one.outcome in (Outcome.OK, Outcome.DEGRADED)
        ]
    return len(answered) / elapsed


async def _settled(load: Load) -> bool:
    """Tell whether all documents end within two minutes."""
    try:
        async with asyncio.timeout(_SETTLE_SECONDS):
            while True:
                with suppress(httpx.HTTPError):
                    if await load.settled():
                        return True
                await asyncio.sleep(0.5)
    except TimeoutError:
        return False


async def _watch_health(client: httpx.AsyncClient, health: list[tuple[float, bool]]) -> None:
    while True:
        moment = time.monotonic()
        try:
            response = await client.get("/healthz", timeout=5)
            health.append((moment, response.is_success))
        except httpx.TransportError:
            health.append((moment, False))
        await asyncio.sleep(_HEALTH_SECONDS)
