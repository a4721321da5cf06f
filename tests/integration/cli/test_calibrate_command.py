"""groundline calibrate"""

import json
from pathlib import Path
from typing import Any

import pytest
from groundline_tests.gateway.running import FakeGateway, Reply, Run


def answered(uri: str, confidence: float) -> dict[str, Any]:
    return {
        "answer": "So it is [1].",
        "sources": [{"number": 1, "uri": uri}],
        "completed": {
            "finishReason": "FINISH_REASON_STOP",
            "citations": [{"sourceNumber": 1}],
            "validation": {"grounded": True, "confidence": 0.99, "rawConfidence": confidence},
        },
    }


@pytest.fixture
def asked_set(gateway: FakeGateway, groundline: Run, tmp_path: Path) -> Path:
    """A set of 60 questions about two documents. Answers of a confidence above .5 are right, and every fifth
    of the others."""
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("right.md", "wrong.md"):
        (documents / name).write_text(f"This is {name}.")
    groundline("ingest", str(documents), "--collection", "docs")
    folder = tmp_path / "set"
    folder.mkdir()
    queries, judged = [], ["query_id\tdoc_id\trelevance"]
    for number in range(60):
        confidence = number / 60
        uri = "right.md" if confidence > 0.5 or number % 5 == 0 else "wrong.md"
        gateway.answers[f"question {number}"] = answered(uri, confidence)
        queries.append(json.dumps({"id": f"q{number}", "text": f"question {number}"}))
        judged.append(f"q{number}\tright.md\t1")
    (folder / "queries.jsonl").write_text("\n".join(queries))
    (folder / "qrels.tsv").write_text("\n".join(judged))
    return folder


def test_one_source_of_questions_is_needed(groundline: Run, asked_set: Path) -> None:
    for options in ((), ("--set", str(asked_set), "--from-feedback")):
        result = groundline("calibrate", "docs", *options, code=2)
        assert "give --set FOLDER, or --from-feedback" in result.stderr


def test_too_few_answers_fit_nothing(groundline: Run, gateway: FakeGateway, asked_set: Path) -> None:
    refused = {"answer": "No.", "completed": {"finishReason": "FINISH_REASON_NO_ANSWER"}}
    gateway.before_answer = lambda question: Reply(200, refused) if question > "question 3" else None
    result = groundline("calibrate", "docs", "--set", str(asked_set), "--apply", code=1)
    assert "too few to fit a map; at least 30 are needed" in result.stderr
    assert not gateway.paths("PATCH")


def test_figures_are_printed_and_nothing_changes_unless_it_is_told(
    groundline: Run, gateway: FakeGateway, asked_set: Path
) -> None:
    result = groundline("calibrate", "docs", "--set", str(asked_set))
    shown = [line.split() for line in result.stdout.splitlines()]
    [error] = [line for line in shown if line[:3] == ["expected", "calibration", "error"]]
    assert float(error[-1]) < float(error[-2])
    assert "of the answers are given by themselves with 0.95 of them right" in result.stdout
    assert "not applied" in result.stderr
    assert not gateway.paths("PATCH")


def test_a_map_of_confidence_is_a_setting(groundline: Run, gateway: FakeGateway, asked_set: Path) -> None:
    for _ in range(2):  # fitted again, it is the same
        groundline("calibrate", "docs", "--set", str(asked_set), "--apply")
    first, second = [body for method, _, body in gateway.requests if method == "PATCH"]
    assert first == second
    assert first["updateMask"] == "settings.calibration"
    points = first["settings"]["calibration"]["points"]
    assert 2 <= len(points) <= 20
    assert points[0]["probability"] < 0.4 < 0.9 < points[-1]["probability"]
