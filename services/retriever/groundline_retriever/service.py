"""Searches collections with both arms at once."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from groundline_runtime.context import current_caller, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    GroundlineError,
    NotFoundError,
)

from groundline_retriever.domain import (
    Arm,
    Candidate,
    Collection,
    Degradation,
    Parameters,
    Query,
    Ranked,
    Retrieval,
    Selection,
    around,
    ranked,
    union,
)
from groundline_retriever.ports import ChunkStore, EncodedVector, QueryEmbedder

__all__ = ["RetrievalService"]

type Found = Sequence[Ranked]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Search:
    """One collection and how it is searched."""

    collection: Collection
    parameters: Parameters


class _Stopwatch:
    """Milliseconds that stages took; of a stage that ran several times at once, the longest."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = (time.perf_counter() - started) * 1000
            self.milliseconds[name] = max(elapsed, self.milliseconds.get(name, 0.0))


class RetrievalService:
    """`arm_timeout_share` is the part of a request's time, 0 to 1, after which an arm counts as late."""

    def __init__(self, store: ChunkStore, embedder: QueryEmbedder, *, arm_timeout_share: float) -> None:
        self._store = store
        self._embedder = embedder
        self._arm_timeout_share = arm_timeout_share
        self._late: set[asyncio.Task[Any]] = set()

    async def retrieve(self, query: Query) -> Retrieval:
        """What the arms find in each collection.

        Raises NotFoundError, FailedPreconditionError (EMBEDDING_MODEL_MISMATCH), and where every arm failed,
        the error of one of them.
        """
        principals = current_caller().principals
        watch = _Stopwatch()
        searches = [
            _Search(collection, Parameters.of(query.options.over(collection.defaults)))
            for collection in await self._readable(query.collection_ids, principals)
        ]
        for search in searches:
            self._require_model(search)
        found, degraded = await self._search(query.text, searches, Selection(principals, query.filter), watch)
        candidates = await asyncio.gather(
            *(
                self._with_neighbours(
                    search,
                    union(found.get((Arm.KEYWORD, search), ()), found.get((Arm.SEMANTIC, search), ())),
                    principals,
                    watch,
                )
                for search in searches
            )
        )
        return Retrieval(
            candidates=[candidate for of_one in candidates for candidate in of_one],
            degraded=degraded,
            timings_ms=watch.milliseconds,
        )

    async def _readable(
        self, collection_ids: Sequence[str], principals: Sequence[str]
    ) -> Sequence[Collection]:
        collections = await self._store.collections(collection_ids, principals)
        missing = sorted(set(collection_ids) - {collection.collection_id for collection in collections})
        if missing:
            names = ", ".join(missing)
            # The same for one that is not there and one that may not be read.
            raise NotFoundError(
                "COLLECTION_NOT_FOUND",
                f"no such collection: {names}",
                metadata={"collection_ids": ",".join(missing)},
            )
        return collections

    def _require_model(self, search: _Search) -> None:
        collection, embedder = search.collection, self._embedder
        if Arm.SEMANTIC not in search.parameters.arms:
            return
        if (collection.embedding_model, collection.dimensions) != (embedder.model, embedder.dimensions):
            raise FailedPreconditionError(
                "EMBEDDING_MODEL_MISMATCH",
                f"collection {collection.collection_id} was embedded with {collection.embedding_model} "
                f"({collection.dimensions} dimensions), but {embedder.model} "
                f"({embedder.dimensions} dimensions) is running; reindex the collection or search "
                "it by keyword",
                metadata={
                    "collection_id": collection.collection_id,
                    "collection_model": collection.embedding_model,
                    "running_model": embedder.model,
                },
            )

    async def _search(
        self, text: str, searches: Sequence[_Search], selection: Selection, watch: _Stopwatch
    ) -> tuple[Mapping[tuple[Arm, _Search], Found], Sequence[Degradation]]:
        """What each arm finds in each collection, as far as it succeeds in time."""
        # Keyword searches come first, so that they are under way before the query is embedded.
        embedding: asyncio.Task[EncodedVector] | None = None
        tasks: dict[tuple[Arm, _Search], asyncio.Task[Found]] = {}
        for search in searches:
            if Arm.KEYWORD in search.parameters.arms:
                work = self._keyword(text, search, selection, watch)
                tasks[Arm.KEYWORD, search] = asyncio.create_task(work)
        for search in searches:
            if Arm.SEMANTIC in search.parameters.arms:
                embedding = embedding or asyncio.create_task(self._embed(text, watch))
                work = self._semantic(embedding, search, selection, watch)
                tasks[Arm.SEMANTIC, search] = asyncio.create_task(work)
        if not tasks:
            return {}, ()
        try:
            await asyncio.wait(tasks.values(), timeout=self._arm_seconds())
            return _outcomes(tasks)
        finally:
            self._abandon(task for task in (*tasks.values(), embedding) if task and not task.done())

    async def _keyword(self, text: str, search: _Search, selection: Selection, watch: _Stopwatch) -> Found:
        parameters = search.parameters
        with watch.stage("keyword"):
            hits = await self._store.keyword(
                search.collection,
                text,
                limit=parameters.keyword_limit,
                selection=selection,
                include_vectors=parameters.include_vectors,
            )
        return ranked(hits, parameters.min_bm25)

    async def _embed(self, text: str, watch: _Stopwatch) -> EncodedVector:
        with watch.stage("embedding"):
            return self._store.encode(await self._embedder.embed_query(text))

    async def _semantic(
        self,
        embedding: asyncio.Task[EncodedVector],
        search: _Search,
        selection: Selection,
        watch: _Stopwatch,
    ) -> Found:
        # Shielded: the other collections need the vector too.
        vector = await asyncio.shield(embedding)
        parameters = search.parameters
        with watch.stage("semantic"):
            hits = await self._store.semantic(
                search.collection,
                vector,
                limit=parameters.semantic_limit,
                ef_search=parameters.ef_search,
                iterative_scan=parameters.iterative_scan,
                selection=selection,
                include_vectors=parameters.include_vectors,
            )
        return ranked(hits, parameters.min_similarity)

    async def _with_neighbours(
        self,
        search: _Search,
        candidates: Sequence[Candidate],
        principals: Sequence[str],
        watch: _Stopwatch,
    ) -> Sequence[Candidate]:
        distance = search.parameters.neighbour_chunks
        if not distance or not candidates:
            return candidates
        with watch.stage("neighbours"):
            nearby = await self._store.neighbours(
                search.collection,
                [candidate.chunk for candidate in candidates],
                distance=distance,
                principals=principals,
            )
        return [
            each._replace(neighbours=around(each.chunk, nearby.get(each.chunk.chunk_id, ())))
            for each in candidates
        ]

    def _arm_seconds(self) -> float | None:
        left = remaining_seconds()
        return None if left is None else left * self._arm_timeout_share

    def _abandon(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Cancel without waiting: a database that hangs may take long to acknowledge a cancellation."""
        for task in tasks:
            self._late.add(task)
            task.add_done_callback(self._forget)
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would report it as lost


def _outcomes(
    tasks: Mapping[tuple[Arm, _Search], asyncio.Task[Found]],
) -> tuple[Mapping[tuple[Arm, _Search], Found], Sequence[Degradation]]:
    found: dict[tuple[Arm, _Search], Found] = {}
    failures: dict[tuple[Arm, _Search], Exception] = {}
    for (arm, search), task in tasks.items():
        error = _failure(arm, task)
        if error is None:
            found[arm, search] = task.result()
        else:
            failures[arm, search] = error
    if not found:
        # An arm that says what is wrong tells more than one that was merely late.
        raise min(failures.values(), key=lambda error: isinstance(error, DeadlineExceededError))
    return found, _degradations(failures)


def _failure(arm: Arm, task: asyncio.Task[Found]) -> Exception | None:
    if not task.done():
        return DeadlineExceededError("DEADLINE_EXCEEDED", f"{arm.value} search did not answer in time")
    error = task.exception()
    assert error is None or isinstance(error, Exception)
    return error


def _degradations(failures: Mapping[tuple[Arm, _Search], Exception]) -> Sequence[Degradation]:
    """One for each arm and reason; what was not expected is logged and shows nothing of itself."""
    found: dict[tuple[Arm, str], Degradation] = {}
    for (arm, search), error in failures.items():
        if isinstance(error, GroundlineError):
            reason, message = error.reason, error.message
            _log.warning(
                "arm_failed", arm=arm.value, collection=search.collection.collection_id, reason=reason
            )
        else:
            reason, message = "INTERNAL", f"{arm.value} search failed"
            _log.error(
                "arm_failed",
                arm=arm.value,
                collection=search.collection.collection_id,
                reason=reason,
                exc_info=error,
            )
        found.setdefault((arm, reason), Degradation(f"{arm.value}_arm", reason, message))
    return list(found.values())
