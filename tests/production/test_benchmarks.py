"""Every benchmark with a database, briefly, on a server with production's keyword engine: `make
test-production-engine`."""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner
from groundline_benchmarks.command import bench
from groundline_tests.lexical import URL_VARIABLE, lexical_server_settings
from groundline_tests.postgres import BINARIES_VARIABLE, PostgresServer

BENCHMARKS: Final[Mapping[str, Sequence[str]]] = {
    "lexical": ("lexical", "--chunks=10000"),
    "retrieval": ("retrieval", "--chunks=10000", "--queries=20", "--seconds=1"),
    "collections": ("retrieval", "--collections=10000", "--queries=10", "--seconds=1"),
    "ingest": ("ingest", "--chunks=4000", "--texts=50", "--document-mib=5"),
    "idle": ("idle", "--seconds=5"),
    "chat": ("chat", "--latency-chats=5", "--streams=4", "--cancelled-chats=2", "--memory-chats=20"),
    "chaos": ("chaos", "--json", "--seconds=6", "--fault=postgres-crashes", "--fault=collections-locked"),
    "soak": ("soak", "--minutes=0.5"),
    "feed": ("feed", "--chunks=500", "--documents=20"),
}
MAXIMUM_CONNECTIONS: Final = 300
WITH_BOUNDS_OF_THE_MACHINE: Final = {"chaos", "soak"}
"""Benchmarks that exit with 1 where a bound is missed, which depends on how busy the machine is."""


@pytest.fixture(scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """URL of the server at hand."""
    if url := os.environ.get(URL_VARIABLE):
        yield url
        return
    if not os.environ.get(BINARIES_VARIABLE):
        pytest.skip("no PostgreSQL at hand is named")
    settings = {
        **await lexical_server_settings(),
        "max_connections": str(MAXIMUM_CONNECTIONS),
        "restart_after_crash": "on",
    }
    async with PostgresServer(tmp_path_factory.mktemp("production"), settings) as server:
        yield server.dsn


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """A set of one question."""
    text = "The tower of Kiel is 308 metres high."
    (tmp_path / "corpus.jsonl").write_text(f'{{"id": "tower", "text": "{text}"}}\n')
    (tmp_path / "queries.jsonl").write_text(
        '{"id": "q", "text": "How high is the tower?", "answer": "308"}\n'
    )
    (tmp_path / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq\ttower\t1\n")
    return tmp_path


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs(server: str, question: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "feed" and "GROUNDLINE_WEAVIATE__HTTP_URL" not in os.environ:
        pytest.skip("no nodes of Weaviate are named")
    sets = [str(question)] if name == "chat" else []
    result = CliRunner().invoke(bench, [*BENCHMARKS[name], *sets, "--database-url", server])
    with capsys.disabled():
        print(f"\ngroundline bench {' '.join(BENCHMARKS[name])}\n{result.stdout}")
    assert result.exit_code in ((0, 1) if name in WITH_BOUNDS_OF_THE_MACHINE else (0,)), result.output
    if name == "chaos":
        for one in json.loads(result.stdout)["faults"]:
            assert (one["counts"].get("wrong", 0), one["lost"], one["doubled"]) == (0, [], []), one
