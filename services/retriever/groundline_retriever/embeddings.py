"""Query vectors, computed once."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from cachetools import TTLCache
from groundline_embedding.ports import Vectors
from groundline_runtime.context import current_caller
from groundline_runtime.metrics.common import CACHE_LOOKUPS

from groundline_retriever.ports import QueryEmbedder

type _Query = tuple[str, str]
"""The client that asks, and its text."""


class QueryVectors:
    """An embedder of queries that caches the vectors of the last `size` queries (0 keeps none) for a while.

    Each client has its own: by how quickly an answer comes, nobody learns what others ask. Who asks what is
    being embedded for him waits for that computation, which ends with its last caller: one impatient caller
    does not take the vector from the others, and unwanted work is not done.
    """

    def __init__(
        self,
        embedder: QueryEmbedder,
        size: int,
        *,
        ttl_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self.model: Final = embedder.model
        self.dimensions: Final = embedder.dimensions
        self._kept: TTLCache[_Query, Vectors] = TTLCache(size, ttl_seconds, timer=clock)
        self._running: dict[_Query, asyncio.Task[Vectors]] = {}
        self._waiting: Counter[_Query] = Counter()

    def cost(self, tokens: int) -> float | None:
        return self._embedder.cost(tokens)

    async def embed_query(self, text: str) -> Vectors:
        query = current_caller().owner, text
        known = self._kept.get(query)
        outcome = "miss" if known is None else "hit"
        CACHE_LOOKUPS.add(1, {"cache": "query_vectors", "outcome": outcome})
        if known is not None:
            return known
        running = self._running.get(query)
        if running is None:
            running = self._running[query] = asyncio.create_task(self._embedder.embed_query(text))
            running.add_done_callback(lambda task: self._finished(query, task))
        self._waiting[query] += 1
        try:
            return await asyncio.shield(running)
        finally:
            self._waiting[query] -= 1
            if not self._waiting[query]:
                del self._waiting[query]
                # Nobody waits for it any longer; if done, cancelling has no effect.
                running.cancel()
                if self._running.get(query) is running:
                    del self._running[query]

    def _finished(self, query: _Query, task: asyncio.Task[Vectors]) -> None:
        if self._running.get(query) is task:
            del self._running[query]
        if self._kept.maxsize and not task.cancelled() and task.exception() is None:
            self._kept[query] = task.result()
