import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from groundline_tests.gateway.running import FakeGateway, Reply, Run, status

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
    result = groundline("eval", str(evaluation_set), code=1)
    assert "qrels.tsv: No such file" in result.stderr
    assert not gateway.requests


def test_others_collections_are_kept(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    gateway.collections["handbook"] = {"collectionId": "handbook", "name": "Handbook"}
    result = groundline("eval", str(evaluation_set), "--collection", "handbook", code=1)
    assert "choose another with --collection" in result.stderr
    assert set(gateway.collections) == {"handbook"}
    assert not gateway.documents


def test_a_set_that_cannot_be_ingested_leaves_no_collection(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    rows = (evaluation_set / "corpus.jsonl").read_text()
    (evaluation_set / "corpus.jsonl").write_text(rows.replace("yellow", "unreadable"))
    result = groundline("eval", str(evaluation_set), code=1)
    assert "1 documents could not be ingested, first d3: cannot be read" in result.stderr
    assert not gateway.collections


def test_measures_are_printed_by_mode(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    result = groundline("eval", str(evaluation_set), "--modes", "keyword,hybrid", "--json")
    measured = json.loads(result.stdout)
    assert (measured["documents"], measured["questions"]) == (3, 2)
    assert set(measured["measures"]) == {"keyword", "hybrid"}
    keyword = measured["measures"]["keyword"]
    assert [keyword[f"recall@{k}"]["value"] for k in (5, 10, 20)] == [1, 1, 1]
    # d1, an equal text, stands before d2.
    assert keyword["mrr@10"] == {"value": 0.75, "low": 0.5, "high": 1, "questions": 2}
    assert measured["degraded"] == {"keyword": 0, "hybrid": 0}
    assert not gateway.collections
    created = next(
        body for method, path, body in gateway.requests if (method, path) == ("POST", "/api/collections")
    )
    assert created["collectionId"] == "eval-small-set"
    assert created["settings"]["chunking"] == {"chunkSize": 20000, "chunkOverlap": 0}
    assert gateway.documents["eval-small-set"]["d3"]["title"] == "Pears"


def test_how_far_the_judge_agrees_with_labels_is_printed_first(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path, tmp_path: Path
) -> None:
    rows = [{"text": f"Claim {one}.", "verdict": one} for one in ("supported", "refuted", "not_found")]
    (evaluation_set / "claims.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gateway.verify_events = [
        {"sequence": 1, "started": {"claimCount": 2}},
        {"sequence": 2, "claim": {"number": 1, "verdict": "VERDICT_SUPPORTED"}},
        {"sequence": 3, "claim": {"number": 2, "verdict": "VERDICT_REFUTED"}},
        {
            "sequence": 4,
            "completed": {
                "judgedBy": [{"model": "rules", "claimCount": 1}, {"model": "judge", "claimCount": 1}],
                "degraded": [{"component": "COMPONENT_VALIDATION", "reason": "JUDGE_UNAVAILABLE"}],
            },
        },
    ]
    options = ("--answers", "--modes", "none", "--html", str(tmp_path / "report.html"))
    result = groundline("eval", str(evaluation_set), *options)
    said = (
        "agreement of the judge with labels (kappa): 0.000 (0.000–0.000) of 3 claims, "
        "decided by rules 3, judge 3; 3 of them degraded"
    )
    assert result.stdout.splitlines()[1] == said
    assert said in (tmp_path / "report.html").read_text()
    asked = [body for _, path, body in gateway.requests if path == "/api/verify"]
    assert {body["text"] for body in asked} == {row["text"] for row in rows}
    assert all(body["collectionIds"] == ["eval-small-set"] for body in asked)


def test_a_wrong_label_is_a_wrong_set(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    (evaluation_set / "claims.jsonl").write_text('{"text": "x", "verdict": "true"}\n')
    result = groundline("eval", str(evaluation_set), "--answers", code=1)
    assert "claims.jsonl:1: verdict must be one of supported, refuted, not_found" in result.stderr
    assert not gateway.requests


def test_a_strategy_is_beside_its_mode(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    result = groundline("eval", str(evaluation_set), "--modes", "hybrid,hybrid+weighted", "--json")
    assert set(json.loads(result.stdout)["measures"]) == {"hybrid", "hybrid+weighted"}
    strategies = [
        body["options"]["rerank"]["strategy"] for _, path, body in gateway.requests if path == "/api/search"
    ]
    assert strategies == ["RERANK_STRATEGY_NONE"] * 2 + ["RERANK_STRATEGY_WEIGHTED"] * 2


def test_a_piece_has_its_documents_title(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    rows = [
        {"id": "d1", "title": "", "text": "apples", "document_id": "f1"},
        {"id": "d2", "title": "Own", "text": "plums", "document_id": "f1"},
        {"id": "d3", "text": "pears", "document_id": "f2"},
    ]
    (evaluation_set / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (evaluation_set / "documents.jsonl").write_text('{"id": "f1", "title": "src/fruit.py"}\n{"id": "f2"}\n')
    groundline("eval", str(evaluation_set))
    titles = {uri: document["title"] for uri, document in gateway.documents["eval-small-set"].items()}
    assert titles == {"d1": "src/fruit.py", "d2": "Own", "d3": ""}


def test_a_kept_collection_serves_again(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    gateway.degraded = [{"component": "COMPONENT_SEMANTIC_ARM"}]
    for _ in range(2):
        result = groundline("eval", str(evaluation_set), "--keep", "--limit", "1", "--language", "german")
    assert len(gateway.paths("POST")) == 1 + 2 * (1 + 4)
    assert set(gateway.collections) == {"eval-small-set"}
    lines = result.stdout.splitlines()
    assert lines[0] == "Small Set: 3 documents, 1 questions"
    assert lines[1].split() == ["KEYWORD", "SEMANTIC", "HYBRID", "HYBRID+WEIGHTED"]
    assert lines[2].split() == ["R@5", *["1.000", "(1.000–1.000)"] * 4]
    assert "degraded: 1 of keyword; their figures say little" in result.stderr


# Answers


ANSWERED = {
    "answer": "Apples [1].",
    "sources": [{"number": 1, "uri": "d2"}],
    "completed": {
        "finishReason": "FINISH_REASON_STOP",
        "citations": [{"sourceNumber": 1}],
        "validation": {"grounded": True, "confidence": 0.75},
    },
}
REFUSED = {"answer": "Not said.", "completed": {"finishReason": "FINISH_REASON_NO_ANSWER"}}


@pytest.fixture
def asked_set(evaluation_set: Path, gateway: FakeGateway) -> Path:
    """Return a set of three questions, of which one is not answered by the documents."""
    queries = [
        {"id": "q1", "text": "what is green?", "answers": ["apples", "an apple"]},
        {"id": "q2", "text": "which are soft?", "answer": "pears"},
        {"id": "q3", "text": "which are blue?"},
    ]
    (evaluation_set / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    gateway.answer = ANSWERED
    gateway.answers["which are blue?"] = REFUSED
    return evaluation_set


def test_without_modes_and_answers_nothing_is_measured(groundline: Run, evaluation_set: Path) -> None:
    result = groundline("eval", str(evaluation_set), "--modes", "none", code=2)
    assert "only --answers to measure" in result.stderr


def test_answers_are_measured_with_retrieval(groundline: Run, gateway: FakeGateway, asked_set: Path) -> None:
    result = groundline("eval", str(asked_set), "--answers", "--modes", "keyword", "--json")
    measures = json.loads(result.stdout)["measures"]
    assert measures["keyword"]["recall@5"]["questions"] == 2
    values = {name: (one["value"], one["questions"]) for name, one in measures["answers"].items()}
    assert values == {
        "contains": (0.5, 2),
        "answered": (1, 2),
        "refused": (1, 1),
        "cited_precision": (0.5, 2),
        "cited_recall": (0.5, 2),
        "cited_mrr": (0.5, 2),
        "right": (0.5, 2),
        "grounded": (1, 2),
        "grounded_though_wrong": (1, 1),
        "calibration_error": (0.25, 2),
        "brier": ((0.25**2 + 0.75**2) / 2, 2),
        "risk_coverage_area": (0.5, 2),
    }
    asked = [body for _, path, body in gateway.requests if path == "/api/answer"]
    assert {body["query"] for body in asked} == {"what is green?", "which are soft?", "which are blue?"}
    assert all(body["store"] is False and body["collectionIds"] == ["eval-small-set"] for body in asked)


def test_what_was_passed_over_is_told(groundline: Run, gateway: FakeGateway, asked_set: Path) -> None:
    with (asked_set / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"id": "d4", "text": ""}\n')
    result = groundline("eval", str(asked_set), "--answers", "--modes", "none", "--keep")
    assert "refused, of the unanswerable  1.000 (1.000–1.000)          1" in result.stdout
    assert "at a confidence of" not in result.stdout
    assert "passed over: 1 documents without text" in result.stderr


def test_a_question_that_is_refused_for_good_is_counted_and_the_others_go_on(
    groundline: Run, gateway: FakeGateway, asked_set: Path
) -> None:
    too_long = Reply(400, status(3, "the question is too long", "INVALID_FIELDS"))
    gateway.before_answer = lambda question: too_long if question == "which are soft?" else None
    result = groundline("eval", str(asked_set), "--answers", "--modes", "none")
    assert "without an answer: 1 questions that the gateway refused" in result.stderr
    assert "answered, of the answerable   1.000 (1.000–1.000)          1" in result.stdout


def test_a_run_that_failed_goes_on_with_what_was_not_asked(
    groundline: Run, gateway: FakeGateway, asked_set: Path, tmp_path: Path
) -> None:
    output = tmp_path / "figures.json"
    command = ("eval", str(asked_set), "--answers", "--modes", "none", "--concurrency", "1")
    broken = Reply(500, status(13, "internal error", "INTERNAL"))
    gateway.before_answer = lambda question: broken if question == "which are blue?" else None
    groundline(*command, "--output", str(output), code=1)
    assert not output.exists()
    # As if it had been killed while it wrote.
    with (tmp_path / "figures.json.part").open("a") as part:
        part.write('{"id": "q3", "outc')

    gateway.before_answer = lambda _question: None
    before = len(gateway.requests)
    groundline(*command, "--output", str(output))
    asked = [body["query"] for _, path, body in gateway.requests[before:] if path == "/api/answer"]
    assert asked == ["which are blue?"]
    written = json.loads(output.read_text())
    assert [record["outcome"]["answer"] for record in written["records"]] == [
        "Apples [1].",
        "Apples [1].",
        "Not said.",
    ]
    assert written["measures"]["answers"]["refused"]["value"] == 1
    assert not (tmp_path / "figures.json.part").exists()

    # Other questions are another run.
    (tmp_path / "figures.json.part").write_text('{"key": "of another"}\n')
    before = len(gateway.requests)
    groundline(*command, "--output", str(output))
    assert len([path for _, path, _ in gateway.requests[before:] if path == "/api/answer"]) == 3


def test_ctrl_c_prints_what_was_measured_and_deletes_the_collection(
    gateway: FakeGateway, groundline: Run, asked_set: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "groundline_cli", "eval", str(asked_set), "--answers", "--modes", "none"]
    with subprocess.Popen(
        [*program, "--concurrency", "1", "--output", str(tmp_path / "figures.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:

        def interrupt(question: str) -> None:
            if question == "which are blue?":
                process.send_signal(signal.SIGINT)
                # It has no answer: the reply goes where nobody is any more.
                process.wait(timeout=60)

        gateway.before_answer = interrupt
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "contains an accepted answer" in out
    assert "stopped after 2 of 3 answers" in err
    assert "the same command goes on from there" in err
    assert (tmp_path / "figures.json.part").exists()
    assert not gateway.collections


def test_without_a_corpus_the_documents_of_a_collection_are_measured(
    groundline: Run, gateway: FakeGateway, asked_set: Path
) -> None:
    groundline("eval", str(asked_set), "--keep")
    (asked_set / "corpus.jsonl").unlink()
    result = groundline(
        "eval", str(asked_set), "--collection", "eval-small-set", "--modes", "keyword", "--json"
    )
    measured = json.loads(result.stdout)
    assert measured["documents"] == 3
    assert measured["measures"]["keyword"]["recall@5"]["value"] == 1
    assert "content@5" not in measured["measures"]["keyword"]
    assert set(gateway.collections) == {"eval-small-set"}


# Baselines


def test_a_maximum_needs_a_baseline(groundline: Run, evaluation_set: Path) -> None:
    result = groundline("eval", str(evaluation_set), "--max-drop", "0.1", code=2)
    assert "--max-drop needs a --baseline" in result.stderr


def test_a_significant_loss_has_an_exit_code_and_names_the_questions(
    groundline: Run, gateway: FakeGateway, asked_set: Path, tmp_path: Path
) -> None:
    queries = [
        {"id": f"q{number}", "text": f"what is {number}?", "answers": ["apples"]} for number in range(20)
    ]
    (asked_set / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    baseline = str(tmp_path / "baseline.json")
    command = ("eval", str(asked_set), "--answers", "--modes", "none")
    groundline(*command, "--output", baseline)
    compared = (*command, "--baseline", baseline, "--max-drop", "0.1")
    same = groundline(*compared)
    line = "at a confidence of 0.75 or more: 1.000 of these answers, 0.95 or more of them right"
    assert line in same.stdout
    assert "answers: contains an accepted answer   1.000  1.000" in same.stdout

    gateway.answers |= {f"what is {number}?": REFUSED for number in range(8)}
    worse = groundline(*compared, "--json", code=5)
    assert "worse: answers: contains an accepted answer, 1.000 to 0.600 (p = 0.0" in worse.stderr
    assert "  q7  what is 7?" in worse.stderr
    assert "q8" not in worse.stderr
    differences = json.loads(worse.stdout)["comparison"]["differences"]
    assert next(one for one in differences if one["name"] == "answered")["drop"] == pytest.approx(0.4)
    groundline(*compared, "--max-drop", "0.5")


def test_a_baseline_of_another_kind_is_named(groundline: Run, evaluation_set: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("[]")
    result = groundline("eval", str(evaluation_set), "--baseline", str(tmp_path / "notes.json"), code=1)
    assert "notes.json: not what --output writes" in result.stderr


def test_a_page_is_written_beside_the_figures(groundline: Run, asked_set: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    groundline("eval", str(asked_set), "--answers", "--modes", "keyword", "--html", str(page))
    text = page.read_text()
    assert "<h1>Evaluation of Small Set</h1>" in text
    assert '<td dir="auto">which are soft?</td>' in text
    assert "what is green?" not in text
