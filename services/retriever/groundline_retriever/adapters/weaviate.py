"""SearchIndex on Weaviate, which proposes ids and scores; PostgreSQL decides which of them are hits.

Weaviate's objects may be late or stale, and its condition may hold for too much. So its proposals are looked
up by key, and if that leaves a list short, more are asked for. It has the present alone: the past is searched
by PostgreSQL's own indexes.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import structlog
from cachetools import LRUCache
from groundline.v1 import options_pb2
from groundline_embedding.ports import Vectors
from groundline_lexical import searched_words
from groundline_ranking import Hit
from groundline_runtime.errors import UnavailableError
from groundline_weaviate import (
    MAX_PROPOSALS,
    Extent,
    Proposal,
    Space,
    Weaviate,
    WeaviateSettings,
    condition_of,
    open_weaviate,
)
from groundline_weaviate.wire_pb2 import Filters

from groundline_retriever.adapters.postgres.sizes import REMEMBERED_PARTITIONS
from groundline_retriever.adapters.postgres.store import PostgresChunkStore
from groundline_retriever.domain import Hits, IndexedCollection, Selection

ROUNDS: Final = 3
"""Maximum number of calls of the engine for one list."""

PROPOSALS: Final = 5
"""Multiple of its limit that a keyword search asks for, since others' chunks decide the engine's order."""

type Ask = Callable[[int], Awaitable[Sequence[Proposal]]]
"""Ask for a number of proposals; the same ones come first, whatever their number."""

type Decide = Callable[[Mapping[tuple[int, int], float]], Awaitable[Sequence[Hit]]]
"""Return the hits among proposals, which are given by partition and id with their scores."""


_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_weaviate_search(
    settings: WeaviateSettings, store: PostgresChunkStore, *, max_lag_seconds: float
) -> AsyncIterator["WeaviateSearch"]:
    """Open the index on a client of its own. Weaviate need not be up yet: searches fail until it is.

    Raises FailedPreconditionError if it refuses the key.
    """
    async with open_weaviate(settings) as weaviate:
        try:
            await weaviate.require_access()
        except UnavailableError as error:
            _log.warning("search_index_unavailable", error=error.message)
        yield WeaviateSearch(weaviate, store, max_lag_seconds=max_lag_seconds)


class _Lag(NamedTuple):
    """Delay of the index in a partition."""

    seconds: float
    read_time: float
    """Time of the monotonic clock, no later than the statement."""


class WeaviateSearch:
    """SearchIndex that finds changes older than `max_lag_seconds`, or names their collection as behind. The
    store decides, and searches the past."""

    def __init__(self, weaviate: Weaviate, store: PostgresChunkStore, *, max_lag_seconds: float) -> None:
        self._weaviate = weaviate
        self._store = store
        self._proposals = store.proposals
        self._max_lag_seconds = max_lag_seconds
        self._lags: LRUCache[int, _Lag] = LRUCache(REMEMBERED_PARTITIONS)

    async def keyword(
        self, collections: Sequence[IndexedCollection], query: str, *, limit: int, selection: Selection
    ) -> Hits:
        """Return a list for each embedding space and language. The engine proposes by term statistics of the
        whole space; scores and order are by those of what the caller may read."""
        if selection.as_of is not None:
            return await self._store.keyword(collections, query, limit=limit, selection=selection)
        groups: dict[tuple[Space, str], list[IndexedCollection]] = defaultdict(list)
        for collection in collections:
            groups[_space(collection), collection.language].append(collection)

        def asking(space: Space, language: str, group: Sequence[IndexedCollection]) -> Ask:
            words, condition = searched_words(query, language), _condition(group, selection)
            return lambda number: self._weaviate.keyword(space, words, condition, limit=PROPOSALS * number)

        def scoring(group: Sequence[IndexedCollection]) -> Decide:
            return lambda proposed: self._proposals.scored(group, query, proposed, selection)

        lists = [(asking(*key, group), scoring(group)) for key, group in groups.items()]
        return await self._hits(collections, lists, limit, selection)

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
        """Return a list for each embedding space. The engine decides how far HNSW looks."""
        if selection.as_of is not None:
            return await self._store.semantic(
                collections,
                vector,
                limit=limit,
                ef_search=ef_search,
                iterative_scan=iterative_scan,
                selection=selection,
            )
        groups: dict[Space, list[IndexedCollection]] = defaultdict(list)
        for collection in collections:
            groups[_space(collection)].append(collection)

        def asking(space: Space, group: Sequence[IndexedCollection]) -> Ask:
            condition = _condition(group, selection)
            return lambda number: self._weaviate.semantic(space, vector, condition, limit=number)

        def deciding(group: Sequence[IndexedCollection]) -> Decide:
            return lambda proposed: self._proposals.decided(group, proposed, selection)

        lists = [(asking(space, group), deciding(group)) for space, group in groups.items()]
        return await self._hits(collections, lists, limit, selection)

    async def _hits(
        self,
        collections: Sequence[IndexedCollection],
        asked: Sequence[tuple[Ask, Decide]],
        limit: int,
        selection: Selection,
    ) -> Hits:
        # First: whatever is complete now, the searches see.
        behind = await self._behind(collections, selection)
        lists = await asyncio.gather(*(_decided(ask, decide, limit) for ask, decide in asked))
        return Hits(
            [hits for hits, _ in lists],
            behind=behind,
            is_incomplete=any(is_incomplete for _, is_incomplete in lists),
        )

    async def _behind(self, collections: Sequence[IndexedCollection], selection: Selection) -> Sequence[str]:
        """Return the collections of which the index lacks changes that it should have by now.

        An index that was read to lack nothing is within the allowed lag for that long, whatever is written
        meanwhile. A request that names a position allows no lag.
        """
        now, known = time.monotonic(), self._lags
        allowed = 0.0 if selection.min_position else self._max_lag_seconds
        partitions = {one.partition_id for one in collections}
        unsure = {
            each
            for each in partitions
            if each not in known or known[each].seconds + now - known[each].read_time > allowed
        }
        if not unsure:
            return []
        lags = await self._proposals.index_lags(unsure)
        known.update({partition_id: _Lag(seconds, now) for partition_id, seconds in lags.items()})
        late = {each for each in unsure if each not in lags or lags[each] > allowed}
        return [one.collection_id for one in collections if one.partition_id in late]


async def _decided(ask: Ask, decide: Decide, limit: int) -> tuple[Sequence[Hit], bool]:
    """Return the best hits among the proposals, and whether there may be more."""
    hits: list[Hit] = []
    seen: set[tuple[int, int]] = set()
    number = limit
    for _ in range(ROUNDS):
        proposals = await ask(number)
        new = {(one.partition_id, one.chunk_id): one.score for one in proposals}
        new = {key: score for key, score in new.items() if key not in seen}
        seen.update(new)
        hits += await decide(new)
        hits.sort(key=lambda hit: (-hit.score, hit.chunk_id))
        if len(hits) >= limit or len(proposals) < number:
            return hits[:limit], False
        if number == MAX_PROPOSALS:
            break
        # Twice as many as should do at that rate.
        wanted = 2 * limit * number // len(hits) if hits else MAX_PROPOSALS
        number = min(max(wanted, 4 * number), MAX_PROPOSALS)
    return hits, True


def _space(collection: IndexedCollection) -> Space:
    return Space(collection.embedding_model, collection.dimensions, collection.is_quantized)


def _condition(collections: Sequence[IndexedCollection], selection: Selection) -> Filters:
    own = {one.partition_id for one in collections if not one.is_shared}
    shared = [one for one in collections if one.is_shared]
    extent = Extent(
        sorted(own),
        sorted({one.partition_id for one in shared}),
        [one.collection_id for one in shared],
    )
    return condition_of(extent, selection.principals, selection.filter)
