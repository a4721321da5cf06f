"""`groundline bench retrieval` and `bench idle` on little: every figure is taken, however good it is."""

from collections.abc import AsyncIterator

import pytest
from groundline_benchmarks.idle.benchmark import measure_idle
from groundline_benchmarks.measuring.running import MeasurementError
from groundline_benchmarks.measuring.suite import PROCESSES, SERVICES, Suite, started_suite
from groundline_benchmarks.retrieval.benchmark import goals, load, measure_collection
from groundline_benchmarks.retrieval.cases import CASES, HYBRID
from groundline_benchmarks.retrieval.corpus import load_collection, load_small_collections
from groundline_benchmarks.retrieval.small_collections import (
    ALL,
    BACKEND,
    LONE,
    ONE,
    measure_small_collections,
)


@pytest.fixture(scope="module")
async def suite(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Suite]:
    async with started_suite(tmp_path_factory.mktemp("bench"), {}) as started:
        yield started


async def test_every_figure_is_taken(suite: Suite) -> None:
    begun: list[str] = []
    async with suite.connection.client() as client:
        small = await measure_small_collections(suite, client, 2, 2, 0.2, begun.append, cases=[HYBRID])
        [load_seconds] = await load(client, suite.database_url, [1000], begun.append)
        result = await measure_collection(suite, 1000, load_seconds, 2, 0.2, begun.append)
        idle = await measure_idle(suite, client, 0.2, begun.append)
        with pytest.raises(MeasurementError, match="1000 indexed chunks, not 41"):
            await load_collection(client, suite.database_url, "bench-1000", 41)
        with pytest.raises(MeasurementError, match="other collections are loaded"):
            await load_small_collections(client, suite.database_url, 3)
    assert begun
    assert set(small.figures) == {(HYBRID.name, name) for name in (LONE, ONE, ALL)}
    assert small.created_per_second > 0
    assert small.memory_mib.keys() == {*SERVICES, BACKEND}
    assert all(size > 0 for size in small.memory_mib.values())
    assert all(transactions >= 1 for transactions in small.transactions.values())
    assert len(small.goals(1.0)) == 4
    ways = {(case.name, way) for case in CASES for way in case.ways if "Weaviate" not in way}
    assert set(result.figures) == ways
    for figures in (*result.figures.values(), *small.figures.values()):
        assert 0 < figures.p50 <= figures.p95
        assert figures.per_second > 0
        assert set(figures.processor_ms) == set(PROCESSES)
    assert len(goals(result)) == 5
    assert {"copied", "bm25", "hnsw"} == result.load_seconds.keys()
    assert result.sizes_mib.keys() >= {"rows", "bm25", "hnsw"}
    assert all(share > 0.9 for share in result.recall.values())
    assert result.postgres_mib > 0
    assert set(idle.shares) == set(PROCESSES)


async def test_what_is_loaded_already_is_taken_as_it_is(suite: Suite) -> None:
    async with suite.connection.client() as client:
        taken = await load_collection(client, suite.database_url, "again", 3)
        assert await load_collection(client, suite.database_url, "again", 3) == taken
