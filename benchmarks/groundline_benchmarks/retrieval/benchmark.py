"""One collection, searched in every way and case in one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import psutil
from groundline_client import AsyncClient

from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.load import (
    Figures,
    measure_load,
    measure_serially,
    services_to_postgres,
)
from groundline_benchmarks.measuring.processes import memory_mib, peak_rss_mib
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.suite import Suite
from groundline_benchmarks.retrieval.cases import (
    ANSWER,
    ANSWERED,
    CASES,
    CLIENTS,
    COORDINATOR,
    FILTERED,
    FLOOR,
    GATEWAY,
    HYBRID,
    RETRIEVER,
    SEMANTIC,
    Case,
    Search,
)
from groundline_benchmarks.retrieval.corpus import (
    load_collection,
    queries,
    questions,
    recall,
    sizes_mib,
)
from groundline_benchmarks.retrieval.ways import open_ways

__all__ = ["Result", "goals", "measure_collection"]

FILTER_GOAL_CHUNKS = 10_000
"""The size for which a goal of filtered search is set; all others are for 100,000 chunks."""


@dataclass(frozen=True)
class Result:
    """Of one number of chunks."""

    chunks: int
    load_seconds: Mapping[str, float]
    """Of COPIED and of each index, by its method; empty where an earlier run has loaded it."""
    figures: Mapping[tuple[str, str], Figures]
    """By name of the case and way."""
    retriever_rss_mib: float
    """The most that the process has taken since it started."""
    sizes_mib: Mapping[str, float]
    """Of the partition's rows, and of its indexes by their method."""
    postgres_mib: float
    """Memory of PostgreSQL's processes together afterwards, what they share counted once."""
    recall: Mapping[str, float]
    """Of vector search against an exact one, by case."""

    def of(self, case: Case, way: str) -> Figures:
        return self.figures[case.name, way]


async def measure_collection(
    suite: Suite, client: AsyncClient, chunks: int, query_count: int, seconds: float, report: Report
) -> Result:
    """Loads it if it is not there. Raises GatewayError, MeasurementError."""
    collection = f"bench-{chunks}"
    load_seconds = await load_collection(client, suite.database_url, collection, chunks)
    sizes = await sizes_mib(suite.database_url, collection)
    report(f"{chunks} chunks loaded, BM25 and HNSW indexes built: {sum(sizes.values()):.0f} MiB")
    asked, answerable = queries(query_count), questions(min(query_count, chunks))
    figures: dict[tuple[str, str], Figures] = {}
    async with open_ways(suite, client, collection, asked) as ways:
        for case in CASES:
            report(f"{chunks} chunks: {case.name}")
            inputs = answerable if case is ANSWERED else asked
            for way, one in (await _measure_case(case, ways, inputs, seconds, suite)).items():
                figures[case.name, way] = one
    report(f"{chunks} chunks: recall")
    recalls = {
        case.name: await recall(suite.database_url, collection, filtered=case.filtered)
        for case in (SEMANTIC, FILTERED)
    }
    rss = peak_rss_mib(psutil.Process(suite.pids["retriever"]))
    postgres = memory_mib(psutil.Process(suite.pids["postgres"]))
    return Result(chunks, load_seconds, figures, rss, sizes, postgres, recalls)


async def _measure_case(
    case: Case, ways: Mapping[str, Search], asked: Sequence[str], seconds: float, suite: Suite
) -> dict[str, Figures]:
    works = {way: partial(ways[way], case) for way in case.ways}
    figures = await measure_serially(works, asked)
    for way, work in works.items():
        await measure_load(figures[way], work, asked, suite.pids, clients=CLIENTS, seconds=seconds)
    return figures


def goals(result: Result) -> list[Goal]:
    """What these figures should be."""
    floor, gateway = result.of(HYBRID, FLOOR), result.of(HYBRID, GATEWAY)
    retriever, coordinator = result.of(HYBRID, RETRIEVER), result.of(HYBRID, COORDINATOR)
    found = [
        Goal(f"hybrid: {RETRIEVER} / floor", retriever.p50 / floor.p50, 1.3),
        Goal(f"hybrid: {COORDINATOR} / floor", coordinator.p50 / floor.p50, 2),
        Goal(f"hybrid: {GATEWAY} / floor", gateway.p50 / floor.p50, 2.5),
        Goal(
            f"hybrid: {GATEWAY}, {CLIENTS} clients, per second / floor's",
            gateway.per_second / floor.per_second,
            0.6,
            is_minimum=True,
        ),
        Goal(
            "one search: processor time of all services / PostgreSQL",
            services_to_postgres(coordinator.processor_ms),
            0.5,
        ),
        Goal(
            "one extractive answer: processor time of all services / PostgreSQL",
            services_to_postgres(result.of(ANSWERED, ANSWER).processor_ms),
            1,
        ),
    ]
    if result.chunks == FILTER_GOAL_CHUNKS:
        ratio = result.of(FILTERED, RETRIEVER).p50 / result.of(FILTERED, FLOOR).p50
        found.append(Goal(f"{FILTERED.name}: {RETRIEVER} / floor", ratio, 1.3))
    return found
