"""Measurement of one collection, searched in every way and case in one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import psutil
from groundline_client import AsyncClient
from groundline_weaviate import open_weaviate

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
    FILTERED,
    FLOOR,
    GATEWAY,
    HYBRID,
    RETRIEVER,
    WEAVIATE_RETRIEVER,
    Case,
)
from groundline_benchmarks.retrieval.corpus import (
    RECALL_CHUNKS,
    RECALL_FILTERS,
    load_collection,
    queries,
    questions,
    recall,
    sizes_mib,
)
from groundline_benchmarks.retrieval.ways import Way, open_ways
from groundline_benchmarks.retrieval.weaviate import WeaviateSuite

FILTER_GOAL_CHUNKS: Final = 10_000
"""Number of chunks for which the goal of filtered search is set; all others are for 100,000 chunks."""


@dataclass(frozen=True, slots=True)
class Result:
    """Figures for one number of chunks."""

    chunks: int
    load_seconds: Mapping[str, float]
    """Seconds of COPIED and of each index, by its method; empty if an earlier run has loaded it."""
    figures: Mapping[tuple[str, str], Figures]
    """Figures by name of the case and way."""
    retriever_rss_mib: float
    """Peak memory of the process since it started."""
    sizes_mib: Mapping[str, float]
    """Sizes of the partition's rows, and of its indexes by their method."""
    postgres_mib: float
    """Memory of PostgreSQL's processes together afterwards, shared pages counted once."""
    recall: Mapping[str, float]
    """Recall of vector search against an exact one, by filter."""
    weaviate_recall: Mapping[str, float] = field(default_factory=dict)
    """Recall of Weaviate, by filter; empty if it is not measured."""

    def of(self, case: Case, way: str) -> Figures:
        return self.figures[case.name, way]


async def load(
    client: AsyncClient, database_url: str, counts: Sequence[int], report: Report
) -> list[Mapping[str, float]]:
    """Load a collection of each number of chunks unless it exists; return the seconds of Result.load_seconds.

    Raises GatewayError, MeasurementError.
    """
    loaded = []
    for chunks in counts:
        loaded.append(await load_collection(client, database_url, _name(chunks), chunks))
        report(f"{chunks} chunks loaded, BM25 and HNSW indexes built")
    return loaded


async def measure_collection(
    suite: Suite,
    chunks: int,
    load_seconds: Mapping[str, float],
    query_count: int,
    seconds: float,
    report: Report,
    on_weaviate: WeaviateSuite | None = None,
    *,
    cases: Sequence[Case] = CASES,
) -> Result:
    """Measure a loaded collection; with a suite on the same database that searches Weaviate, that one too.

    Raises GatewayError, MeasurementError.
    """
    collection = _name(chunks)
    sizes = await sizes_mib(suite.database_url, collection)
    asked, answerable = queries(query_count), questions(min(query_count, chunks))
    figures: dict[tuple[str, str], Figures] = {}
    other = on_weaviate.suite if on_weaviate else None
    async with open_ways(suite, collection, asked, other) as ways:
        for case in cases:
            report(f"{chunks} chunks: {case.name}")
            inputs = answerable if ANSWER in case.ways else asked
            for way, one in (await _measure_case(case, ways, inputs, seconds)).items():
                figures[case.name, way] = one
    report(f"{chunks} chunks: recall")
    recalls = {
        name: await recall(suite.database_url, collection, one_in) for name, one_in in RECALL_FILTERS.items()
    }
    weaviate_recalls = {}
    if on_weaviate is not None:
        async with open_weaviate(on_weaviate.settings) as weaviate:
            weaviate_recalls = {
                name: await recall(suite.database_url, collection, one_in, weaviate)
                for name, one_in in RECALL_FILTERS.items()
            }
    rss = peak_rss_mib(psutil.Process(suite.pids["retriever"]))
    postgres = memory_mib(psutil.Process(suite.pids["postgres"]))
    return Result(chunks, load_seconds, figures, rss, sizes, postgres, recalls, weaviate_recalls)


def _name(chunks: int) -> str:
    return f"bench-{chunks}"


async def _measure_case(
    case: Case, ways: Mapping[str, Way], asked: Sequence[str], seconds: float
) -> dict[str, Figures]:
    used = {name: ways[name] for name in case.ways if name in ways}
    works = {name: partial(way.search, case) for name, way in used.items()}
    figures = await measure_serially(works, asked)
    for name, work in works.items():
        await measure_load(figures[name], work, asked, used[name].pids, clients=CLIENTS, seconds=seconds)
    return figures


def goals(result: Result) -> list[Goal]:
    """Return the goals of these figures."""
    floor, gateway = result.of(HYBRID, FLOOR), result.of(HYBRID, GATEWAY)
    retriever = result.of(HYBRID, RETRIEVER)
    found = [
        Goal(f"hybrid: {RETRIEVER} / floor", retriever.p50 / floor.p50, 1.5),
        Goal(f"hybrid: {GATEWAY} / floor", gateway.p50 / floor.p50, 1.9),
        Goal(
            f"hybrid: {GATEWAY}, {CLIENTS} clients, per second / floor's",
            gateway.per_second / floor.per_second,
            0.7,
            is_minimum=True,
        ),
        Goal(
            "one search: processor time of all services / PostgreSQL",
            services_to_postgres(gateway.processor_ms),
            0.55,
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
    if (on_weaviate := result.figures.get((HYBRID.name, WEAVIATE_RETRIEVER))) is not None:
        ratio = on_weaviate.p50 / retriever.p50
        found.append(Goal(f"hybrid: {WEAVIATE_RETRIEVER} / {RETRIEVER}", ratio, 2))
        found += [
            Goal(f"recall@{RECALL_CHUNKS} of Weaviate, {name}", share, 0.98, is_minimum=True)
            for name, share in result.weaviate_recall.items()
        ]
    return found
