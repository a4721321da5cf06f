"""Many small collections: all of them searched at once, and one alone."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg
from groundline_client import AsyncClient

from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.load import Figures, measure_load, measure_serially
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.suite import Suite
from groundline_benchmarks.retrieval.cases import CLIENTS, HYBRID
from groundline_benchmarks.retrieval.corpus import load_small_collections, queries
from groundline_benchmarks.retrieval.ways import open_services

__all__ = ["SCOPED", "UNSCOPED", "SmallCollections", "measure_small_collections"]

SCOPED, UNSCOPED = "one collection", "all collections"

_STATISTICS_SECONDS = 2.0
"""PostgreSQL's backends tell what they have done once a second."""

_ACTIVITY = """
    SELECT xact_commit, (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
    FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(frozen=True)
class SmallCollections:
    """Hybrid search by the coordinator's port."""

    collections: int
    figures: Mapping[str, Figures]
    """Of SCOPED and UNSCOPED."""
    transactions: Mapping[str, float]
    """In the database for one search, while several clients search."""
    connections: Mapping[str, int]
    """To the database after that."""

    def goals(self) -> list[Goal]:
        ratio = self.figures[UNSCOPED].p50 / self.figures[SCOPED].p50
        return [Goal(f"{self.collections} collections: all at once / one of them", ratio, 3)]


async def measure_small_collections(
    suite: Suite, client: AsyncClient, count: int, query_count: int, seconds: float, report: Report
) -> SmallCollections:
    """Loads them if they are not there. Raises GatewayError, MeasurementError."""
    report(f"loading {count} collections")
    names = await load_small_collections(client, suite.database_url, count)
    asked = queries(query_count)
    async with open_services(suite, client) as services:

        async def scoped(query: str) -> None:
            await services.search(HYBRID.request(query, names[0]))

        async def unscoped(query: str) -> None:
            await services.search({**HYBRID.request(query, ""), "collectionIds": []})

        works = {SCOPED: scoped, UNSCOPED: unscoped}
        report(f"{count} collections: one after the other")
        figures = await measure_serially(works, asked)
        transactions: dict[str, float] = {}
        connections: dict[str, int] = {}
        for name, work in works.items():
            report(f"{count} collections: {name}, {CLIENTS} clients")
            before, _ = await _activity(suite.database_url)
            await measure_load(figures[name], work, asked, suite.pids, clients=CLIENTS, seconds=seconds)
            after, connections[name] = await _activity(suite.database_url)
            transactions[name] = (after - before) / (figures[name].per_second * seconds)
    return SmallCollections(count, figures, transactions, connections)


async def _activity(database_url: str) -> tuple[int, int]:
    """Transactions so far, and connections of others."""
    await asyncio.sleep(_STATISTICS_SECONDS)
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        ((transactions, connections),) = await connection.fetch(_ACTIVITY)
    finally:
        await connection.close()
    return transactions, connections - 1
