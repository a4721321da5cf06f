"""The retrieval service over fakes of its ports."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from groundline.v1 import collection_pb2, error_pb2, options_pb2, passage_pb2, reranker_service_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_embedding.ports import Vectors
from groundline_ranking import Hit, Ranked
from groundline_retriever.arms import Arms
from groundline_retriever.domain import (
    Hits,
    IndexedCollection,
    Parameters,
    Selection,
    ranked,
    search_list_of,
)
from groundline_retriever.embeddings import QueryVectors
from groundline_retriever.passages import FetchedChunk, Wanted, add_passages, with_adjacent
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_runtime.context import Caller, acting_as, deadline_at
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from groundline_signatures import signature
from groundline_tests.embedding import FakeEmbedder

Options = options_pb2.RetrievalOptions
Response = pb.SearchResponse
KEYWORD, SEMANTIC = reranker_service_pb2.SEARCH_ARM_KEYWORD, reranker_service_pb2.SEARCH_ARM_SEMANTIC
ARMS = (KEYWORD, SEMANTIC)
COMPONENTS = {KEYWORD: passage_pb2.COMPONENT_KEYWORD_ARM, SEMANTIC: passage_pb2.COMPONENT_SEMANTIC_ARM}
HYBRID = options_pb2.RETRIEVAL_MODE_HYBRID
SEMANTIC_ONLY = options_pb2.RETRIEVAL_MODE_SEMANTIC
KEYWORD_ONLY = options_pb2.RETRIEVAL_MODE_KEYWORD

EMBEDDER = FakeEmbedder()
NOBODY = Caller()
LOST = UnavailableError("DATABASE_UNAVAILABLE", "the database cannot be reached")


async def nothing() -> None:
    """Do nothing: this arm is not held up."""


async def for_ever() -> None:
    await asyncio.Event().wait()


@dataclass
class FakeStore:
    """Collections by id with their readers; both arms find the same chunks, given by id and score."""

    readers: Mapping[str, Sequence[str]]
    hits: Sequence[tuple[int, float]] = ((1, 0.5), (2, 0.4))
    model: str = EMBEDDER.model
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Dimensions of collections whose model is not the embedder's."""
    settings: collection_pb2.CollectionSettings = field(default_factory=collection_pb2.CollectionSettings)
    failing_queries: set[str] = field(default_factory=set)
    selections: list[Selection] = field(default_factory=list)
    before: Mapping[int, Callable[[], object]] = field(default_factory=dict)
    failing: set[int] = field(default_factory=set)
    unsound: Sequence[str] = ()
    behind: Sequence[str] = ()
    is_incomplete: bool = False
    searched: list[tuple[int, list[str]]] = field(default_factory=list)
    looked_up: int = 0
    version: int = 7
    looking_up: Callable[[], object] | None = None
    """Awaited before collections are told."""
    texts: Mapping[int, str] = field(default_factory=dict)
    texts_differ: bool = True
    """Whether chunks are no near-duplicates of each other."""
    gone: set[int] = field(default_factory=set)
    fetching: Exception | None = None
    fetched: list[dict[str, tuple[list[int], int]]] = field(default_factory=list)

    async def collections(
        self, collection_ids: Sequence[str], principals: Sequence[str]
    ) -> Sequence[IndexedCollection]:
        self.looked_up += 1
        wait = (self.looking_up or nothing)()
        assert asyncio.iscoroutine(wait)
        await wait
        return [
            IndexedCollection(
                name,
                self.version,
                number,
                self.model,
                self.dimensions.get(name, EMBEDDER.dimensions),
                "english",
                "fake",
                self.settings,
            )
            for number, (name, readers) in enumerate(self.readers.items())
            if (not collection_ids or name in collection_ids)
            and (not readers or set(readers) & {*principals})
        ]

    async def keyword(
        self, collections: Sequence[IndexedCollection], query: str, *, limit: int, selection: Selection
    ) -> Hits:
        sound = [one for one in collections if one.collection_id not in self.unsound]
        unsound = [one.collection_id for one in collections if one.collection_id in self.unsound]
        self.selections.append(selection)
        if query in self.failing_queries:
            raise LOST
        return Hits(await self._search(KEYWORD, sound, limit), unsound, self.behind, self.is_incomplete)

    async def semantic(
        self,
        collections: Sequence[IndexedCollection],
        vector: Vectors,
        *,
        limit: int,
        ef_search: int | None,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
    ) -> Hits:
        assert {collection.dimensions for collection in collections} == {len(vector)}
        return Hits(await self._search(SEMANTIC, collections, limit), (), self.behind, self.is_incomplete)

    async def fetch(self, wanted: Sequence[Wanted], principals: Sequence[str]) -> Sequence[FetchedChunk]:
        self.fetched.append({one.collection_id: (list(one.chunk_ids), one.adjacent_chunks) for one in wanted})
        if self.fetching is not None:
            raise self.fetching
        return [
            FetchedChunk(
                chunk_id,
                passage_pb2.Chunk(
                    chunk_id=str(chunk_id), collection_id=one.collection_id, text=self.texts.get(chunk_id, "")
                ),
                self.version,
            )
            for one in wanted
            for chunk_id in one.chunk_ids
            if chunk_id not in self.gone
            and (not self.readers[one.collection_id] or {*self.readers[one.collection_id]} & {*principals})
        ]

    async def _search(
        self, arm: int, collections: Sequence[IndexedCollection], limit: int
    ) -> Sequence[Sequence[Hit]]:
        self.searched.append((arm, [collection.collection_id for collection in collections]))
        wait = self.before.get(arm, nothing)()
        assert asyncio.iscoroutine(wait)
        await wait
        if arm in self.failing:
            raise LOST
        return [
            [
                Hit(
                    chunk_id + 100 * number,
                    score,
                    collection.collection_id,
                    0,
                    0,
                    passage_pb2.SOURCE_TYPE_FILE,
                    signature(f"text {chunk_id}" if self.texts_differ else "text"),
                )
                for chunk_id, score in self.hits[:limit]
            ]
            for number, collection in enumerate(collections)
        ]


class SlowEmbedder(FakeEmbedder):
    """Answers when told to, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.asked = 0

    async def embed_query(self, text: str) -> Vectors:
        self.asked += 1
        await self.go.wait()
        return await super().embed_query(text)


class FakeReranker:
    """Scores texts by what `scores` says, or fails."""

    def __init__(self, scores: Mapping[str, float] | None = None, error: Exception | None = None) -> None:
        self.scores = scores or {}
        self.error = error
        self.degraded: Sequence[passage_pb2.Degradation] = ()
        self.calls: list[reranker_service_pb2.RerankRequest] = []
        self.hangs = False
        self.cancelled = False

    async def rerank(
        self, request: reranker_service_pb2.RerankRequest
    ) -> reranker_service_pb2.RerankResponse:
        self.calls.append(request)
        if self.error is not None:
            raise self.error
        if self.hangs:
            try:
                await for_ever()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        ranked = [
            reranker_service_pb2.RankedChunk(chunk_id=each.chunk_id, score=self.scores[each.chunk_id])
            for each in request.candidates
            if each.chunk_id in self.scores
        ]
        return reranker_service_pb2.RerankResponse(ranked=ranked, degraded=self.degraded)


def service(
    store: FakeStore,
    embedder: FakeEmbedder = EMBEDDER,
    reranker: FakeReranker | None = None,
    *,
    scored_candidates: int = 50,
) -> SearchService:
    return SearchService(
        store,
        Arms(store, [embedder], timeout_seconds=60),
        ModelScores(reranker or FakeReranker(), timeout_seconds=60),
        scored_candidates=scored_candidates,
    )


async def retrieve(
    store: FakeStore,
    *collection_ids: str,
    caller: Caller = NOBODY,
    embedder: FakeEmbedder = EMBEDDER,
    **options: Any,
) -> Response:
    request = pb.SearchRequest(
        query=" lease ",
        collection_ids=collection_ids,
        options=options_pb2.SearchOptions(retrieval=Options(**options)),
    )
    return await service(store, embedder).search(caller, request)


def found(response: Response, arm: int) -> list[int]:
    """Return the chunks that an arm found, of those that are kept, by its ranks."""
    scores = [
        (each.explanation.keyword if arm == KEYWORD else each.explanation.semantic, each.chunk.chunk_id)
        for each in response.passages
    ]
    return [int(chunk_id) for score, chunk_id in sorted(scores, key=lambda one: one[0].rank) if score.rank]


def ids(response: Response) -> list[int]:
    return [int(passage.chunk.chunk_id) for passage in response.passages]


# Refusals


async def test_a_collection_that_is_not_there_or_not_readable_is_not_found() -> None:
    store = FakeStore({"guides": [], "board": ["group:board"]})
    with pytest.raises(NotFoundError, match="no such collection: board, nowhere"):
        await retrieve(store, "nowhere", "guides", "board")
    assert not store.searched
    response = await retrieve(store, "board", caller=Caller(("group:board",)))
    assert response.passages


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
    both = SearchService(
        store,
        Arms(store, embedders, timeout_seconds=60),
        ModelScores(FakeReranker(), timeout_seconds=60),
        scored_candidates=50,
    )
    response = await both.search(NOBODY, pb.SearchRequest(query="lease"))
    assert not response.degraded
    assert sorted(names for arm, names in store.searched if arm == SEMANTIC) == [["guides"], ["moved"]]


async def test_nothing_to_read_is_nothing_found() -> None:
    response = await retrieve(FakeStore({}))
    assert not response.passages
    assert not response.degraded


# Partial failure


@pytest.mark.parametrize("arm", ARMS)
async def test_one_failing_arm_leaves_the_others_results_marked(
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


# Ranking what was found

RankOptions = options_pb2.RerankOptions
CROSS_ENCODER = options_pb2.RERANK_STRATEGY_CROSS_ENCODER


async def kept(
    store: FakeStore,
    options: RankOptions,
    *,
    reranker: FakeReranker | None = None,
    weak_similarity: float | None = None,
    scored_candidates: int = 50,
    **retrieval: Any,
) -> Response:
    request = pb.SearchRequest(
        query=" lease ",
        options=options_pb2.SearchOptions(retrieval=Options(**retrieval), rerank=options),
        weak_similarity=weak_similarity,
    )
    searches = service(store, reranker=reranker, scored_candidates=scored_candidates)
    return await searches.search(NOBODY, request)


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
        {"guides": []},
        hits=[(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6)],
        texts={1: "One.", 2: "Two."},
        gone={3},
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


DOWN = UnavailableError("UNAVAILABLE", "down")


@pytest.mark.parametrize("reranker", [FakeReranker(error=DOWN), FakeReranker({"1": 1.0})])
async def test_without_the_models_scores_the_fused_order_stands_and_is_declared(
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


# Query vectors


def cache(embedder: FakeEmbedder, size: int = 2, now: Callable[[], float] = lambda: 0.0) -> QueryVectors:
    return QueryVectors(embedder, size, ttl_seconds=60, clock=now)


async def test_the_vectors_of_the_last_queries_are_kept() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    vectors = cache(embedder)
    for text in ("a", "b", "a", "c", "a", "b"):
        assert (await vectors.embed_query(text) == await EMBEDDER.embed_query(text)).all()
    assert embedder.asked == 4, "a, b, c, and b again: it was used longest ago when c came"


async def test_how_quickly_an_answer_comes_tells_nobody_what_another_client_asked() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    vectors = cache(embedder)
    for principals, asked in ((("user:ada",), 1), (("user:ada", "group:x"), 1), (("user:eve",), 2)):
        with acting_as(Caller(principals)):
            await vectors.embed_query("a")
        assert embedder.asked == asked


async def test_a_vector_is_kept_for_its_time_only() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    now = [0.0]
    vectors = cache(embedder, now=lambda: now[0])
    for seconds, asked in ((0.0, 1), (59.9, 1), (60.0, 2), (119.9, 2)):
        now[0] = seconds
        await vectors.embed_query("a")
        assert embedder.asked == asked


async def test_a_query_asked_by_several_at_once_is_embedded_once() -> None:
    embedder = SlowEmbedder()
    vectors = cache(embedder)
    callers = [asyncio.create_task(vectors.embed_query(text)) for text in ("a", "a", "b", "a")]
    await asyncio.sleep(0)
    callers[0].cancel()
    embedder.go.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert not any(isinstance(outcome, BaseException) for outcome in outcomes[1:])
    assert embedder.asked == 2


async def test_a_query_that_nobody_waits_for_any_longer_is_not_embedded() -> None:
    class Watched(SlowEmbedder):
        ended = asyncio.Event()

        async def embed_query(self, text: str) -> Vectors:
            try:
                return await super().embed_query(text)
            except asyncio.CancelledError:
                self.ended.set()
                raise

    embedder = Watched()
    vectors = cache(embedder)
    callers = [asyncio.create_task(vectors.embed_query("a")) for _ in range(2)]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    async with asyncio.timeout(10):
        await embedder.ended.wait()
    embedder.go.set()
    assert (await vectors.embed_query("a") == await EMBEDDER.embed_query("a")).all()
    assert embedder.asked == 2


async def test_a_failed_embedding_is_not_kept() -> None:
    class Failing(SlowEmbedder):
        async def embed_query(self, text: str) -> Vectors:
            await super().embed_query(text)
            raise LOST

    embedder = Failing()
    embedder.go.set()
    vectors = cache(embedder)
    for asked in (1, 2):
        with pytest.raises(UnavailableError):
            await vectors.embed_query("a")
        assert embedder.asked == asked


async def test_a_cache_of_size_zero_keeps_nothing() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    vectors = cache(embedder, size=0)
    await vectors.embed_query("a")
    await vectors.embed_query("a")
    assert embedder.asked == 2


# Adjacent chunks


def piece(index: int, start: int, text: str) -> passage_pb2.Chunk:
    return passage_pb2.Chunk(
        chunk_id=str(index), chunk_index=index, text=text, start_offset=start, end_offset=start + len(text)
    )


def adjacent(hit: passage_pb2.Chunk, nearby: Sequence[passage_pb2.Chunk]) -> Sequence[passage_pb2.Chunk]:
    return with_adjacent(hit, nearby)


def test_an_adjacent_chunk_begins_on_the_page_of_what_is_left_of_it() -> None:
    hit, after = piece(0, 0, "One. Two."), piece(1, 5, "Two.\f\nThree.\fFour.")
    after.metadata.update({"page": 3})
    [left] = adjacent(hit, [after])
    assert (left.text, left.metadata["page"]) == ("\f\nThree.\fFour.", 4)
    assert after.metadata["page"] == 3


def test_adjacent_chunks_are_cut_where_they_overlap_and_stand_in_order() -> None:
    text = "abcdefghijklmnop"
    chunks = [piece(index, start, text[start : start + 5]) for index, start in enumerate((0, 3, 6, 9, 11))]
    for index, expected in ((2, ["abc", "def", "lmn", "op"]), (0, ["fgh", "ijk", "lmn", "op"])):
        others = [chunk for chunk in chunks if chunk.chunk_index != index]
        pieces = adjacent(chunks[index], others[::-1])
        assert [chunk.text for chunk in pieces] == expected
        assert all(text[chunk.start_offset : chunk.end_offset] == chunk.text for chunk in pieces)


def test_an_adjacent_chunk_without_text_of_its_own_is_left_out() -> None:
    hit = piece(1, 2, "cdefgh")
    assert list(adjacent(hit, [piece(0, 2, "cd"), piece(2, 4, "efgh")])) == []
    apart = [piece(0, 0, "a"), piece(2, 20, "z")]
    assert list(adjacent(hit, apart)) == apart


def test_a_chunk_stands_in_one_passage_only() -> None:
    adjacent = {5: (4, 6), 7: (6, 8), 8: (7, 9), 20: ()}
    ranked = [Ranked(number, "docs", 0.0, passage_pb2.ScoreExplanation()) for number in adjacent]
    fetched = [
        FetchedChunk(number, piece(number, 0, "x"), 1, [piece(each, 0, "x") for each in others])
        for number, others in adjacent.items()
    ]
    shown = pb.SearchResponse()
    add_passages(shown, ranked, fetched)
    assert [[other.chunk_index for other in each.adjacent_chunks] for each in shown.passages] == [
        [4, 6],
        [],
        [9],
        [],
    ]


def test_a_list_is_by_falling_score_and_ties_go_to_the_smaller_id() -> None:
    hits = [
        Hit(chunk_id, score, "docs", 0, 0, passage_pb2.SOURCE_TYPE_FILE, b"")
        for chunk_id, score in ((2, 0.5), (3, 0.9), (1, 0.5), (4, 0.1))
    ]
    assert [one.chunk_id for one in ranked(SEMANTIC, hits, 0.3).hits] == [3, 1, 2]
