"""Searches collections with both arms at once, ranks where that takes no model, and reads what is kept."""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import structlog
from groundline.v1 import (
    candidate_pb2,
    options_pb2,
    passage_pb2,
    reranker_service_pb2,
    retriever_service_pb2,
)
from groundline_filters import Filter, parse, plain
from groundline_ranking import is_weak, rank, ranked_with_texts, read_passages
from groundline_runtime.context import Caller, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    GroundlineError,
    NotFoundError,
    UnavailableError,
)
from groundline_runtime.reasons import reason_value

from groundline_retriever.ahead import begun_ahead
from groundline_retriever.domain import (
    ArmHits,
    Hits,
    IndexedCollection,
    Parameters,
    Selection,
    candidates_found,
    features_of,
    lists_of,
    ranked,
)
from groundline_retriever.late import LateTasks
from groundline_retriever.ports import ChunkStore, QueryEmbedder, SearchIndex

__all__ = ["RetrievalService"]

REMEMBERED_COLLECTIONS = 10_000

MAXIMUM_NAMED = 5
"""Collections that one message names."""

REBUILD_SECONDS = 5.0
"""After so long it is worth asking again for an index that is being rebuilt."""

_KEYWORD, _SEMANTIC = candidate_pb2.SEARCH_ARM_KEYWORD, candidate_pb2.SEARCH_ARM_SEMANTIC
_ARM_NAMES: Mapping[int, str] = {_KEYWORD: "keyword search", _SEMANTIC: "semantic search"}
_COMPONENTS: Mapping[int, passage_pb2.Component.ValueType] = {
    _KEYWORD: passage_pb2.COMPONENT_KEYWORD_ARM,
    _SEMANTIC: passage_pb2.COMPONENT_SEMANTIC_ARM,
}
_PARTS: Mapping[int, passage_pb2.Stage.ValueType] = {
    _KEYWORD: passage_pb2.STAGE_KEYWORD_SEARCH,
    _SEMANTIC: passage_pb2.STAGE_SEMANTIC_SEARCH,
}

type Lists = list[ArmHits]
type Task = tuple[candidate_pb2.SearchArm.ValueType, int]
"""An arm, and the position of the group of collections that it searches."""
type _Group = tuple[Parameters, QueryEmbedder | None]
"""How collections are searched, and by which model; None where they are not searched by vectors."""
type Failure = tuple[candidate_pb2.SearchArm.ValueType, Exception]

_log = structlog.get_logger(__name__)


class _Stopwatch:
    """Milliseconds that parts took; of a part that ran several times at once, the longest."""

    def __init__(self) -> None:
        self.milliseconds: dict[passage_pb2.Stage.ValueType, float] = {}

    @contextmanager
    def part(self, stage: passage_pb2.Stage.ValueType) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = (time.perf_counter() - started) * 1000
            self.milliseconds[stage] = max(elapsed, self.milliseconds.get(stage, 0.0))


class _KnownCollections:
    """What was read of collections, for callers that have just read their versions.

    Which version it is, and that these principals may read it, was established by the database: a collection
    that changes, its readers included, gets another version.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, tuple[str, ...]], IndexedCollection] = OrderedDict()
        self._last: OrderedDict[tuple[str, tuple[str, ...]], IndexedCollection] = OrderedDict()

    def of(
        self, collection_ids: Sequence[str], versions: Sequence[int], principals: tuple[str, ...]
    ) -> list[IndexedCollection] | None:
        """The collections in these versions; None unless all are known."""
        if not versions or len(versions) != len(collection_ids):
            return None
        found = [
            self._known.get((collection_id, version, principals))
            for collection_id, version in zip(collection_ids, versions, strict=True)
        ]
        known = [collection for collection in found if collection is not None]
        return known if len(known) == len(found) else None

    def last(
        self, collection_ids: Sequence[str], principals: tuple[str, ...]
    ) -> list[IndexedCollection] | None:
        """The collections as they were read last; None unless all are known, or none is named."""
        wanted = dict.fromkeys(collection_ids)
        known = [self._last[name, principals] for name in wanted if (name, principals) in self._last]
        return known if known and len(known) == len(wanted) else None

    def remember(self, collections: Sequence[IndexedCollection], principals: tuple[str, ...]) -> None:
        for collection in collections:
            self._known[collection.collection_id, collection.version, principals] = collection
            self._last[collection.collection_id, principals] = collection
        for kept in (self._known, self._last):
            while len(kept) > REMEMBERED_COLLECTIONS:
                kept.popitem(last=False)


class RetrievalService:
    """`arm_timeout_share` is the part of a request's time, 0 to 1, after which an arm counts as late."""

    def __init__(
        self,
        store: ChunkStore,
        index: SearchIndex,
        embedders: Iterable[QueryEmbedder],
        *,
        arm_timeout_share: float,
    ) -> None:
        """`embedders`: one for each model whose collections can be searched."""
        self._store = store
        self._index = index
        self._embedders = {(embedder.model, embedder.dimensions): embedder for embedder in embedders}
        self._arm_timeout_share = arm_timeout_share
        self._known = _KnownCollections()
        self._late = LateTasks()

    async def retrieve(
        self, caller: Caller, request: retriever_service_pb2.RetrieveRequest
    ) -> retriever_service_pb2.RetrieveResponse:
        """What the arms find in each collection; with `ranking`, the passages that are kept of it.

        Raises NotFoundError, FailedPreconditionError (EMBEDDING_MODEL_MISMATCH), and where every arm failed,
        the error of one of them.
        """
        known = self._known.of(request.collection_ids, request.collection_versions, caller.principals)
        if known is not None:
            return await self._retrieve(caller, request, known)
        return await begun_ahead(
            self._known.last(request.collection_ids, caller.principals),
            self._collections(request, caller.principals),
            _are_same,
            lambda collections: self._retrieve(caller, request, collections),
        )

    async def _retrieve(
        self,
        caller: Caller,
        request: retriever_service_pb2.RetrieveRequest,
        collections: Sequence[IndexedCollection],
    ) -> retriever_service_pb2.RetrieveResponse:
        watch = _Stopwatch()
        groups: dict[_Group, list[IndexedCollection]] = defaultdict(list)
        adjacent_chunks: dict[str, int] = {}
        # Most collections have the same defaults, as one object; of a thousand, merging them takes long.
        merged: dict[int, tuple[options_pb2.RetrievalOptions, Parameters]] = {}
        for collection in collections:
            known = merged.get(id(collection.defaults))
            if known is None:
                options = collection.options(request.options)
                known = merged[id(collection.defaults)] = options, Parameters.of(options)
            options, parameters = known
            groups[parameters, self._embedder_of(parameters, collection)].append(collection)
            if options.adjacent_chunks:
                adjacent_chunks[collection.collection_id] = options.adjacent_chunks
        selection = Selection(caller.principals, _condition(request), request.min_position)
        found, degraded = await self._search(request.query.strip(), list(groups.items()), selection, watch)
        response = retriever_service_pb2.RetrieveResponse(degraded=degraded)
        if request.HasField("ranking") and not _is_too_weak(found, request.ranking):
            await self._rank(caller, request, found, adjacent_chunks, response.ranked, watch)
        else:
            response.lists.extend(lists_of(found))
            response.features.CopyFrom(features_of(found))
            response.adjacent_chunks.update(adjacent_chunks)
        response.timings.extend(
            passage_pb2.StageTiming(stage=stage, duration_ms=milliseconds)
            for stage, milliseconds in watch.milliseconds.items()
        )
        return response

    async def fetch(
        self, caller: Caller, request: retriever_service_pb2.FetchChunksRequest
    ) -> retriever_service_pb2.FetchChunksResponse:
        """The chunks as they are now, those that exist and may be read."""
        chunks = await self._store.fetch(request.selections, caller.principals)
        return retriever_service_pb2.FetchChunksResponse(chunks=chunks)

    async def _rank(
        self,
        caller: Caller,
        request: retriever_service_pb2.RetrieveRequest,
        found: Lists,
        adjacent_chunks: Mapping[str, int],
        kept: retriever_service_pb2.RankedPassages,
        watch: _Stopwatch,
    ) -> None:
        """Put into `kept` the passages that ranking keeps of what was found."""
        versions: Mapping[str, int] = {}

        async def fetch(
            selections: Sequence[candidate_pb2.CollectionChunks],
        ) -> Sequence[candidate_pb2.FetchedChunk]:
            nonlocal versions
            fetched = await self._store.fetch(selections, caller.principals)
            versions = {each.chunk.collection_id: each.collection_version for each in fetched}
            return fetched

        with watch.part(passage_pb2.STAGE_RERANKING):
            ranking = await ranked_with_texts(
                partial(rank, candidates=candidates_found(found)),
                reranker_service_pb2.RerankRequest(query=request.query, options=request.ranking.options),
                fetch,
            )
        with watch.part(passage_pb2.STAGE_FETCHING):
            kept.passages.extend(await read_passages(ranking.ranked, adjacent_chunks, fetch))
        kept.collection_versions.update(versions)
        kept.cut.extend(ranking.cut)
        kept.SetInParent()  # also where nothing was kept

    async def _collections(
        self, request: retriever_service_pb2.RetrieveRequest, principals: tuple[str, ...]
    ) -> Sequence[IndexedCollection]:
        wanted = list(dict.fromkeys(request.collection_ids))
        collections = await self._store.collections(wanted, principals)
        if missing := sorted(set(wanted) - {collection.collection_id for collection in collections}):
            # The same for one that is not there and one that may not be read.
            raise NotFoundError(
                "COLLECTION_NOT_FOUND",
                f"no such collection: {', '.join(missing)}",
                metadata={"collection_ids": ",".join(missing)},
            )
        if wanted:
            self._known.remember(collections, principals)
        return collections

    def _embedder_of(self, parameters: Parameters, collection: IndexedCollection) -> QueryEmbedder | None:
        """The collection's embedder, where it is searched by vectors. Raises FailedPreconditionError."""
        if _SEMANTIC not in parameters.arms:
            return None
        embedder = self._embedders.get((collection.embedding_model, collection.dimensions))
        if embedder is None:
            running = " and ".join(
                f"{model} ({dimensions} dimensions)" for model, dimensions in self._embedders
            )
            raise FailedPreconditionError(
                "EMBEDDING_MODEL_MISMATCH",
                f"collection {collection.collection_id} was embedded with {collection.embedding_model} "
                f"({collection.dimensions} dimensions), but running is {running}; reindex the collection or "
                "search it by keyword",
                metadata={
                    "collection_id": collection.collection_id,
                    "collection_model": collection.embedding_model,
                    "running_model": ", ".join(model for model, _ in self._embedders),
                },
            )
        return embedder

    async def _search(
        self,
        text: str,
        groups: Sequence[tuple[_Group, Sequence[IndexedCollection]]],
        selection: Selection,
        watch: _Stopwatch,
    ) -> tuple[Lists, Sequence[passage_pb2.Degradation]]:
        """What each arm finds in each index, as far as it succeeds in time."""
        # Keyword searches come first, so that they are under way before the query is embedded.
        tasks: dict[Task, asyncio.Task[Lists]] = {}
        incomplete: list[Failure] = []
        for position, ((parameters, _), collections) in enumerate(groups):
            if _KEYWORD in parameters.arms:
                work = self._keyword(text, parameters, collections, selection, watch, incomplete)
                tasks[_KEYWORD, position] = asyncio.create_task(work)
        for position, ((parameters, embedder), collections) in enumerate(groups):
            if embedder is not None:
                work = self._semantic(text, embedder, parameters, collections, selection, watch, incomplete)
                tasks[_SEMANTIC, position] = asyncio.create_task(work)
        if not tasks:
            return [], ()
        try:
            await asyncio.wait(tasks.values(), timeout=self._arm_seconds())
            return _outcomes(tasks, incomplete)
        finally:
            self._late.leave(tasks.values())

    async def _keyword(
        self,
        text: str,
        parameters: Parameters,
        collections: Sequence[IndexedCollection],
        selection: Selection,
        watch: _Stopwatch,
        incomplete: list[Failure],
    ) -> Lists:
        with watch.part(_PARTS[_KEYWORD]):
            found = await self._index.keyword(
                collections, text, limit=parameters.keyword_limit, selection=selection
            )
        missing = _missing(found)
        if found.unsound and not found.lists:
            raise missing[0]
        incomplete += [(_KEYWORD, error) for error in missing]
        return [ranked(_KEYWORD, hits, parameters.min_bm25) for hits in found.lists]

    async def _semantic(
        self,
        text: str,
        embedder: QueryEmbedder,
        parameters: Parameters,
        collections: Sequence[IndexedCollection],
        selection: Selection,
        watch: _Stopwatch,
        incomplete: list[Failure],
    ) -> Lists:
        with watch.part(passage_pb2.STAGE_EMBEDDING):
            vector = await embedder.embed_query(text)
        with watch.part(_PARTS[_SEMANTIC]):
            found = await self._index.semantic(
                collections,
                vector,
                limit=parameters.semantic_limit,
                ef_search=parameters.ef_search,
                iterative_scan=parameters.iterative_scan,
                selection=selection,
            )
        incomplete += [(_SEMANTIC, error) for error in _missing(found)]
        return [ranked(_SEMANTIC, hits, parameters.min_similarity) for hits in found.lists]

    def _arm_seconds(self) -> float | None:
        left = remaining_seconds()
        return None if left is None else left * self._arm_timeout_share


def _are_same(expected: Sequence[IndexedCollection], found: Sequence[IndexedCollection]) -> bool:
    return {(one.collection_id, one.version) for one in expected} == {
        (one.collection_id, one.version) for one in found
    }


def _is_too_weak(found: Lists, ranking: retriever_service_pb2.Ranking) -> bool:
    """Whether the caller will search again, and rank all together."""
    best = ((arm, [hit.score for hit in hits[:1]]) for arm, hits in found)
    return ranking.HasField("weak_similarity") and is_weak(best, ranking.weak_similarity)


def _condition(request: retriever_service_pb2.RetrieveRequest) -> Filter | None:
    """An empty filter is none."""
    return parse(plain(request.filter)) if request.filter.fields else None


def _outcomes(
    tasks: Mapping[Task, asyncio.Task[Lists]], incomplete: Sequence[Failure]
) -> tuple[Lists, Sequence[passage_pb2.Degradation]]:
    found: Lists = []
    failures: list[Failure] = []
    for (arm, _), task in tasks.items():
        error = _failure(arm, task)
        if error is None:
            found.extend(task.result())
        else:
            failures.append((arm, error))
    if len(failures) == len(tasks):
        # An arm that says what is wrong tells more than one that was merely late.
        raise min(
            (error for _, error in failures), key=lambda error: isinstance(error, DeadlineExceededError)
        )
    return found, _degradations([*failures, *incomplete])


def _missing(found: Hits) -> list[UnavailableError]:
    """What an arm lacks, though it answered; an index that is being rebuilt comes first."""
    errors = []
    if found.unsound:
        named = _named(found.unsound)
        text = f"the keyword index of {named} is being rebuilt, since the database stopped uncleanly"
        errors.append(UnavailableError("LEXICAL_INDEX_UNSOUND", text, retry_after_seconds=REBUILD_SECONDS))
    if found.behind:
        text = f"what was written lately into {_named(found.behind)} is not in the distributed index yet"
        errors.append(UnavailableError("SEARCH_INDEX_BEHIND", text))
    if found.is_incomplete:
        text = "there may be more matches: of what the distributed index proposed, too little matches"
        errors.append(UnavailableError("SEARCH_INDEX_INCOMPLETE", text))
    return errors


def _named(collection_ids: Sequence[str]) -> str:
    more = len(collection_ids) - MAXIMUM_NAMED
    return ", ".join(collection_ids[:MAXIMUM_NAMED]) + (f" and {more} more" if more > 0 else "")


def _failure(arm: candidate_pb2.SearchArm.ValueType, task: asyncio.Task[Lists]) -> Exception | None:
    if not task.done():
        return DeadlineExceededError("DEADLINE_EXCEEDED", f"{_ARM_NAMES[arm]} did not answer in time")
    error = task.exception()
    assert error is None or isinstance(error, Exception)
    return error


def _degradations(
    failures: Iterable[Failure],
) -> Sequence[passage_pb2.Degradation]:
    """One for each arm and reason; what was not expected is logged and shows nothing of itself."""
    found: dict[tuple[int, str], passage_pb2.Degradation] = {}
    for arm, error in failures:
        if isinstance(error, GroundlineError):
            reason, message = error.reason, error.message
            _log.warning("arm_failed", arm=_ARM_NAMES[arm], reason=reason)
        else:
            reason, message = "INTERNAL", f"{_ARM_NAMES[arm]} failed"
            _log.error("arm_failed", arm=_ARM_NAMES[arm], reason=reason, exc_info=error)
        found.setdefault(
            (arm, reason),
            passage_pb2.Degradation(component=_COMPONENTS[arm], reason=reason_value(reason), message=message),
        )
    return list(found.values())
