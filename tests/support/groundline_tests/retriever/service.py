"""A retriever whose store and reranker a test sets."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from groundline.v1 import chat_pb2, collection_pb2, options_pb2, passage_pb2, reranker_service_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_embedding.ports import Vectors
from groundline_filters import FacetField, Path
from groundline_ranking import Hit
from groundline_retriever.arms import Arms
from groundline_retriever.domain import Hits, IndexedCollection, Selection
from groundline_retriever.passages import FetchedChunk, Wanted
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_runtime.context import Caller
from groundline_runtime.errors import UnavailableError
from groundline_runtime.quotas import Spending
from groundline_signatures import signature
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.runtime import spending_in

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
    counting: Callable[[], object] | None = None
    """Awaited before facets are told."""

    async def collections(
        self,
        collection_ids: Sequence[str],
        principals: Sequence[str],
        index: options_pb2.IndexChoice.ValueType = options_pb2.INDEX_CHOICE_CURRENT,
    ) -> Sequence[IndexedCollection]:
        assert index == options_pb2.INDEX_CHOICE_CURRENT
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

    async def fetch(
        self,
        wanted: Sequence[Wanted],
        principals: Sequence[str],
        index: options_pb2.IndexChoice.ValueType = options_pb2.INDEX_CHOICE_CURRENT,
    ) -> Sequence[FetchedChunk]:
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

    async def collections_as_of(
        self, collections: Sequence[IndexedCollection], as_of: datetime, *, are_named: bool
    ) -> Sequence[IndexedCollection]:
        return [replace(each, partition_id=each.partition_id + 1, in_use=each) for each in collections]

    async def fetch_as_of(
        self,
        wanted: Sequence[Wanted],
        principals: Sequence[str],
        as_of: datetime,
        searched: Sequence[IndexedCollection],
    ) -> Sequence[FetchedChunk]:
        return await self.fetch(wanted, principals)

    async def revision_texts(
        self, spans: Sequence[pb.RevisionSpan], principals: Sequence[str]
    ) -> Sequence[pb.RevisionText]:
        return [
            pb.RevisionText(span=span, text="as it was")
            for span in spans
            if {"*", *principals} & set(self.readers.get(span.collection_id, ()))
        ]

    async def facets(
        self,
        collection_ids: Sequence[str],
        fields: Sequence[Path | FacetField],
        selection: Selection,
        *,
        limit: int,
    ) -> Sequence[pb.Facet]:
        assert fields, "nothing is counted unless it is asked for"
        wait = (self.counting or nothing)()
        assert asyncio.iscoroutine(wait)
        await wait
        return [pb.Facet() for _ in fields]

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
        self.usage = chat_pb2.Usage()
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
        return reranker_service_pb2.RerankResponse(ranked=ranked, degraded=self.degraded, usage=self.usage)


def service(
    store: FakeStore,
    *embedders: FakeEmbedder,
    reranker: FakeReranker | None = None,
    scored_candidates: int = 50,
    spending: Spending | None = None,
) -> SearchService:
    return SearchService(
        store,
        Arms(store, embedders or [EMBEDDER], timeout_seconds=60),
        ModelScores(reranker or FakeReranker(), timeout_seconds=60),
        spending=spending or spending_in(),
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


DOWN = UnavailableError("UNAVAILABLE", "down")
