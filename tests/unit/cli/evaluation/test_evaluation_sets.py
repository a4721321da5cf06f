"""Evaluation sets that are wrong, or hold what cannot be measured."""

import json
from pathlib import Path
from typing import Any

import pytest
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet, Query

CORPUS = [
    {"id": "a", "title": "A", "text": "alpha"},
    {"id": "b", "text": "beta"},
    {"id": "c", "text": "alpha"},
]
QUERIES = [{"id": "q1", "text": "first"}, {"id": "q2", "text": "second"}]
QRELS = "query_id\tdoc_id\trelevance\nq1\ta\t1\nq2\tb\t0\n"


def write_set(
    directory: Path,
    *,
    corpus: list[dict[str, str]] | None = None,
    queries: list[dict[str, Any]] | None = None,
    qrels: str = QRELS,
) -> Path:
    rows = CORPUS if corpus is None else corpus
    (directory / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (directory / "queries.jsonl").write_text("\n".join(map(json.dumps, queries or QUERIES)))
    (directory / "qrels.tsv").write_text(qrels)
    return directory


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("h\nq1 a 1\n", "qrels.tsv:2: not query_id"),
        ("h\nq1\ta\tmuch\n", "qrels.tsv:2: not query_id"),
        ("h\n\nq1\tz\n", "qrels.tsv:3: not query_id"),
    ],
)
def test_wrong_judgements_are_named_with_their_line(tmp_path: Path, qrels: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        EvaluationSet.load(write_set(tmp_path, qrels=qrels))


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "corpus.jsonl:2: the id a is there twice"),
        ([{"id": "a"}], "corpus.jsonl:1: text must be a text that is not empty"),
        ([{"text": "x"}], "corpus.jsonl:1: id must be"),
    ],
)
def test_wrong_rows_are_named_by_line(tmp_path: Path, corpus: list[dict[str, str]], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        EvaluationSet.load(write_set(tmp_path, corpus=corpus))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"corpus\.jsonl: No such file"):
        EvaluationSet.load(tmp_path)


def test_other_fields_of_a_question_are_passed_over(tmp_path: Path) -> None:
    queries = [{"id": "q1", "text": "first", "half": "open", "opposites": ["beta"]}]
    [query] = EvaluationSet.load(write_set(tmp_path, queries=queries)).queries
    assert query.text == "first"


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    write_set(tmp_path)
    (tmp_path / "queries.jsonl").write_text("[1]\n")
    with pytest.raises(DatasetError, match=r"queries\.jsonl:1: not a JSON object"):
        EvaluationSet.load(tmp_path)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"answers": "one"}, "queries.jsonl:1: answers must be a list of texts"),
        ({"answers": [1]}, "queries.jsonl:1: answers must be a list of texts"),
        ({"answerable": "no"}, "queries.jsonl:1: answerable must be true or false"),
        ({"kind": 5}, "queries.jsonl:1: kind must be a text"),
    ],
)
def test_wrong_expectations_are_named_by_line(tmp_path: Path, query: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        EvaluationSet.load(write_set(tmp_path, queries=[{"id": "q1", "text": "first", **query}]))


def test_what_cannot_be_measured_is_passed_over_and_counted(tmp_path: Path) -> None:
    dataset = EvaluationSet.load(
        write_set(
            tmp_path,
            corpus=[*CORPUS, {"id": "blank", "text": " \n"}],
            queries=[*QUERIES, {"id": "q3", "text": ""}, {"id": "q4", "text": "lost"}],
            qrels=f"{QRELS}q1\tgone\t1\nq4\tblank\t1\n",
        )
    )
    assert [query.query_id for query in dataset.queries] == ["q1", "q2"]
    assert [document_id for document_id, _, _ in dataset.documents()] == ["a", "b", "c"]
    assert dataset.skipped == {
        "documents without text": 1,
        "judgements of documents that are not there": 2,
        "questions without text": 1,
        "questions whose documents are not there": 1,
    }


def test_a_set_whose_every_question_is_passed_over_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"queries\.jsonl: no question is left"):
        EvaluationSet.load(write_set(tmp_path, queries=[{"id": "q1", "text": " "}]))


def test_only_queries_with_a_relevant_document_are_judged(tmp_path: Path) -> None:
    dataset = EvaluationSet.load(write_set(tmp_path))
    assert dataset.judged == [Query("q1", "first", {"a": 1}, [])]
    assert list(dataset.documents()) == [("a", "A", "alpha"), ("b", "", "beta"), ("c", "", "alpha")]
    assert dataset.contents["a"] == dataset.contents["c"] != dataset.contents["b"]


def test_a_question_is_answerable_if_it_has_an_answer_or_a_document_and_does_not_say_otherwise(
    tmp_path: Path,
) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "q1", "text": "by its document"},
        {"id": "q2", "text": "by nothing"},
        {"id": "q3", "text": "by its answer", "answer": "beta"},
        {"id": "q4", "text": "by neither", "answers": [" "]},
        {"id": "q5", "text": "only near", "answers": ["alpha"], "answerable": False},
        {"id": "q6", "text": "nowhere any more", "answerable": False},
    ]
    qrels = f"{QRELS}q5\ta\t1\nq6\tgone\t1\n"
    dataset = EvaluationSet.load(write_set(tmp_path, queries=rows, qrels=qrels))
    answerable = {query.query_id: query.answerable for query in dataset.queries}
    assert answerable == {"q1": True, "q2": False, "q3": True, "q4": False, "q5": False, "q6": False}
    assert dataset.queries[2].answers == ["beta"]


def test_without_a_corpus_the_documents_are_those_that_are_stored(tmp_path: Path) -> None:
    (write_set(tmp_path) / "corpus.jsonl").unlink()
    dataset = EvaluationSet.load(tmp_path, stored=["a"])
    assert dataset.contents == {"a": None}
    assert dataset.skipped == {"judgements of documents that are not there": 1}
