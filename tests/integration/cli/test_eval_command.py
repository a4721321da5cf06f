import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from groundline_tests.gateway.running import FakeGateway

type Run = Callable[..., Result]


# eval


@pytest.fixture
def evaluation_set(tmp_path: Path) -> Path:
    directory = tmp_path / "Small Set"
    directory.mkdir()
    rows = [
        {"id": "d1", "title": "", "text": "apples are green"},
        {"id": "d2", "title": "", "text": "apples are green"},
        {"id": "d3", "title": "Pears", "text": "pears are yellow and soft"},
    ]
    queries = [{"id": "q1", "text": "green apples"}, {"id": "q2", "text": "which are soft"}]
    (directory / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (directory / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (directory / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq1\td2\t1\nq2\td3\t2\n")
    return directory


def test_a_wrong_set_is_not_loaded(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    (evaluation_set / "qrels.tsv").unlink()
    result = groundline("eval", str(evaluation_set))
    assert result.exit_code == 1
    assert "qrels.tsv: No such file" in result.stderr
    assert not gateway.requests


def test_a_collection_of_others_is_left_alone(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    gateway.collections["handbook"] = {"collectionId": "handbook", "name": "Handbook"}
    result = groundline("eval", str(evaluation_set), "--collection", "handbook")
    assert result.exit_code == 1
    assert "choose another with --collection" in result.stderr
    assert set(gateway.collections) == {"handbook"}
    assert not gateway.documents


def test_a_set_that_cannot_be_ingested_leaves_no_collection(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    rows = (evaluation_set / "corpus.jsonl").read_text()
    (evaluation_set / "corpus.jsonl").write_text(rows.replace("yellow", "unreadable"))
    result = groundline("eval", str(evaluation_set))
    assert result.exit_code == 1
    assert "1 documents could not be ingested, first d3: cannot be read" in result.stderr
    assert not gateway.collections


def test_measures_are_printed_for_each_mode(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    result = groundline("eval", str(evaluation_set), "--modes", "keyword,hybrid", "--json")
    assert result.exit_code == 0, result.stderr
    measured = json.loads(result.stdout)
    assert (measured["documents"], measured["queries"]) == (3, 2)
    assert set(measured["modes"]) == {"keyword", "hybrid"}
    keyword = measured["modes"]["keyword"]
    assert keyword["recall"] == {"5": 1, "10": 1, "20": 1}
    assert keyword["mrr@10"] == 0.75  # d1, an equal text, stands before d2
    assert keyword["degraded"] == 0
    assert not gateway.collections
    created = next(
        body for method, path, body in gateway.requests if (method, path) == ("POST", "/api/collections")
    )
    assert created["collectionId"] == "eval-small-set"
    assert created["settings"]["chunking"] == {"chunkSize": 20000, "chunkOverlap": 0}
    assert gateway.documents["eval-small-set"]["d3"]["title"] == "Pears"


def test_a_strategy_is_measured_beside_its_mode(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    result = groundline("eval", str(evaluation_set), "--modes", "hybrid,hybrid+weighted", "--json")
    assert set(json.loads(result.stdout)["modes"]) == {"hybrid", "hybrid+weighted"}
    strategies = [
        body["options"]["rerank"]["strategy"] for _, path, body in gateway.requests if path == "/api/search"
    ]
    assert strategies == ["RERANK_STRATEGY_NONE"] * 2 + ["RERANK_STRATEGY_WEIGHTED"] * 2


def test_a_piece_without_title_has_that_of_its_document(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    rows = [
        {"id": "d1", "title": "", "text": "apples", "document_id": "f1"},
        {"id": "d2", "title": "Own", "text": "plums", "document_id": "f1"},
        {"id": "d3", "text": "pears", "document_id": "f2"},
    ]
    (evaluation_set / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (evaluation_set / "documents.jsonl").write_text('{"id": "f1", "title": "src/fruit.py"}\n{"id": "f2"}\n')
    assert groundline("eval", str(evaluation_set)).exit_code == 0
    titles = {uri: document["title"] for uri, document in gateway.documents["eval-small-set"].items()}
    assert titles == {"d1": "src/fruit.py", "d2": "Own", "d3": ""}


def test_a_kept_collection_serves_the_next_run(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    gateway.degraded = [{"component": "COMPONENT_SEMANTIC_ARM"}]
    for _ in range(2):
        result = groundline("eval", str(evaluation_set), "--keep", "--limit", "1", "--language", "german")
        assert result.exit_code == 0
    assert len(gateway.paths("POST")) == 1 + 2 * (1 + 4)
    assert set(gateway.collections) == {"eval-small-set"}
    lines = result.stdout.splitlines()
    assert lines[0] == "Small Set: 3 documents, 1 queries"
    assert lines[2].split() == ["keyword", *["1.000"] * 3, "0.500", "0.631", *["1.000"] * 3, "1"]
