"""Measures against values computed by hand, and evaluation sets that are wrong."""

import json
import math
from pathlib import Path

import pytest
from groundline_cli.evaluation import (
    DatasetError,
    EvaluationSet,
    Query,
    content_share,
    ndcg,
    recall,
    reciprocal_rank,
    score,
    unique,
)

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
    qrels: str = QRELS,
) -> Path:
    rows = CORPUS if corpus is None else corpus
    (directory / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (directory / "queries.jsonl").write_text("\n".join(map(json.dumps, QUERIES)))
    (directory / "qrels.tsv").write_text(qrels)
    return directory


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("h\nq1 a 1\n", "qrels.tsv:2: not query_id"),
        ("h\nq1\ta\tmuch\n", "qrels.tsv:2: not query_id"),
        ("h\n\nq1\tz\t1\n", "qrels.tsv:3: corpus.jsonl holds no document z"),
        ("h\nq1\ta\t0\n", "no query has a relevant document"),
    ],
)
def test_wrong_judgements_are_named_with_their_line(tmp_path: Path, qrels: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        EvaluationSet.load(write_set(tmp_path, qrels=qrels))


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "corpus.jsonl:2: the id a is there twice"),
        ([{"id": "a", "text": ""}], "corpus.jsonl:1: text must be a text that is not empty"),
        ([{"text": "x"}], "corpus.jsonl:1: id must be"),
    ],
)
def test_wrong_rows_are_named_with_their_line(
    tmp_path: Path, corpus: list[dict[str, str]], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        EvaluationSet.load(write_set(tmp_path, corpus=corpus))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"corpus\.jsonl: No such file"):
        EvaluationSet.load(tmp_path)


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    write_set(tmp_path)
    (tmp_path / "queries.jsonl").write_text("[1]\n")
    with pytest.raises(DatasetError, match=r"queries\.jsonl:1: not a JSON object"):
        EvaluationSet.load(tmp_path)


def test_queries_without_a_relevant_document_are_left_out(tmp_path: Path) -> None:
    dataset = EvaluationSet.load(write_set(tmp_path))
    assert dataset.queries == [Query("q1", "first", {"a": 1})]
    assert list(dataset.documents()) == [("a", "A", "alpha"), ("b", "", "beta"), ("c", "", "alpha")]
    assert dataset.contents["a"] == dataset.contents["c"] != dataset.contents["b"]


def test_a_document_counts_where_its_best_chunk_stands() -> None:
    assert unique(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]


def test_recall_is_the_share_of_relevant_documents_among_the_first_k() -> None:
    assert recall(["x", "a", "y", "b"], {"a", "b", "c"}, 2) == pytest.approx(1 / 3)
    assert recall(["x", "a", "y", "b"], {"a", "b", "c"}, 4) == pytest.approx(2 / 3)
    assert recall([], {"a"}, 5) == 0


def test_a_duplicate_has_the_content_that_was_asked_for() -> None:
    contents = {"a": b"1", "copy": b"1", "b": b"2", "x": b"3"}
    assert content_share(["copy", "x"], {"a", "b"}, contents, 5) == 0.5
    assert content_share(["copy", "b"], {"a", "copy", "b"}, contents, 1) == 0.5
    assert content_share(["unknown"], {"a"}, contents, 5) == 0


def test_reciprocal_rank_counts_the_first_hit_within_k() -> None:
    assert reciprocal_rank(["x", "y", "a", "b"], {"a", "b"}, 10) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x", "y", "a"], {"a"}, 2) == 0


def test_ndcg_discounts_by_rank_and_is_relative_to_the_best_order() -> None:
    # Gains 0, 2, 1 at ranks 1 to 3 against the ideal 2, 1, 1.
    got = 2 / math.log2(3) + 1 / math.log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(["x", "a", "b"], {"a": 2, "b": 1, "c": 1}, 10) == pytest.approx(got / ideal)
    assert ndcg(["a"], {"a": 1}, 10) == 1
    assert ndcg(["x", "a"], {"a": 1}, 1) == 0


def test_scores_are_means_over_queries() -> None:
    contents = {"a": b"1", "b": b"2"}
    rankings = [(Query("1", "", {"a": 1}), ["a", "b"]), (Query("2", "", {"a": 1}), ["b", "a"])]
    scores = score(rankings, contents)
    assert scores.recall == {5: 1, 10: 1, 20: 1}
    assert scores.mrr == pytest.approx(0.75)
    assert scores.ndcg == pytest.approx((1 + 1 / math.log2(3)) / 2)
