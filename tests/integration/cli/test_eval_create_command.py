import json
from pathlib import Path
from typing import Any

import pytest
from groundline_cli.evaluation.sets import EvaluationSet
from groundline_tests.gateway.running import FakeGateway, Reply, Run, status

LEAVE = "Employees have 27 working days of paid leave. Carried over days end on 31 March of the year."
CARS = "The rate for a car is 38 cents a kilometre."


@pytest.fixture
def handbook(groundline: Run, gateway: FakeGateway, tmp_path: Path) -> str:
    """Return the name of a collection of two documents."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "leave.md").write_text(LEAVE)
    (folder / "cars.md").write_text(CARS)
    groundline("ingest", str(folder), "--collection", "handbook")
    return "handbook"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_folder_that_holds_something_else_is_named(groundline: Run, handbook: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "queries.jsonl").write_text("[1]\n")
    result = groundline("eval", "create", handbook, "--output", str(tmp_path / "set"), code=1)
    assert "queries.jsonl: not a set's" in result.stderr


def test_a_set_of_every_draft_can_be_measured(groundline: Run, handbook: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    result = groundline("eval", "create", handbook, "--output", str(folder), "--accept-all")
    assert f"3 questions added to {folder}" in result.stdout
    dataset = EvaluationSet.load(folder)
    assert {query.text: (list(query.relevance), query.answers) for query in dataset.queries} == {
        "What is the rate for a car?": (["cars.md"], ["38 cents"]),
        "How many working days of paid leave do Employees have?": (["leave.md"], ["27 working days"]),
        "What is missing here: “Carried over days end on … of the year.”": (["leave.md"], ["31 March"]),
    }
    assert [text for _, _, text in dataset.documents()] == [CARS, LEAVE]
    measured = groundline("eval", str(folder), "--modes", "keyword", "--json")
    assert json.loads(measured.stdout)["measures"]["keyword"]["recall@5"]["questions"] == 3


def test_each_draft_is_decided_on_and_not_asked_again(groundline: Run, handbook: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    command = ("eval", "create", handbook, "--output", str(folder))
    first = groundline(*command, input="e\nWhat do I get for driving?\n38 cents a kilometre\nr\nq\n")
    assert "1 of 3  cars.md" in first.stdout
    assert "1 questions added" in first.stdout
    [edited] = rows(folder / "queries.jsonl")
    assert (edited["text"], edited["answers"]) == ("What do I get for driving?", ["38 cents a kilometre"])
    assert edited["passage"] == CARS

    second = groundline(*command, input="a\n")
    assert "1 of 1  leave.md" in second.stdout
    assert [row["answers"] for row in rows(folder / "queries.jsonl")] == [
        ["38 cents a kilometre"],
        ["31 March"],
    ]
    assert len((folder / "qrels.tsv").read_text().splitlines()) == 3

    third = groundline(*command)
    assert "no sentence is left" in third.stderr


def test_a_language_model_words_the_question_if_it_keeps_to_the_form(
    groundline: Run, gateway: FakeGateway, handbook: str, tmp_path: Path
) -> None:
    replies = iter(
        ["How long may I be away? [1]", "Are 27 working days enough?", "Here is a question:\nWhat is it?"]
    )
    gateway.before_answer = lambda _question: Reply(
        200, {"answer": next(replies), "completed": {"model": "some-model"}}
    )
    folder = tmp_path / "set"
    groundline("eval", "create", handbook, "--output", str(folder), "--accept-all")
    texts = [row["text"] for row in rows(folder / "queries.jsonl")]
    assert texts[0] == "How long may I be away?"
    assert "Are 27 working days enough?" not in texts
    asked = [body for _, path, body in gateway.requests if path == "/api/answer"]
    assert all(body["store"] is False and "systemPrompt" in body["options"]["generation"] for body in asked)
    assert asked[0]["filter"] == {"$uri": "cars.md"}


def test_without_a_model_it_is_asked_for_once(
    groundline: Run, gateway: FakeGateway, handbook: str, tmp_path: Path
) -> None:
    gateway.answer = {"answer": "A quotation?", "completed": {"model": "extractive"}}
    groundline("eval", "create", handbook, "--output", str(tmp_path / "set"), "--accept-all")
    forbidden = Reply(400, status(3, "system_prompt is fixed", "INVALID_FIELDS"))
    gateway.before_answer = lambda _question: forbidden
    groundline("eval", "create", handbook, "--output", str(tmp_path / "set-2"), "--accept-all")
    assert len([path for path in gateway.paths("POST") if path == "/api/answer"]) == 2


def rated(message_id: str, question: str, answer: str, uri: str, **feedback: str) -> list[dict[str, Any]]:
    """Build a question and its answer, which cites a document unless there is no uri."""
    return [
        {"role": "USER", "messageId": f"of-{message_id}", "content": question},
        {
            "role": "ASSISTANT",
            "messageId": message_id,
            "content": answer,
            "finishReason": "FINISH_REASON_STOP" if uri else "FINISH_REASON_NO_ANSWER",
            "sources": [{"number": 1, "uri": uri or "cars.md"}, {"number": 2, "uri": "cars.md"}],
            "citations": [{"sourceNumber": 1}] if uri else [],
            "feedback": {"rating": feedback.pop("rating"), **feedback},
        },
    ]


@pytest.fixture
def threads(gateway: FakeGateway) -> None:
    good, bad = "RATING_GOOD", "RATING_BAD"
    gateway.threads = {
        "t1": [
            *rated("good", "How much leave?", "27 days [1]", "leave.md", rating=good),
            *rated("later", "And in Kiel?", "30 days [1]", "leave.md", rating=good),
        ],
        "t2": rated("refused", "Who is the chief?", "Not said.", "", rating=good),
        "t3": rated("invented", "Is there a pool?", "38 cents [1]", "cars.md", rating=bad)
        + rated("stale", "What is paid?", "30 cents [1]", "cars.md", rating=bad, problem="PROBLEM_OUTDATED"),
        "t4": rated("elsewhere", "How?", "So [1]", "other.md", rating=good),
        "t5": [{"role": "USER", "content": "unanswered"}],
    }
    gateway.threads["t3"][1]["feedback"]["problem"] = "PROBLEM_UNANSWERABLE"
    gateway.threads["t4"][1]["sources"] = [{"number": 1, "uri": "other.md"}]


def test_rated_answers_give_questions(groundline: Run, handbook: str, threads: None, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    command = ("eval", "create", handbook, "--output", str(folder), "--from-feedback", "--accept-all")
    result = groundline(*command)
    assert f"3 questions added to {folder}" in result.stdout
    dataset = EvaluationSet.load(folder)
    assert {query.text: (list(query.relevance), query.answerable) for query in dataset.queries} == {
        "How much leave?": (["leave.md"], True),
        "Who is the chief?": ([], False),
        "Is there a pool?": ([], False),
    }
    again = groundline(*command)
    assert "no rated question is left" in again.stderr


def test_the_document_that_a_bad_answer_lacked_is_named_by_a_person(
    groundline: Run, handbook: str, threads: None, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    decisions = "r\ne\nHow much leave in Kiel?\n\n-\nr\nr\na\ne\nWhat is paid for a car?\ncars.md\n38 cents\n"
    result = groundline(
        "eval", "create", handbook, "--output", str(folder), "--from-feedback", input=decisions
    )
    assert "the document that holds the answer is not known" in result.stdout
    assert "bad, outdated" in result.stdout
    assert {row["text"]: row.get("answers") for row in rows(folder / "queries.jsonl")} == {
        "How much leave in Kiel?": None,
        "What is paid for a car?": ["38 cents"],
    }
    assert (folder / "qrels.tsv").read_text().splitlines()[1:] == ["later\tleave.md\t1", "stale\tcars.md\t1"]
