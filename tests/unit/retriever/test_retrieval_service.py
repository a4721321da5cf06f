"""The retrieval service over fakes of its ports."""

import asyncio
import time
from typing import Any

import pytest
from groundline.v1 import chat_pb2, collection_pb2, error_pb2, options_pb2, passage_pb2, reranker_service_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_embedding.ports import Vectors
from groundline_retriever.domain import IndexedCollection, Parameters, search_list_of
from groundline_retriever.service import SearchService
from groundline_runtime.charges import charge
from groundline_runtime.context import Caller, begun, deadline_at
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_runtime.quotas import Budgets
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.retriever.service import (
    ARMS,
    COMPONENTS,
    EMBEDDER,
    HYBRID,
    KEYWORD,
    KEYWORD_ONLY,
    LOST,
    NOBODY,
    SEMANTIC,
    SEMANTIC_ONLY,
    FakeReranker,
    FakeStore,
    Options,
    RankOptions,
    SlowEmbedder,
    for_ever,
    found,
    ids,
    retrieve,
    service,
)
from groundline_tests.runtime import FakeLedger, spending_in

# Refusals


async def test_a_collection_that_is_not_there_or_not_readable_is_not_found() -> None:
    store = FakeStore({"guides": [], "board": ["group:board"]})
    with pytest.raises(NotFoundError, match="no such collection: board, nowhere"):
        await retrieve(store, "nowhere", "guides", "board")
    assert not store.searched
    response = await retrieve(store, "board", caller=Caller(("group:board",)))
    assert response.passages


class Billed(FakeEmbedder):
    """A hosted model: a query has 10 tokens, a cent each."""

    def cost(self, tokens: int) -> float:
        return tokens / 100

    async def embed_query(self, text: str) -> Vectors:
        charge(chat_pb2.Usage(embedding_tokens=10, cost_usd=0.1))
        return await super().embed_query(text)


async def test_a_spent_budget_refuses_searches_that_cost_money_and_no_others() -> None:
    ann, request = Caller(("user:ann",)), pb.SearchRequest(query="lease")
    for embedder, strategy, is_refused in (
        (Billed(), options_pb2.RERANK_STRATEGY_NONE, True),
        (EMBEDDER, options_pb2.RERANK_STRATEGY_API, True),
        (EMBEDDER, options_pb2.RERANK_STRATEGY_LLM, True),
        (EMBEDDER, options_pb2.RERANK_STRATEGY_NONE, False),
    ):
        request.options.rerank.strategy = strategy
        store, ledger = FakeStore({"guides": []}), FakeLedger(Budgets(day_usd=1), spent_usd=1)
        search = service(store, embedder, spending=spending_in(ledger))
        if not is_refused:
            assert (await search.search(ann, request)).passages
            continue
        with pytest.raises(ResourceExhaustedError) as refused:
            await search.search(ann, request)
        assert refused.value.reason == "QUOTA_EXHAUSTED"
        assert not store.searched
        with begun():  # the answer that reaches a budget is finished
            assert (await search.search(ann, request)).passages


async def test_what_hosted_models_took_is_told_and_counts_for_the_caller() -> None:
    ledger = FakeLedger()
    reranker = FakeReranker({"1": 1.0, "2": 0.5, "3": 0.2})
    reranker.usage = chat_pb2.Usage(rerank_units=3, cost_usd=0.25)
    spending = spending_in(ledger)
    search = service(FakeStore({"guides": []}), Billed(), reranker=reranker, spending=spending)
    request = pb.SearchRequest(query="lease")
    request.options.rerank.strategy = options_pb2.RERANK_STRATEGY_API
    response = await search.search(Caller(("user:ann",)), request)
    await spending.settle()
    assert response.usage == chat_pb2.Usage(embedding_tokens=10, rerank_units=3, cost_usd=0.35)
    assert ledger.booked == [("user:ann", 0.35)]
    assert not (await retrieve(FakeStore({"guides": []}))).HasField("usage"), "local models cost nothing"


@pytest.mark.parametrize("wanted", [HYBRID, SEMANTIC_ONLY])
async def test_vectors_of_another_model_are_never_searched(
    wanted: options_pb2.RetrievalMode.ValueType,
) -> None:
    store = FakeStore({"guides": []}, model="acme/old")
    with pytest.raises(FailedPreconditionError, match=rf"acme/old.*{EMBEDDER.model}") as caught:
        await retrieve(store, mode=wanted)
    assert caught.value.reason == "EMBEDDING_MODEL_MISMATCH"
    assert not store.searched
    assert found(await retrieve(store, mode=KEYWORD_ONLY), KEYWORD)


async def test_each_collection_is_searched_by_the_vectors_of_its_own_model() -> None:
    store = FakeStore({"moved": [], "guides": []}, dimensions={"moved": 24})
    embedders = [EMBEDDER, FakeEmbedder(EMBEDDER.model, dimensions=24)]
    response = await service(store, *embedders).search(NOBODY, pb.SearchRequest(query="lease"))
    assert not response.degraded
    assert sorted(names for arm, names in store.searched if arm == SEMANTIC) == [["guides"], ["moved"]]


async def test_similarities_of_a_model_that_puts_no_texts_far_apart_mean_as_much_as_others() -> None:
    store = FakeStore({"guides": []}, hits=((1, 0.85), (2, 0.76), (3, 0.64)), model=MULTILINGUAL_MODEL)
    search = service(store, FakeEmbedder(MULTILINGUAL_MODEL))
    request = pb.SearchRequest(query="Vertrag")
    request.options.retrieval.mode = SEMANTIC_ONLY
    request.options.retrieval.min_similarity = 0
    response = await search.search(NOBODY, request)
    assert [passage.explanation.semantic.score for passage in response.passages] == pytest.approx([0.5, 0.2])


async def test_nothing_to_read_is_nothing_found() -> None:
    response = await retrieve(FakeStore({}))
    assert not response.passages
    assert not response.degraded


# Partial failure


@pytest.mark.parametrize("arm", ARMS)
async def test_a_failing_arm_leaves_the_other_marked(
    arm: reranker_service_pb2.SearchArm.ValueType,
) -> None:
    response = await retrieve(FakeStore({"guides": []}, failing={arm}))
    assert ids(response) == [1, 2]
    [degradation] = response.degraded
    assert degradation.component == COMPONENTS[arm]
    assert (degradation.reason, degradation.message) == (error_pb2.DATABASE_UNAVAILABLE, LOST.message)


async def test_what_an_index_lacks_is_declared_beside_what_it_found() -> None:
    response = await retrieve(FakeStore({"guides": []}, behind=("guides",), is_incomplete=True))
    assert found(response, KEYWORD)
    assert found(response, SEMANTIC)
    assert [(one.component, one.reason) for one in response.degraded] == [
        (COMPONENTS[arm], reason)
        for arm in ARMS
        for reason in (error_pb2.SEARCH_INDEX_BEHIND, error_pb2.SEARCH_INDEX_INCOMPLETE)
    ]
    assert "guides" in response.degraded[0].message


async def test_collections_whose_keyword_index_is_rebuilt_are_left_out_by_it_and_named() -> None:
    store = FakeStore({"guides": [], "board": []}, unsound=("board",))
    response = await retrieve(store)
    assert (KEYWORD, ["guides"]) in store.searched
    assert (SEMANTIC, ["guides", "board"]) in store.searched
    [degradation] = response.degraded
    assert degradation.component == passage_pb2.COMPONENT_KEYWORD_ARM
    assert degradation.reason == error_pb2.LEXICAL_INDEX_UNSOUND
    assert "keyword index of board is missing or may lack chunks" in degradation.message


async def test_a_keyword_search_of_nothing_but_indexes_being_rebuilt_is_an_error_that_names_some() -> None:
    names = [f"c{number}" for number in range(7)]
    store = FakeStore(dict.fromkeys(names, ()), unsound=names)
    with pytest.raises(UnavailableError, match="of c0, c1, c2, c3, c4 and 2 more is missing or") as caught:
        await retrieve(store, mode=KEYWORD_ONLY)
    assert caught.value.reason == "LEXICAL_INDEX_UNSOUND"
    assert caught.value.retry_after_seconds
    response = await retrieve(store)
    assert found(response, SEMANTIC)
    assert [each.reason for each in response.degraded] == [error_pb2.LEXICAL_INDEX_UNSOUND]


async def test_a_misspelled_word_that_cannot_be_looked_up_stays_and_is_declared() -> None:
    store = FakeStore({"guides": []}, texts={1: "A lease of one."}, failing_queries={"leaes"})
    response = await service(store).search(NOBODY, pb.SearchRequest(query="the leaes"))
    assert ids(response) == [1, 2]
    assert not response.corrections
    [degradation] = response.degraded
    assert degradation.component == passage_pb2.COMPONENT_KEYWORD_ARM
    assert degradation.reason == error_pb2.DATABASE_UNAVAILABLE
    assert "misspelled" in degradation.message


async def test_both_arms_failing_is_an_error() -> None:
    with pytest.raises(UnavailableError) as caught:
        await retrieve(FakeStore({"guides": []}, failing={*ARMS}))
    assert caught.value is LOST


@pytest.mark.parametrize("arm", ARMS)
async def test_a_late_arm_is_cut_off(arm: reranker_service_pb2.SearchArm.ValueType) -> None:
    with deadline_at(time.monotonic() + 0.2):
        response = await retrieve(FakeStore({"guides": []}, before={arm: for_ever}))
    assert response.passages
    assert [(each.component, each.reason) for each in response.degraded] == [
        (COMPONENTS[arm], error_pb2.DEADLINE_EXCEEDED)
    ]


async def test_both_arms_late_is_an_error_and_a_failure_says_more_than_lateness() -> None:
    store = FakeStore({"guides": []}, before=dict.fromkeys(ARMS, for_ever))
    with deadline_at(time.monotonic() + 0.1), pytest.raises(DeadlineExceededError):
        await retrieve(store)
    store = FakeStore({"guides": []}, before={KEYWORD: for_ever}, failing={SEMANTIC})
    with deadline_at(time.monotonic() + 0.1), pytest.raises(UnavailableError):
        await retrieve(store)


async def test_a_cancelled_request_cancels_its_searches() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def until_cancelled() -> None:
        begun.set()
        try:
            await for_ever()
        finally:
            cancelled.set()

    store = FakeStore({"guides": []}, before={KEYWORD: until_cancelled})
    request = asyncio.create_task(retrieve(store, mode=KEYWORD_ONLY))
    await begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    async with asyncio.timeout(5):
        await cancelled.wait()


# Searching


async def test_bm25_runs_while_the_query_is_embedded() -> None:
    embedder = SlowEmbedder()
    begun = asyncio.Event()

    async def begins() -> None:
        begun.set()

    store = FakeStore({"guides": [], "notes": []}, before={KEYWORD: begins})
    request = asyncio.create_task(retrieve(store, embedder=embedder))
    await begun.wait()
    assert store.searched == [(KEYWORD, ["guides", "notes"])]
    embedder.go.set()
    response = await request
    assert not response.degraded
    assert embedder.asked == 1
    assert store.searched[1:] == [(SEMANTIC, ["guides", "notes"])]


@pytest.mark.parametrize(
    ("wanted", "arms"),
    [
        (KEYWORD_ONLY, {KEYWORD}),
        (SEMANTIC_ONLY, {SEMANTIC}),
        (HYBRID, {*ARMS}),
        (options_pb2.RETRIEVAL_MODE_UNSPECIFIED, {*ARMS}),
    ],
)
async def test_a_mode_runs_its_arms(wanted: options_pb2.RetrievalMode.ValueType, arms: set[int]) -> None:
    store = FakeStore({"guides": []})
    await retrieve(store, mode=wanted)
    assert {arm for arm, _ in store.searched} == arms


async def test_ranks_count_after_thresholds_and_ties_go_to_the_smaller_id() -> None:
    store = FakeStore({"guides": []}, hits=[(9, 0.5), (7, 0.5), (8, 0.9), (6, 0.1)])
    response = await retrieve(store, mode=KEYWORD_ONLY, min_bm25=0.2)
    assert found(response, KEYWORD) == [8, 7, 9]
    assert ids(response) == [8, 7, 9]


async def test_the_filter_and_what_must_be_seen_reach_the_arms() -> None:
    store = FakeStore({"guides": []})
    request = pb.SearchRequest(query="lease", min_position="0000000003a1b2c8")
    request.filter.update({"year": 2024})
    await service(store).search(Caller(("user:a",)), request)
    [selection] = store.selections
    assert selection.filter is not None
    assert (selection.principals, selection.min_position) == (("user:a",), "0000000003a1b2c8")


# Collections that are named again


GUIDES = pb.SearchRequest(query="lease", collection_ids=["guides"])


async def searched_before(**fields: Any) -> tuple[FakeStore, SearchService]:
    """Return a store and a service by which "guides" has been searched."""
    store = FakeStore({"guides": []}, **fields)
    searches = service(store)
    await searches.search(NOBODY, GUIDES)
    return store, searches


async def test_a_search_whose_texts_prove_that_all_is_as_it_was_looks_nothing_up() -> None:
    store, searches = await searched_before()
    assert (await searches.search(NOBODY, GUIDES)).passages
    assert (store.looked_up, len(store.fetched)) == (1, 2)


async def test_what_is_remembered_is_of_one_caller() -> None:
    store, searches = await searched_before()
    store.readers = {"guides": ["group:board"]}
    with pytest.raises(NotFoundError):
        await searches.search(Caller(("user:b",)), GUIDES)
    assert len(store.fetched) == 1


async def test_what_was_found_is_not_shown_of_a_collection_that_may_no_longer_be_read() -> None:
    store, searches = await searched_before()
    store.readers = {"guides": ["group:board"]}
    with pytest.raises(NotFoundError):
        await searches.search(NOBODY, GUIDES)


async def test_a_failed_search_does_not_hide_that_the_collection_is_gone() -> None:
    store, searches = await searched_before()
    store.readers, store.failing = {}, {*ARMS}
    with pytest.raises(NotFoundError):
        await searches.search(NOBODY, GUIDES)


async def test_a_failed_search_of_a_collection_that_is_as_it_was_fails() -> None:
    store, searches = await searched_before()
    store.failing = {*ARMS}
    with pytest.raises(UnavailableError):
        await searches.search(NOBODY, GUIDES)
    assert len(store.searched) == 4, "each arm once before, and once now"


async def test_a_search_that_finds_nothing_counts_where_all_is_as_it_was() -> None:
    store, searches = await searched_before()
    store.hits = ()
    assert not (await searches.search(NOBODY, GUIDES)).passages
    assert (store.looked_up, len(store.searched)) == (2, 4)


async def test_a_collection_that_has_changed_is_searched_again_as_it_is_now() -> None:
    store, searches = await searched_before()
    store.version = 8
    store.settings = collection_pb2.CollectionSettings(rerank=RankOptions(top_k=1))
    assert len((await searches.search(NOBODY, GUIDES)).passages) == 1
    store.settings.generation_limits.max_top_k = 1
    limited = pb.SearchRequest()
    limited.CopyFrom(GUIDES)
    limited.options.rerank.top_k = 2
    with pytest.raises(InvalidArgumentError) as refused:
        await searches.search(NOBODY, limited)
    assert [each.field for each in refused.value.violations] == ["options.rerank.top_k"]


async def test_options_go_over_defaults_and_zero_is_not_unset() -> None:
    defaults = Options(mode=KEYWORD_ONLY, keyword_limit=7, min_bm25=3.0, adjacent_chunks=2)
    settings = collection_pb2.CollectionSettings(retrieval=defaults)
    collection = IndexedCollection("c", 1, 1, "m", 3, "english", "fake", settings)
    options = collection.options(Options(min_bm25=0.0, adjacent_chunks=0, semantic_limit=300, ef_search=40))
    parameters = Parameters.of(options)
    assert parameters.arms == {KEYWORD}
    assert (parameters.keyword_limit, parameters.min_bm25, options.adjacent_chunks) == (7, 0.0, 0)
    assert parameters.ef_search == 300, "never below semantic_limit"
    assert Parameters.of(Options(semantic_limit=300)).ef_search is None, "by the size of what is searched"


@pytest.mark.parametrize(
    ("chunks", "limit", "expected"),
    [
        pytest.param(0, 50, 100, id="not counted yet"),
        pytest.param(100_000, 50, 100, id="no longer up to 100,000"),
        pytest.param(300_000, 50, 300, id="longer for more"),
        pytest.param(10_000_000, 50, 1000, id="never longer than pgvector takes"),
        pytest.param(2_000, 300, 300, id="never shorter than what is wanted"),
    ],
)
async def test_a_search_list_grows_with_what_is_searched(chunks: int, limit: int, expected: int) -> None:
    assert search_list_of(chunks, limit) == expected


async def test_passages_come_with_as_many_adjacent_chunks_as_their_collection_says() -> None:
    settings = collection_pb2.CollectionSettings(retrieval=Options(adjacent_chunks=2))
    store = FakeStore({"guides": []}, settings=settings)
    await retrieve(store)
    await retrieve(store, adjacent_chunks=0)
    assert store.fetched == [{"guides": ([1, 2], 2)}, {"guides": ([1, 2], 0)}]
