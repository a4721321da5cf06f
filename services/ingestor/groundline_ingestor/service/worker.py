"""All that one process does for jobs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from groundline_runtime.errors import UnavailableError

from groundline_ingestor.domain.collections import StoredCollection
from groundline_ingestor.domain.sources import OrderedRun
from groundline_ingestor.domain.work import ItemClaim, LeasedItem
from groundline_ingestor.ports import (
    ClaimLostError,
    CollectionRepository,
    CrawlRepository,
    DocumentRepository,
    EmbeddingCache,
    LexicalIndexes,
    ReindexRepository,
    SourceSchedule,
    VectorIndexes,
    WorkQueue,
)
from groundline_ingestor.service.contextualization import Contextualization
from groundline_ingestor.service.crawls import Crawling
from groundline_ingestor.service.embedding import RememberingEmbedder
from groundline_ingestor.service.items import HELD_PER_CLIENT, ITEMS_PER_CLIENT, ItemWork
from groundline_ingestor.service.leases import Leases, Searched
from groundline_ingestor.service.options import WorkerOptions
from groundline_ingestor.service.outcomes import Outcomes, whereabouts
from groundline_ingestor.service.pipeline import Pipeline
from groundline_ingestor.service.preparation import Preparation
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.upkeep import Upkeep
from groundline_ingestor.service.waking import Waking

__all__ = ["Worker"]

RESTART_SECONDS: Final = 1.0

SEARCH_SECONDS: Final = 0.25
"""Between two looks for crawls and runs, at least: every transaction that ends documents wakes who waits."""

_log = structlog.get_logger(__name__)


class Worker:
    """Works on documents, crawls and runs of sources, and keeps up what they need."""

    def __init__(
        self,
        queue: WorkQueue,
        collections: CollectionRepository,
        documents: DocumentRepository,
        reindex: ReindexRepository,
        lexical_indexes: LexicalIndexes,
        vector_indexes: VectorIndexes,
        embedder: RememberingEmbedder,
        cache: EmbeddingCache,
        preparation: Preparation,
        contextualization: Contextualization,
        quotas: Quotas,
        options: WorkerOptions,
        *,
        crawls: CrawlRepository,
        crawling: Crawling,
        sources: SourceSchedule,
        run_source: Callable[[ItemClaim, OrderedRun, StoredCollection], Awaitable[None]],
        tell_webhooks: Callable[[], Awaitable[None]],
    ) -> None:
        self._collections = collections
        self._crawls = crawls
        self._crawling = crawling
        self._sources = sources
        self._run_source = run_source
        self._options = options
        self._waking = Waking()
        self._leases = Leases(
            queue,
            model=embedder.embedder.model,
            lease_seconds=options.lease_seconds,
            maximum_attempts=options.max_attempts,
            prepared_per_client=max(1, options.workers) * ITEMS_PER_CLIENT,
            held_per_client=max(1, options.workers) * HELD_PER_CLIENT,
            on_free=self.wake,
        )
        self._outcomes = Outcomes(
            queue,
            self._leases,
            maximum_attempts=options.max_attempts,
            retry_seconds=options.retry_seconds,
            on_postponed=self._waking.wake_after,
        )
        items = ItemWork(
            queue,
            documents,
            reindex,
            embedder,
            preparation,
            contextualization,
            self._leases,
            self._outcomes,
            quotas,
            options,
        )
        self._pipeline = Pipeline(
            collections, embedder, items, self._leases, self._outcomes, self._waking, options
        )
        self._upkeep = Upkeep(
            self._leases,
            queue,
            reindex,
            sources,
            lexical_indexes,
            vector_indexes,
            cache,
            contextualization,
            tell_webhooks,
            options,
        )

    def wake(self) -> None:
        """Look for work now."""
        self._waking.wake()
        self._upkeep.stir()

    async def run(self) -> None:
        """Work until cancelled; what is held then goes back to the queue.

        An error that nobody foresaw is logged, and work begins anew: a process that lives but does nothing
        would hide it. Without workers there is nothing to do.
        """
        while self._options.workers:
            try:
                await self._work()
            except Exception as error:
                _log.error("worker_failed", **whereabouts(error))
            await asyncio.sleep(RESTART_SECONDS)

    async def _work(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pipeline.run())
                tasks.create_task(self._upkeep.run())
                for _ in range(self._options.crawls):
                    tasks.create_task(self._search())
        finally:
            await self._leases.release()

    async def _search(self) -> None:
        """Do crawls and runs of sources, one at a time."""
        while True:
            seen = self._waking.calls
            if not (
                await self._search_next(self._crawls, self._crawling.crawl, "crawled")
                or await self._search_next(self._sources, self._run_source, "read")
            ):
                await asyncio.sleep(SEARCH_SECONDS)
                await self._waking.wait(seen, self._options.poll_seconds)

    async def _search_next[Request](
        self,
        searched: Searched[Request],
        work: Callable[[ItemClaim, Request, StoredCollection], Awaitable[None]],
        outcome: str,
    ) -> bool:
        """Do the first crawl or run that waits; False where none does."""
        try:
            leased = await self._leases.lease_search(searched)
        except UnavailableError as error:
            _log.warning("lease_failed", reason=error.reason)
            return False
        if leased is None:
            return False
        item, request = leased

        async def search() -> None:
            await work(item.claim, request, await self._collection_of(item))
            self._outcomes.ended(item, outcome)

        await self._outcomes.guarded(item, search())
        return True

    async def _collection_of(self, item: LeasedItem) -> StoredCollection:
        collection = await self._collections.find(item.collection_id)
        if collection is None:
            raise ClaimLostError(item.claim)
        return collection
