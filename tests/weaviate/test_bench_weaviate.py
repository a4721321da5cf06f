"""`groundline bench retrieval --search-index weaviate` on little: figures are taken, and nothing is left."""

from pathlib import Path

import httpx
import pytest
from groundline_benchmarks.measuring.running import MeasurementError
from groundline_benchmarks.measuring.suite import PROCESSES, started_suite
from groundline_benchmarks.retrieval.benchmark import goals, load, measure_collection
from groundline_benchmarks.retrieval.cases import ANSWERED, HYBRID, ONE_HOP, TWO_HOPS
from groundline_benchmarks.retrieval.corpus import RECALL_FILTERS
from groundline_benchmarks.retrieval.weaviate import nodes_here, suite_on_weaviate, weaviate_settings
from groundline_tests.weaviate.nodes import API_KEY, Cluster

CHUNKS = 1000
CASES = (HYBRID, ANSWERED)


async def test_weaviate_is_measured_beside_postgresql_and_left(one_node: Cluster, tmp_path: Path) -> None:
    report: list[str] = []
    async with started_suite(tmp_path, {}) as suite, suite.connection.client() as client:
        [load_seconds] = await load(client, suite.database_url, [CHUNKS], report.append)
        async with suite_on_weaviate(
            suite, tmp_path / "weaviate", one_node.settings(), report.append, is_kept=False
        ) as other:
            result = await measure_collection(
                suite, CHUNKS, load_seconds, 1, 0.1, report.append, other, cases=CASES
            )
            nodes = nodes_here(other.settings)
        classes = await schema(one_node)

    assert set(result.figures) == {
        (case.name, way) for case in CASES for way in case.ways if way not in (ONE_HOP, TWO_HOPS)
    }
    for figures in result.figures.values():
        assert 0 < figures.p50 <= figures.p95
        assert set(figures.processor_ms) == set(PROCESSES)
    assert result.weaviate_recall.keys() == RECALL_FILTERS.keys()
    assert all(share >= 0.98 for share in result.weaviate_recall.values())
    held_to = [goal.name for goal in goals(result) if "Weaviate" in goal.name]
    assert len(held_to) == 1 + len(RECALL_FILTERS)
    assert other.fed.chunks == CHUNKS
    assert nodes.count == 1
    assert nodes.memory_mib > 0
    assert nodes.disk_mib > 0
    assert not any(name.startswith(other.settings.class_prefix) for name in classes)


def test_without_an_address_of_weaviate_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROUNDLINE_WEAVIATE__GRPC_TARGET", raising=False)
    with pytest.raises(MeasurementError, match="GROUNDLINE_WEAVIATE__GRPC_TARGET"):
        weaviate_settings()


async def schema(cluster: Cluster) -> list[str]:
    """Return the names of classes."""
    address = str(cluster.settings().http_url)
    async with httpx.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {API_KEY}"}) as client:
        found = (await client.get(f"{address}v1/schema")).json()
    return [one["class"] for one in found["classes"]]
