"""The retrieval service over fakes of its ports."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from groundline_embedding.ports import Vectors
from groundline_retriever.domain import (
    Arm,
    Chunk,
    Collection,
    Hit,
    IterativeScan,
    Mode,
    Parameters,
    Query,
    RetrievalOptions,
    Selection,
    around,
)
from groundline_retriever.embeddings import QueryVectors
from groundline_retriever.ports import EncodedVector
from groundline_retriever.service import RetrievalService
from groundline_runtime.context import Caller, acting_as, deadline_at
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    NotFoundError,
    UnavailableError,
)
from groundline_tests.embedding import FakeEmbedder

EMBEDDER = FakeEmbedder()
LOST = UnavailableError("DATABASE_UNAVAILABLE", "the database cannot be reached")


async def nothing() -> None:
    """Does not hold an arm up."""


async def for_ever() -> None:
    await asyncio.Event().wait()


@dataclass
class FakeStore:
    """Collections by id with their readers; both arms find the same chunks, given by id and score."""

    readers: Mapping[str, Sequence[str]]
    hits: Sequence[tuple[int, float]] = ((1, 0.5), (2, 0.4))
    model: str = EMBEDDER.model
    defaults: RetrievalOptions = field(default_factory=RetrievalOptions)
    before: Mapping[Arm, Callable[[], object]] = field(default_factory=dict)
    failing: set[tuple[Arm, str]] = field(default_factory=set)
    searched: list[tuple[Arm, str]] = field(default_factory=list)

    async def collections(
        self, collection_ids: Sequence[str], principals: Sequence[str]
    ) -> Sequence[Collection]:
        return [
            Collection(name, number, self.model, EMBEDDER.dimensions, "english", "fake", self.defaults)
            for number, (name, readers) in enumerate(self.readers.items())
            if (not collection_ids or name in collection_ids)
            and (not readers or set(readers) & {*principals})
        ]

    async def keyword(
        self,
        collection: Collection,
        query: str,
        *,
        limit: int,
        selection: Selection,
        include_vectors: bool,
    ) -> Sequence[Hit]:
        return await self._search(Arm.KEYWORD, collection, limit)

    def encode(self, vector: Vectors) -> EncodedVector:
        return tuple(vector)

    async def semantic(
        self,
        collection: Collection,
        vector: EncodedVector,
        *,
        limit: int,
        ef_search: int,
        iterative_scan: IterativeScan,
        selection: Selection,
        include_vectors: bool,
    ) -> Sequence[Hit]:
        return await self._search(Arm.SEMANTIC, collection, limit)

    async def neighbours(
        self, collection: Collection, hits: Sequence[Chunk], *, distance: int, principals: Sequence[str]
    ) -> Mapping[int, Sequence[Chunk]]:
        raise AssertionError("not asked for")

    async def _search(self, arm: Arm, collection: Collection, limit: int) -> Sequence[Hit]:
        self.searched.append((arm, collection.collection_id))
        wait = self.before.get(arm, nothing)()
        assert asyncio.iscoroutine(wait)
        await wait
        if (arm, collection.collection_id) in self.failing:
            raise LOST
        now = datetime.now(UTC)
        return [
            Hit(
                Chunk(
                    chunk_id,
                    "d",
                    collection.collection_id,
                    0,
                    "text",
                    "",
                    "",
                    "",
                    "file",
                    "",
                    0,
                    4,
                    "{}",
                    now,
                ),
                score,
            )
            for chunk_id, score in self.hits[:limit]
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


def service(store: FakeStore, embedder: FakeEmbedder = EMBEDDER) -> RetrievalService:
    return RetrievalService(store, embedder, arm_timeout_share=0.5)


def mode(value: Mode) -> RetrievalOptions:
    return RetrievalOptions(mode=value)


# Refusals


async def test_a_collection_that_is_not_there_or_not_readable_is_not_found() -> None:
    store = FakeStore({"guides": [], "board": ["group:board"]})
    with pytest.raises(NotFoundError, match="no such collection: board, nowhere"):
        await service(store).retrieve(Query("lease", ("nowhere", "guides", "board")))
    assert not store.searched
    with acting_as(Caller(("group:board",))):
        found = await service(store).retrieve(Query("lease", ("board",)))
    assert found.candidates


@pytest.mark.parametrize("wanted", [Mode.HYBRID, Mode.SEMANTIC])
async def test_vectors_of_another_model_are_never_searched(wanted: Mode) -> None:
    store = FakeStore({"guides": []}, model="acme/old")
    with pytest.raises(FailedPreconditionError, match=rf"acme/old.*{EMBEDDER.model}") as caught:
        await service(store).retrieve(Query("lease", options=mode(wanted)))
    assert caught.value.reason == "EMBEDDING_MODEL_MISMATCH"
    assert not store.searched
    assert (await service(store).retrieve(Query("lease", options=mode(Mode.KEYWORD)))).candidates


async def test_nothing_to_read_is_nothing_found() -> None:
    found = await service(FakeStore({})).retrieve(Query("lease"))
    assert not found.candidates
    assert not found.degraded


# Partial failure


@pytest.mark.parametrize("arm", list(Arm))
async def test_one_failing_arm_leaves_the_others_results_marked(arm: Arm) -> None:
    store = FakeStore({"guides": [], "notes": []}, failing={(arm, "guides"), (arm, "notes")})
    found = await service(store).retrieve(Query("lease"))
    assert {candidate.chunk.chunk_id for candidate in found.candidates} == {1, 2}
    [degradation] = found.degraded
    assert degradation.component == f"{arm.value}_arm"
    assert (degradation.reason, degradation.message) == (LOST.reason, LOST.message)


async def test_both_arms_failing_is_an_error() -> None:
    store = FakeStore({"guides": []}, failing={(arm, "guides") for arm in Arm})
    with pytest.raises(UnavailableError) as caught:
        await service(store).retrieve(Query("lease"))
    assert caught.value is LOST


async def test_an_arm_that_fails_in_one_collection_is_kept_in_the_other() -> None:
    store = FakeStore({"guides": [], "notes": []}, failing={(Arm.KEYWORD, "notes")})
    found = await service(store).retrieve(Query("lease", options=mode(Mode.KEYWORD)))
    assert {candidate.chunk.collection_id for candidate in found.candidates} == {"guides"}
    assert len(found.degraded) == 1


@pytest.mark.parametrize("arm", list(Arm))
async def test_a_late_arm_is_cut_off(arm: Arm) -> None:
    store = FakeStore({"guides": []}, before={arm: for_ever})
    with deadline_at(time.monotonic() + 0.2):
        found = await service(store).retrieve(Query("lease"))
    assert found.candidates
    assert [(each.component, each.reason) for each in found.degraded] == [
        (f"{arm.value}_arm", "DEADLINE_EXCEEDED")
    ]


async def test_both_arms_late_is_an_error_and_a_failure_says_more_than_lateness() -> None:
    store = FakeStore({"guides": []}, before=dict.fromkeys(Arm, for_ever))
    with deadline_at(time.monotonic() + 0.1), pytest.raises(DeadlineExceededError):
        await service(store).retrieve(Query("lease"))
    store = FakeStore({"guides": []}, before={Arm.KEYWORD: for_ever}, failing={(Arm.SEMANTIC, "guides")})
    with deadline_at(time.monotonic() + 0.1), pytest.raises(UnavailableError):
        await service(store).retrieve(Query("lease"))


async def test_a_cancelled_request_cancels_its_searches() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def until_cancelled() -> None:
        begun.set()
        try:
            await for_ever()
        finally:
            cancelled.set()

    store = FakeStore({"guides": []}, before={Arm.KEYWORD: until_cancelled})
    request = asyncio.create_task(service(store).retrieve(Query("lease", options=mode(Mode.KEYWORD))))
    await begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    async with asyncio.timeout(5):
        await cancelled.wait()


# Searching


async def test_bm25_runs_while_the_query_is_embedded() -> None:
    embedder = SlowEmbedder()
    begun = asyncio.Semaphore(0)

    async def begins() -> None:
        begun.release()

    store = FakeStore({"guides": [], "notes": []}, before={Arm.KEYWORD: begins})
    request = asyncio.create_task(service(store, embedder).retrieve(Query("lease")))
    for _ in store.readers:
        await begun.acquire()
    assert {arm for arm, _ in store.searched} == {Arm.KEYWORD}
    embedder.go.set()
    found = await request
    assert not found.degraded
    assert embedder.asked == 1
    assert store.searched[2:] == [(Arm.SEMANTIC, "guides"), (Arm.SEMANTIC, "notes")]


@pytest.mark.parametrize(
    ("wanted", "arms"),
    [
        (Mode.KEYWORD, {Arm.KEYWORD}),
        (Mode.SEMANTIC, {Arm.SEMANTIC}),
        (Mode.HYBRID, set(Arm)),
        (None, set(Arm)),
    ],
)
async def test_a_mode_runs_its_arms(wanted: Mode | None, arms: set[Arm]) -> None:
    store = FakeStore({"guides": []})
    await service(store).retrieve(Query("lease", options=RetrievalOptions(mode=wanted)))
    assert {arm for arm, _ in store.searched} == arms


async def test_ranks_count_after_thresholds_and_ties_go_to_the_smaller_id() -> None:
    store = FakeStore({"guides": []}, hits=[(9, 0.5), (7, 0.5), (8, 0.9), (6, 0.1)])
    options = RetrievalOptions(mode=Mode.KEYWORD, min_bm25=0.2)
    found = await service(store).retrieve(Query("lease", options=options))
    assert [
        (candidate.chunk.chunk_id, candidate.keyword.rank)
        for candidate in found.candidates
        if candidate.keyword
    ] == [(8, 1), (7, 2), (9, 3)]


def test_options_go_over_defaults_and_zero_is_not_unset() -> None:
    defaults = RetrievalOptions(mode=Mode.KEYWORD, keyword_limit=7, min_bm25=3.0, include_vectors=True)
    options = RetrievalOptions(min_bm25=0.0, include_vectors=False, semantic_limit=300).over(defaults)
    parameters = Parameters.of(options)
    assert parameters.arms == {Arm.KEYWORD}
    assert (parameters.keyword_limit, parameters.min_bm25, parameters.include_vectors) == (7, 0.0, False)
    assert parameters.ef_search == 300, "never below semantic_limit"
    assert Parameters.of(RetrievalOptions()).ef_search == 100


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


# Neighbours


def piece(index: int, start: int, text: str) -> Chunk:
    return Chunk(
        index,
        "d",
        "c",
        index,
        text,
        "",
        "",
        "",
        "file",
        "",
        start,
        start + len(text),
        "{}",
        datetime.now(UTC),
    )


def test_neighbours_are_cut_where_they_overlap_and_stand_in_order() -> None:
    text = "abcdefghijklmnop"
    chunks = [piece(index, start, text[start : start + 5]) for index, start in enumerate((0, 3, 6, 9, 11))]
    for index, expected in ((2, ["abc", "def", "lmn", "op"]), (0, ["fgh", "ijk", "lmn", "op"])):
        others = [chunk for chunk in chunks if chunk.chunk_index != index]
        pieces = around(chunks[index], others[::-1])
        assert [chunk.text for chunk in pieces] == expected
        assert all(text[chunk.start_offset : chunk.end_offset] == chunk.text for chunk in pieces)


def test_a_neighbour_without_text_of_its_own_is_left_out() -> None:
    hit = piece(1, 2, "cdefgh")
    assert around(hit, [piece(0, 2, "cd"), piece(2, 4, "efgh")]) == []
    apart = [piece(0, 0, "a"), piece(2, 20, "z")]
    assert around(hit, apart) == apart
