"""What arms found is ranked alike as columns and as the messages that other services are sent."""

import numpy as np
import pytest
from groundline.v1 import candidate_pb2, options_pb2, passage_pb2, reranker_service_pb2
from groundline_ranking import candidates_of, rank
from groundline_retriever.domain import ArmHits, Hit, candidates_found, features_of, lists_of, ranked
from groundline_signatures import signature

KEYWORD, SEMANTIC = candidate_pb2.SEARCH_ARM_KEYWORD, candidate_pb2.SEARCH_ARM_SEMANTIC


def hit(chunk_id: int, score: float, *, collection_id: str = "docs", text: str = "") -> Hit:
    return Hit(
        chunk_id,
        score,
        collection_id,
        chunk_id % 3,
        1_700_000_000 + chunk_id,
        passage_pb2.SOURCE_TYPE_WEB,
        signature(text) if text else b"",
    )


def as_messages(found: list[ArmHits]) -> candidate_pb2.CandidateSet:
    return candidate_pb2.CandidateSet(query="q", lists=lists_of(found), features=features_of(found))


def found() -> list[ArmHits]:
    """Of two collections; 3 is in both arms, 5 a duplicate of 9, and 7 has no signature."""
    same = "the pump is switched off before the filter is changed"
    return [
        ranked(KEYWORD, [hit(9, 7.1, text=same), hit(3, 1 / 3, text="three"), hit(7, 5.0)], 0.0),
        ranked(KEYWORD, [hit(5, 9.3, collection_id="more", text=same)], 0.0),
        ranked(SEMANTIC, [hit(3, 0.1, text="three"), hit(4, 0.7, text="four")], -1.0),
    ]


@pytest.mark.parametrize("lists", [found(), [], [ArmHits(KEYWORD, [])]])
def test_columns_are_those_of_the_messages(lists: list[ArmHits]) -> None:
    made, expected = candidates_found(lists), candidates_of([as_messages(lists)])
    assert made.chunk_ids.tolist() == expected.chunk_ids.tolist()
    assert [made.collection_of(row) for row in range(len(made))] == [
        expected.collection_of(row) for row in range(len(expected))
    ]
    assert np.array_equal(made.signatures, expected.signatures)
    for name in ("chunk_indexes", "update_seconds", "source_types"):
        assert np.array_equal(getattr(made.features(), name), getattr(expected.features(), name))
    for one, other in zip(made.sets[0], expected.sets[0], strict=True):
        assert (one.arm, one.rows.tolist(), one.scores.tolist()) == (
            other.arm,
            other.rows.tolist(),
            other.scores.tolist(),
        )


@pytest.mark.parametrize("strategy", [options_pb2.RERANK_STRATEGY_NONE, options_pb2.RERANK_STRATEGY_WEIGHTED])
async def test_the_ranking_is_the_same_both_ways(strategy: options_pb2.RerankStrategy.ValueType) -> None:
    options = options_pb2.RerankOptions(strategy=strategy, include_cut=True)
    by_messages = reranker_service_pb2.RerankRequest(
        query="q", candidate_sets=[as_messages(found())], options=options
    )
    by_columns = reranker_service_pb2.RerankRequest(query="q", options=options)
    assert await rank(by_columns, candidates_found(found())) == await rank(by_messages)


def test_a_list_is_by_falling_score_and_ties_go_to_the_smaller_id() -> None:
    kept = ranked(SEMANTIC, [hit(2, 0.5), hit(3, 0.9), hit(1, 0.5), hit(4, 0.1)], 0.3)
    assert [one.chunk_id for one in kept.hits] == [3, 1, 2]
