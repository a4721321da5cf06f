import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from groundline_tests.gateway.running import FakeGateway, Reply, Run, fake_gateway, status

type Check = Callable[..., dict[str, Any]]

QUESTIONS = 12
DOWN = Reply(503, status(14, "the generator is away", "SERVICE_UNAVAILABLE"))


@pytest.fixture
def checked_set(tmp_path: Path, gateway: FakeGateway) -> Path:
    """Return a set of twelve questions, each with its document, which is in the collection `handbook`."""
    directory = tmp_path / "questions"
    directory.mkdir()
    names = [f"d{number}" for number in range(QUESTIONS)]
    (directory / "queries.jsonl").write_text(
        "".join(
            json.dumps({"id": f"q{name}", "text": f"word{name}", "answer": name}) + "\n" for name in names
        )
    )
    (directory / "qrels.tsv").write_text("q\td\tr\n" + "".join(f"q{name}\t{name}\t1\n" for name in names))
    gateway.collections["handbook"] = {"collectionId": "handbook", "name": "Handbook"}
    gateway.documents["handbook"] = {
        name: {"documentId": name, "uri": name, "text": f"word{name}"} for name in names
    }
    gateway.answers = {
        f"word{name}": {"answer": f"It is {name}.", "completed": {"finishReason": "FINISH_REASON_STOP"}}
        for name in names
    }
    return directory


@pytest.fixture
def before(gateway: FakeGateway, checked_set: Path) -> Iterator[FakeGateway]:
    """The release before, on the same documents."""
    with fake_gateway() as server:
        server.collections, server.documents = gateway.collections, gateway.documents
        server.answers = dict(gateway.answers)
        yield server


@pytest.fixture
def check(groundline: Run, before: FakeGateway, checked_set: Path) -> Check:
    """Check the gateway beside the release before; return the figures."""

    def run(*options: str, code: int = 0, beside: str = before.connection.gateway) -> dict[str, Any]:
        arguments = (str(checked_set), "--collection", "handbook", "--beside", beside, "--json")
        # How long an answer takes decides nothing, unless a test says so.
        quick = ("--rounds", "1", "--max-slowdown", "1000")
        found: dict[str, Any] = json.loads(
            groundline("rollout-check", *arguments, *quick, *options, code=code).stdout
        )
        return found

    return run


# Failures


def test_a_release_whose_requests_fail_is_not_good(check: Check, gateway: FakeGateway) -> None:
    gateway.before_answer = lambda _question: DOWN
    found = check(code=1)
    assert (found["verdict"], found["passed"]) == ("fail", 0)
    assert "HTTP 503" in found["reasons"][0]


def test_a_failure_that_a_retry_makes_good_is_one_all_the_same(check: Check, gateway: FakeGateway) -> None:
    replies = [DOWN]
    gateway.before_answer = lambda _question: replies.pop() if replies else None
    found = check(code=1)
    assert found["errors"] == 1


def test_failures_that_are_allowed_do_not_count(check: Check, gateway: FakeGateway) -> None:
    replies = [DOWN]
    gateway.before_answer = lambda _question: replies.pop() if replies else None
    check("--max-errors", "1")


def test_answers_that_miss_a_part_more_often_than_before_are_failures(
    check: Check, gateway: FakeGateway, before: FakeGateway
) -> None:
    gateway.degraded = [{"component": "COMPONENT_SEMANTIC_ARM"}]
    found = check(code=1)
    assert found["reasons"] == ["12 searches and answers were degraded, of the release before 0"]
    before.degraded = gateway.degraded
    check()


def test_a_release_that_does_not_answer_is_not_good(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_GATEWAY_URL", "http://127.0.0.1:1")
    found = check(code=1)
    assert found["requests"] == 0
    assert "ConnectError" in found["reasons"][0]


# Worse


def test_a_release_that_finds_other_passages_is_not_good(check: Check, gateway: FakeGateway) -> None:
    gateway.passages = [{"chunk": {"uri": "of another index"}, "score": 1.0}]
    found = check(code=1)
    assert found["measures"]["searches.recall@10"]["now"] == 0
    assert found["reasons"][0].startswith("searches: R@10 fell from 1.000 to 0.000, of 12 questions")
    assert len(found["losses"][0]["worse"]) == QUESTIONS


def test_a_release_that_answers_wrong_is_not_good(check: Check, gateway: FakeGateway) -> None:
    gateway.answers = {}
    gateway.answer = {"answer": "Forty-two.", "completed": {"finishReason": "FINISH_REASON_STOP"}}
    found = check("--answers", "12", code=1)
    assert found["reasons"][0].startswith("answers: contains an accepted answer fell from 1.000 to 0.000")


def test_a_far_slower_release_is_not_good(check: Check, gateway: FakeGateway, before: FakeGateway) -> None:
    # Both wait, so that the ratio does not hang on how busy the machine is.
    gateway.before_answer = lambda _question: time.sleep(0.5)
    before.before_answer = lambda _question: time.sleep(0.05)
    found = check("--answers", "12", "--max-slowdown", "2", code=1)
    assert found["seconds"]["answers"]["ratio"] > 2
    assert any(reason.startswith("answers: 95 % came within") for reason in found["reasons"])


def test_what_could_be_chance_is_none_of_these(check: Check, gateway: FakeGateway) -> None:
    for name in ("d0", "d1"):
        gateway.answers[f"word{name}"] = {
            "answer": "Forty-two.",
            "completed": {"finishReason": "FINISH_REASON_STOP"},
        }
    found = check("--answers", "12")
    assert found["measures"]["answers.contains"]["now"] < 1
    assert found["reasons"] == []


# Not to be told


def test_beside_a_release_that_fails_as_well_nothing_can_be_told(
    check: Check, gateway: FakeGateway, before: FakeGateway
) -> None:
    gateway.before_answer = before.before_answer = lambda _question: DOWN
    found = check(code=2)
    assert found["verdict"] == "unknown"
    assert "the release before fails, too" in found["reasons"][0]


def test_without_the_release_before_nothing_can_be_told(check: Check) -> None:
    found = check(beside="http://127.0.0.1:1", code=2)
    assert found["verdict"] == "unknown"
    assert "127.0.0.1:1" in found["reasons"][0]


def test_of_five_questions_nothing_can_be_told(check: Check, checked_set: Path) -> None:
    queries = (checked_set / "queries.jsonl").read_text().splitlines(keepends=True)
    (checked_set / "queries.jsonl").write_text("".join(queries[:5]))
    found = check(code=2)
    assert found["reasons"] == ["5 questions have figures of both releases; 6 are needed"]


def test_a_client_over_its_limit_learns_nothing(check: Check, gateway: FakeGateway) -> None:
    limited = Reply(429, status(8, "too many requests", "RATE_LIMITED"))
    gateway.next_replies = [limited] * 1000
    found = check("--answers", "0", "--timeout", "2", code=2)
    assert (found["verdict"], found["errors"]) == ("unknown", 0)
    assert "over the limits of the key" in found["reasons"][0]


def test_two_ways_to_say_what_came_before_are_wrong_usage(groundline: Run, checked_set: Path) -> None:
    file = str(checked_set / "queries.jsonl")
    result = groundline(
        "rollout-check", str(checked_set), "--beside", "http://127.0.0.1:1", "--baseline", file, code=2
    )
    assert "give one" in result.stderr


# Good


def test_a_release_as_good_as_the_one_before_passes(check: Check, before: FakeGateway) -> None:
    found = check("--rounds", "2")
    assert (found["verdict"], found["passed"], found["errors"]) == ("pass", 1, 0)
    assert found["measures"]["searches.recall@10"] == {
        "before": 1,
        "now": 1,
        "probability": 1,
        "questions": QUESTIONS,
    }
    assert found["seconds"]["searches"]["requests"] == 2 * QUESTIONS
    # The first request of each is for connecting.
    assert before.paths("POST").count("/api/search") == 2 * QUESTIONS + 1


def test_saved_figures_stand_for_the_release_before(
    groundline: Run, gateway: FakeGateway, checked_set: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "before.json"
    check = ("rollout-check", str(checked_set), "--collection", "handbook", "--max-slowdown", "1000")
    groundline(*check, "--save", str(saved))
    groundline(*check, "--baseline", str(saved))
    gateway.passages = []
    failed = groundline(*check, "--baseline", str(saved), "--save", str(tmp_path / "after.json"), code=1)
    assert "R@10 fell from 1.000 to 0.000" in failed.stdout
    assert "worse: searches: R@10, 1.000 to 0.000" in failed.stderr
    assert not (tmp_path / "after.json").exists()


def test_a_file_not_written_by_save_is_told(groundline: Run, checked_set: Path, gateway: FakeGateway) -> None:
    file = checked_set / "qrels.tsv"
    result = groundline(
        "rollout-check", str(checked_set), "--collection", "handbook", "--baseline", str(file), code=2
    )
    assert "qrels.tsv: not what --save writes" in result.stdout
