"""Searches of many small collections: all of them at once, some, one, and one with a partition of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
import psutil
from groundline_client import AsyncClient

from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.load import Figures, measure_load, measure_serially
from groundline_benchmarks.measuring.processes import processor_time
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.suite import SERVICES, Suite, started_suite
from groundline_benchmarks.retrieval.cases import CLIENTS, HYBRID, KEYWORD, SEMANTIC, Case
from groundline_benchmarks.retrieval.corpus import (
    LONE_COLLECTION,
    SMALL_COLLECTION_CHUNKS,
    load_small_collections,
    questions,
)
from groundline_benchmarks.retrieval.ways import open_services

LONE: Final = "one that shares nothing"
ONE: Final = "one"
ALL: Final = "all"
SOME: Final = (20, 100)
"""Numbers of collections that a search names; requests may name 100."""

BACKEND: Final = "largest backend"
"""Name of PostgreSQL's largest backend in SmallCollections.memory_mib."""

ENVIRONMENT: Final = {"GROUNDLINE_INGESTOR_MAX_COLLECTIONS_PER_CALLER": "10000000"}
"""Settings of a suite in which one caller creates all of them."""

_STATISTICS_SECONDS: Final = 2.0
"""Time after which PostgreSQL's statistics are up to date, in seconds; backends report once a second."""

_SETTLE_SECONDS: Final = 5.0
"""Time from the last request until an idle suite is watched, in seconds."""

_ACTIVITY: Final = """
    SELECT xact_commit, (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
    FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(frozen=True, slots=True)
class SmallCollections:
    """Hybrid search by the coordinator's port, and the cost of many collections."""

    collections: int
    created_per_second: float
    """Collections created per second by CLIENTS clients of the gateway; 0 if an earlier run has created
    them."""
    figures: Mapping[tuple[str, str], Figures]
    """Figures by case and by the searched collections: LONE, ONE, a number of them, ALL."""
    transactions: Mapping[tuple[str, str], float]
    """Transactions in the database for one search, while several clients search."""
    connections: Mapping[tuple[str, str], int]
    """Connections to the database after that."""
    memory_mib: Mapping[str, float]
    """Memory of each service afterwards, and of the largest backend: pages that it does not share."""
    idle: tuple[float, float]
    """Cores that the whole idle suite takes: before they were created, and with all of them."""

    def hybrid(self, name: str) -> Figures:
        return self.figures[HYBRID.name, name]

    def goals(self, start_seconds: float) -> list[Goal]:
        lone = self.hybrid(LONE).p50
        found = [
            Goal("one of them / one that shares nothing", self.hybrid(ONE).p50 / lone, 1.2),
            Goal("all at once / one of them", self.hybrid(ALL).p50 / self.hybrid(ONE).p50, 3),
            Goal("seconds to start", start_seconds, 30),
        ]
        if self.created_per_second:
            found.append(Goal("created, per second", self.created_per_second, 50, is_minimum=True))
        return found


async def measure_small_collections(
    suite: Suite,
    client: AsyncClient,
    count: int,
    query_count: int,
    seconds: float,
    report: Report,
    *,
    cases: Sequence[Case] = (KEYWORD, SEMANTIC, HYBRID),
) -> SmallCollections:
    """Load the collections if they are missing, and measure them. Raises GatewayError, MeasurementError."""
    idle_before = await _idle(suite, seconds)
    report(f"creating and loading {count} collections")
    names, created_per_second = await load_small_collections(client, suite.database_url, count)
    report(f"{count} collections: idle")
    idle = idle_before, await _idle(suite, seconds)
    named = {LONE: [LONE_COLLECTION], ONE: names[:1]}
    named |= {f"{some}": names[:some] for some in SOME if some < count}
    named[ALL] = []
    # Answerable by the first collection and the lone one, which have the same texts.
    asked = questions(min(query_count, SMALL_COLLECTION_CHUNKS))
    figures: dict[tuple[str, str], Figures] = {}
    transactions: dict[tuple[str, str], float] = {}
    connections: dict[tuple[str, str], int] = {}
    async with open_services(suite, client) as services:

        def searching(case: Case, ids: Sequence[str]) -> Callable[[str], Awaitable[None]]:
            async def search(query: str) -> None:
                await services.search({**case.request(query, ""), "collectionIds": ids})

            return search

        for case in cases:
            works = {name: searching(case, ids) for name, ids in named.items()}
            report(f"{count} collections: {case.name}")
            measured = await measure_serially(works, asked)
            for name, work in works.items():
                key, one = (case.name, name), measured[name]
                before, _ = await _activity(suite.database_url)
                await measure_load(one, work, asked, suite.pids, clients=CLIENTS, seconds=seconds)
                after, connections[key] = await _activity(suite.database_url)
                transactions[key] = (after - before) / (one.per_second * seconds)
                figures[key] = one
    return SmallCollections(
        count, created_per_second, figures, transactions, connections, _memory_mib(suite), idle
    )


async def measure_start(directory: Path, environment: Mapping[str, str], report: Report) -> float:
    """Return the seconds from nothing to a suite that answers, on an existing database: its server,
    migrations and the readiness of every part."""
    report("starting again")
    begun = time.perf_counter()
    async with started_suite(directory, environment):
        return time.perf_counter() - begun


def _memory_mib(suite: Suite) -> dict[str, float]:
    """Return the memory of each service, and of the largest of PostgreSQL's backends."""
    own = {name: _own_mib(psutil.Process(suite.pids[name])) for name in SERVICES}
    backends = psutil.Process(suite.pids["postgres"]).children(recursive=True)
    return {**own, BACKEND: max(_own_mib(backend) for backend in backends)}


def _own_mib(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().uss) / 2**20
    except psutil.NoSuchProcess:  # a connection that was closed meanwhile
        return 0.0


async def _idle(suite: Suite, seconds: float) -> float:
    """Return the cores that all of its processes take together."""
    await asyncio.sleep(_SETTLE_SECONDS)
    with processor_time(suite.pids) as taken:
        await asyncio.sleep(seconds)
    return sum(taken.values()) / seconds


async def _activity(database_url: str) -> tuple[int, int]:
    """Return the transactions so far, and the connections of others."""
    await asyncio.sleep(_STATISTICS_SECONDS)
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        ((transactions, connections),) = await connection.fetch(_ACTIVITY)
    finally:
        await connection.close()
    return transactions, connections - 1
