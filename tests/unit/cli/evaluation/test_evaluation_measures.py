"""Measures of rankings against values computed by hand."""

import math

import pytest
from groundline_cli.evaluation.measures import (
    content_share,
    kappa,
    ndcg,
    precision,
    ranking_measures,
    recall,
    reciprocal_rank,
    unique,
)
from groundline_cli.evaluation.sets import Query


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


def test_precision_is_the_share_of_what_was_named_that_is_relevant() -> None:
    assert precision(["a", "x", "b", "y"], {"a", "b", "c"}) == 0.5
    assert precision([], {"a"}) == 0


def test_the_share_of_contents_is_left_out_where_they_are_not_known() -> None:
    query = Query("q", "", {"a": 1})
    assert "content@5" in ranking_measures(query, ["a"], {"a": b"1"})
    found = ranking_measures(query, ["a"], {"a": None})
    assert found == {"recall@5": 1, "recall@10": 1, "recall@20": 1, "mrr@10": 1, "ndcg@10": 1}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ("aa ab ba bb", 0.0),
        ("aa bb", 1.0),
        ("ab ba", -1.0),
        ("aa aa", 0.0),
        # Cohen's own kind of example: agreement .7, by chance .5.
        (" ".join(["aa"] * 20 + ["ab"] * 5 + ["ba"] * 10 + ["bb"] * 15), 0.4),
    ],
)
def test_kappa_is_the_agreement_beyond_chance(pairs: str, expected: float) -> None:
    assert kappa([(pair[0], pair[1]) for pair in pairs.split()]) == pytest.approx(expected)
