"""Query vectors, computed once."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from cachetools import TTLCache
from groundline_embedding.ports import Vectors

from groundline_retriever.ports import QueryEmbedder

__all__ = ["QueryVectors"]


class QueryVectors:
    """An embedder of queries that caches the vectors of the last `size` queries (0 keeps none) for a while.

    A caller of a query that is being embedded waits for that computation, which ends with its last caller:
    one impatient caller does not take the vector from the others, and unwanted work is not done.
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
        self._kept: TTLCache[str, Vectors] = TTLCache(size, ttl_seconds, timer=clock)
        self._running: dict[str, asyncio.Task[Vectors]] = {}
        self._waiting: Counter[str] = Counter()

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    async def embed_query(self, text: str) -> Vectors:
        known = self._kept.get(text)
        if known is not None:
            return known
        running = self._running.get(text)
        if running is None:
            running = self._running[text] = asyncio.create_task(self._embedder.embed_query(text))
            running.add_done_callback(lambda task: self._finished(text, task))
        self._waiting[text] += 1
        try:
            return await asyncio.shield(running)
        finally:
            self._waiting[text] -= 1
            if not self._waiting[text]:
                del self._waiting[text]
                # Nobody waits for it any longer; if done, cancelling has no effect.
                running.cancel()
                if self._running.get(text) is running:
                    del self._running[text]

    def _finished(self, text: str, task: asyncio.Task[Vectors]) -> None:
        if self._running.get(text) is task:
            del self._running[text]
        if self._kept.maxsize and not task.cancelled() and task.exception() is None:
            self._kept[text] = task.result()
