import json
from pathlib import Path

import pytest
from groundline_tests.gateway.running import FakeGateway, Reply, Run, status

PLAN = """
measure = "mrr@10"
[settings.chunking]
chunkSize = [500, 1000]
[options.rerank]
fusion = ["FUSION_METHOD_RRF", "FUSION_METHOD_WEIGHTED"]
"""


@pytest.fixture
def swept(tmp_path: Path) -> tuple[str, str]:
    """Return the paths of a set and a plan."""
    directory = tmp_path / "fruit"
    directory.mkdir()
    rows = [{"id": "d1", "text": "apples are green"}, {"id": "d2", "text": "pears are soft"}]
    queries = [
        {"id": "q1", "text": "green apples"},
        {"id": "q2", "text": "soft"},
        {"id": "q3", "text": "blue"},
    ]
    (directory / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (directory / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (directory / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq1\td1\t1\nq2\td2\t1\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    return str(directory), str(tmp_path / "plan.toml")


def test_a_set_without_documents_cannot_vary_settings(
    groundline: Run, gateway: FakeGateway, swept: tuple[str, str]
) -> None:
    (Path(swept[0]) / "corpus.jsonl").unlink()
    result = groundline("eval", "sweep", *swept, "--collection", "fruit", code=1)
    assert "has no corpus.jsonl: `options` alone can be varied" in result.stderr
    assert not gateway.requests


def test_combinations_are_ranked_and_their_collections_deleted(
    groundline: Run, gateway: FakeGateway, swept: tuple[str, str]
) -> None:
    result = groundline("eval", "sweep", *swept, "--json")
    found = json.loads(result.stdout)
    assert [one["all"]["value"] for one in found["combinations"]] == [1, 1, 1, 1]
    assert [one["heldOut"]["questions"] for one in found["combinations"]] == [1] * 4
    created = [
        body for method, path, body in gateway.requests if (method, path) == ("POST", "/api/collections")
    ]
    assert [one["settings"]["chunking"] for one in created] == [{"chunkSize": 500}, {"chunkSize": 1000}]
    searches = [body["options"]["rerank"] for _, path, body in gateway.requests if path == "/api/search"]
    assert [one["fusion"] for one in searches[::2]] == ["FUSION_METHOD_RRF", "FUSION_METHOD_WEIGHTED"] * 2
    assert not gateway.collections


def test_a_combination_that_is_refused_is_left_out_and_named(
    groundline: Run, gateway: FakeGateway, swept: tuple[str, str]
) -> None:
    wrong = Reply(400, status(3, "chunk_size is too small", "INVALID_FIELDS"))
    gateway.before_create = lambda body: wrong if body["settings"]["chunking"]["chunkSize"] == 500 else None
    result = groundline("eval", "sweep", *swept)
    assert "left out: chunkSize 500, fusion FUSION_METHOD_RRF: chunk_size is too small" in result.stderr
    assert "chunkSize 1000, fusion FUSION_METHOD_WEIGHTED" in result.stdout
    assert "chunkSize 500" not in result.stdout


def test_a_stopped_sweep_goes_on_with_what_is_left(
    groundline: Run, gateway: FakeGateway, swept: tuple[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "sweep.json"
    broken = Reply(500, status(13, "internal error", "INTERNAL"))
    gateway.before_create = lambda body: broken if body["settings"]["chunking"]["chunkSize"] == 1000 else None
    groundline("eval", "sweep", *swept, "--output", str(output), code=1)
    assert not output.exists()

    gateway.before_create = lambda _body: None
    before = len(gateway.requests)
    groundline("eval", "sweep", *swept, "--output", str(output))
    created = [
        body["settings"]["chunking"]["chunkSize"]
        for method, path, body in gateway.requests[before:]
        if (method, path) == ("POST", "/api/collections")
    ]
    assert created == [1000]
    written = json.loads(output.read_text())
    assert len(written["combinations"]) == len(written["figures"]) == 4
    assert not (tmp_path / "sweep.json.part").exists()


def test_answers_decide_and_the_best_is_written_to_a_collection(
    groundline: Run, gateway: FakeGateway, swept: tuple[str, str]
) -> None:
    Path(swept[1]).write_text(
        'measure = "refused"\n[options.generation]\nminRelevance = [0.1, 0.5]\n'
        '[options]\neffort = "EFFORT_QUICK"'
    )
    gateway.collections["mine"] = {"collectionId": "mine"}
    gateway.answer = {"answer": "Not said.", "completed": {"finishReason": "FINISH_REASON_NO_ANSWER"}}
    result = groundline("eval", "sweep", *swept, "--write", "mine")
    asked = [body["options"] for _, path, body in gateway.requests if path == "/api/answer"]
    assert [one["generation"]["minRelevance"] for one in asked] == [0.1] * 3 + [0.5] * 3
    assert asked[0]["effort"] == "EFFORT_QUICK"
    assert gateway.collections["mine"]["settings"] == {"generation": {"minRelevance": 0.1}}
    assert "mine now has: minRelevance 0.1" in result.stderr
