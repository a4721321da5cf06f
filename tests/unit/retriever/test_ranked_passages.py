import asyncio
import time
from typing import Any

import pytest
from groundline.v1 import error_pb2, options_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_ranking import Hit
from groundline_retriever.domain import ranked
from groundline_runtime.context import deadline_at
from groundline_runtime.errors import FieldViolation, InvalidArgumentError, UnavailableError
from groundline_tests.retriever.service import (
    ARMS,
    CROSS_ENCODER,
    DOWN,
    KEYWORD,
    KEYWORD_ONLY,
    LOST,
    NOBODY,
    SEMANTIC,
    FakeReranker,
    FakeStore,
    Options,
    RankOptions,
    Response,
    ids,
    kept,
    service,
)

# Several queries


async def several(store: FakeStore, *queries: str, **fields: Any) -> Response:
    query, *additional = queries
    request = pb.SearchRequest(query=query, additional_queries=additional, **fields)
    return await service(store).search(NOBODY, request)


async def test_several_queries_are_searched_once_each_and_ranked_together() -> None:
    store = FakeStore({"guides": []})
    response = await several(store, "lease", "timer", " lease ")
    assert len(store.searched) == 4, "two arms for each of two queries"
    assert ids(response) == [1, 2]
    assert response.passages[0].explanation.fused_score == pytest.approx(2 * (1 + 0.5))
    assert len(store.fetched) == 1


async def test_a_query_that_cannot_be_searched_for_is_declared() -> None:
    store = FakeStore({"guides": []}, failing_queries={"timer"})
    response = await several(store, "lease", "timer", options={"retrieval": Options(mode=KEYWORD_ONLY)})
    assert ids(response) == [1, 2]
    assert [(each.component, each.reason) for each in response.degraded] == [
        (passage_pb2.COMPONENT_RETRIEVAL, error_pb2.SEARCH_INCOMPLETE)
    ]


async def test_what_all_queries_lack_is_declared_once() -> None:
    response = await several(FakeStore({"guides": []}, failing={KEYWORD}), "lease", "timer")
    assert [each.component for each in response.degraded] == [passage_pb2.COMPONENT_KEYWORD_ARM]


async def test_no_query_that_can_be_searched_for_is_an_error() -> None:
    with pytest.raises(UnavailableError) as caught:
        await several(FakeStore({"guides": []}, failing={*ARMS}), "lease", "timer")
    assert caught.value is LOST


async def test_passages_that_cannot_be_read_are_an_error() -> None:
    with pytest.raises(UnavailableError) as caught:
        await kept(FakeStore({"guides": []}, fetching=LOST), RankOptions())
    assert caught.value is LOST


async def test_what_is_gone_when_it_is_read_is_no_passage_and_nothing_takes_its_place() -> None:
    store = FakeStore({"guides": []}, hits=[(1, 0.9), (2, 0.8), (3, 0.7)], gone={1})
    assert ids(await kept(store, RankOptions(top_k=2))) == [2]


async def test_candidates_come_as_passages_with_what_was_cut_and_the_time_of_each_part() -> None:
    store = FakeStore({"guides": []}, hits=[(1, 0.9), (2, 0.8), (3, 0.7)], texts={2: "On leases."})
    response = await kept(store, RankOptions(top_k=2, include_cut=True), adjacent_chunks=1)
    assert ids(response) == [1, 2]
    assert response.passages[1].chunk.text == "On leases."
    assert response.passages[0].explanation.semantic.score == pytest.approx(0.9)
    assert [(cut.chunk_id, cut.rule) for cut in response.cut] == [("3", passage_pb2.CUT_RULE_TOP_K)]
    assert store.fetched == [{"guides": ([1, 2], 1)}]
    stages = [timing.stage for timing in response.timings]
    assert stages[0] == passage_pb2.STAGE_RETRIEVING
    assert stages[-2:] == [passage_pb2.STAGE_RERANKING, passage_pb2.STAGE_FETCHING]
    assert set(stages[1:-2]) == {
        passage_pb2.STAGE_KEYWORD_SEARCH,
        passage_pb2.STAGE_EMBEDDING,
        passage_pb2.STAGE_SEMANTIC_SEARCH,
    }


async def test_near_duplicates_that_can_be_read_are_alternatives_of_the_better_one() -> None:
    store = FakeStore({"guides": []}, hits=[(1, 0.9), (2, 0.8), (3, 0.7)], gone={3}, texts_differ=False)
    [passage] = (await kept(store, RankOptions())).passages
    assert [each.chunk.chunk_id for each in passage.alternatives] == ["2"]


async def test_where_words_count_the_texts_are_read_for_ranking() -> None:
    store = FakeStore({"guides": []}, texts={1: "Nothing here.", 2: "A lease, that is."})
    weights = options_pb2.RerankWeights(semantic=0, vector=0, position=0, keyword=1)
    options = RankOptions(strategy=options_pb2.RERANK_STRATEGY_WEIGHTED, weights=weights)
    reranker = FakeReranker(error=LOST)
    assert ids(await kept(store, options, reranker=reranker)) == [2, 1]
    assert reranker.calls == []


async def test_an_arm_that_failed_is_declared_beside_what_was_ranked() -> None:
    response = await kept(FakeStore({"guides": []}, failing={KEYWORD}), RankOptions())
    assert ids(response) == [1, 2]
    assert [each.component for each in response.degraded] == [passage_pb2.COMPONENT_KEYWORD_ARM]


async def test_a_weak_search_says_so_and_reads_nothing() -> None:
    store = FakeStore({"guides": []})
    response = await kept(store, RankOptions(), weak_similarity=0.6)
    assert (response.is_weak, ids(response), store.fetched) == (True, [], [])
    response = await kept(store, RankOptions(), weak_similarity=0.5)
    assert (response.is_weak, ids(response)) == (False, [1, 2])
    nothing_found = FakeStore({"guides": []}, hits=())
    assert (await kept(nothing_found, RankOptions(), weak_similarity=0.5)).is_weak
    assert not (await kept(nothing_found, RankOptions())).HasField("is_weak")
    assert nothing_found.fetched == []


# A model's scores


async def test_a_model_orders_the_texts_of_the_window_and_the_rest_is_cut() -> None:
    store = FakeStore(
        {"guides": []}, hits=[(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6)], texts={1: "One.", 2: "Two."}, gone={3}
    )
    reranker = FakeReranker({"1": 0.1, "2": 4.0})
    options = RankOptions(strategy=CROSS_ENCODER, model="named", include_cut=True, top_k=1, min_score=-9)
    response = await kept(store, options, reranker=reranker, scored_candidates=3)
    [call] = reranker.calls
    assert (call.query, call.options.strategy, call.options.model) == ("lease", CROSS_ENCODER, "named")
    assert [(each.chunk_id, each.text) for each in call.candidates] == [("1", "One."), ("2", "Two.")]
    assert not call.lists
    [passage] = response.passages
    assert (passage.chunk.chunk_id, passage.score) == ("2", 4.0)
    [component] = passage.explanation.components
    assert (component.name, component.value, component.weight) == ("cross_encoder", 4.0, 1.0)
    assert passage.explanation.fused_rank == 2
    assert [cut.chunk_id for cut in response.cut] == ["1", "4"]


@pytest.mark.parametrize("reranker", [FakeReranker(error=DOWN), FakeReranker({"1": 1.0})])
async def test_without_the_models_scores_the_fused_order_is_declared(
    reranker: FakeReranker,
) -> None:
    response = await kept(FakeStore({"guides": []}), RankOptions(strategy=CROSS_ENCODER), reranker=reranker)
    assert ids(response) == [1, 2]
    assert [(each.component, each.reason) for each in response.degraded] == [
        (passage_pb2.COMPONENT_RERANKER, error_pb2.RERANKER_UNAVAILABLE)
    ]


async def test_what_the_reranker_declares_is_declared() -> None:
    reranker = FakeReranker({"1": 0.5, "2": 0.4})
    late = passage_pb2.Degradation(
        component=passage_pb2.COMPONENT_RERANKER, reason=error_pb2.RERANKER_LATE, message="late"
    )
    reranker.degraded = [late]
    response = await kept(FakeStore({"guides": []}), RankOptions(strategy=CROSS_ENCODER), reranker=reranker)
    assert list(response.degraded) == [late]
    assert not response.passages[0].explanation.components


async def test_a_late_reranker_is_left_behind() -> None:
    reranker = FakeReranker()
    reranker.hangs = True
    with deadline_at(time.monotonic() + 0.3):
        options = RankOptions(strategy=CROSS_ENCODER)
        response = await kept(FakeStore({"guides": []}), options, reranker=reranker)
    assert reranker.cancelled
    assert [each.reason for each in response.degraded] == [error_pb2.RERANKER_UNAVAILABLE]


async def test_a_request_that_the_reranker_calls_wrong_is_refused_by_the_clients_names() -> None:
    reranker = FakeReranker(error=InvalidArgumentError([FieldViolation("options.model", "is unknown")]))
    with pytest.raises(InvalidArgumentError) as refused:
        await kept(FakeStore({"guides": []}), RankOptions(strategy=CROSS_ENCODER), reranker=reranker)
    assert [each.field for each in refused.value.violations] == ["options.rerank.model"]


def test_a_list_is_by_falling_score_and_ties_go_to_the_smaller_id() -> None:
    hits = [
        Hit(chunk_id, score, "docs", 0, 0, passage_pb2.SOURCE_TYPE_FILE, b"")
        for chunk_id, score in ((2, 0.5), (3, 0.9), (1, 0.5), (4, 0.1))
    ]
    assert [one.chunk_id for one in ranked(SEMANTIC, hits, 0.3).hits] == [3, 1, 2]


# Facets


async def test_a_count_that_fails_unexpectedly_leaves_the_passages_and_shows_nothing_of_itself() -> None:
    async def fail() -> None:
        raise RuntimeError("postgresql://groundline:secret@db")

    response = await several(FakeStore({"guides": []}, counting=fail), "lease", facets=["team"])
    assert ids(response) == [1, 2]
    [degraded] = response.degraded
    assert (degraded.component, degraded.reason) == (passage_pb2.COMPONENT_FACETS, error_pb2.INTERNAL)
    assert "secret" not in degraded.message


async def test_counting_ends_with_a_search_that_fails() -> None:
    ended = asyncio.Event()

    async def count() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    store = FakeStore({"guides": []}, counting=count, failing={*ARMS})
    with pytest.raises(UnavailableError):
        await several(store, "lease", facets=["team"])
    await asyncio.sleep(0)
    assert ended.is_set()
