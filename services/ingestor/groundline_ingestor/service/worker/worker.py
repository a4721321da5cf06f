"""Worker of one process."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import structlog
from groundline_indexing.collections import StoredCollection
from groundline_runtime.errors import UnavailableError, whereabouts
from groundline_runtime.waking import Waking

from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.sources import OrderedRun
from groundline_ingestor.domain.work import ClaimLostError, ItemClaim, LeasedItem
from groundline_ingestor.service.collecting.crawls import Crawling
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.worker.embedding import GROUP_CHUNKS
from groundline_ingestor.service.worker.items import HELD_PER_CLIENT, ITEMS_PER_CLIENT, ItemWork
from groundline_ingestor.service.worker.leases import Leases, Searched, Shares
from groundline_ingestor.service.worker.outcomes import Outcomes
from groundline_ingestor.service.worker.pipeline import Pipeline
from groundline_ingestor.service.worker.stages import Stages
from groundline_ingestor.service.worker.upkeep import Upkeep
from groundline_ingestor.settings import IngestorSettings

RESTART_SECONDS: Final = 1.0

SEARCH_SECONDS: Final = 0.25
"""Minimum time between two looks for crawls and runs, in seconds: every transaction that ends documents wakes
those who wait."""

POLL_SECONDS: Final = 10.0
"""Time between two looks for work without a notification, in seconds, such as the items of a lost worker."""

_log = structlog.get_logger(__name__)


class Worker:
    """Worker on documents, crawls and runs of sources, with the upkeep that they need."""

    def __init__(
        self,
        stores: Stores,
        stages: Stages,
        quotas: Quotas,
        settings: IngestorSettings,
        *,
        crawling: Crawling,
        run_source: Callable[[ItemClaim, OrderedRun, StoredCollection], Awaitable[None]],
        tell_webhooks: Callable[[], Awaitable[None]],
    ) -> None:
        self._stores = stores
        self._crawling = crawling
        self._run_source = run_source
        self._settings = settings
        self._waking = Waking()
        self._leases = Leases(
            stores.queue,
            models=stages.embedder.embedders.models,
            lease_seconds=settings.lease_seconds,
            maximum_attempts=settings.max_attempts,
            shares=Shares(
                prepared=max(1, settings.workers) * ITEMS_PER_CLIENT,
                ready_chunks=max(1, settings.workers) * GROUP_CHUNKS,
                held=max(1, settings.workers) * HELD_PER_CLIENT,
                searches=settings.crawls,
            ),
            on_free=self.wake,
        )
        self._outcomes = Outcomes(
            stores.queue,
            self._leases,
            maximum_attempts=settings.max_attempts,
            on_postponed=self._waking.wake_after,
        )
        items = ItemWork(stores, stages, quotas, self._leases, self._outcomes, settings)
        self._pipeline = Pipeline(
            stores.collections, items, self._leases, self._outcomes, self._waking, settings
        )
        self._upkeep = Upkeep(stores, self._leases, tell_webhooks, settings)

    def wake(self) -> None:
        """Look for work now."""
        self._waking.wake()
        self._upkeep.stir()

    async def run(self) -> None:
        """Work until cancelled; leased items then go back to the queue.

        An unexpected error is logged, and work begins again: a process that lives but does nothing would hide
        it. Returns at once without workers.
        """
        while self._settings.workers:
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
                tasks.create_task(self._poll())
                if self._settings.crawls:
                    tasks.create_task(self._search())
        finally:
            await self._leases.release()

    async def _poll(self) -> None:
        """Wake all who look for work if there is some; each look of theirs would be several statements."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                is_some = await self._stores.queue.has_waiting()
            except UnavailableError:
                is_some = True  # they report it
            if is_some:
                self._waking.wake()

    async def _search(self) -> None:
        """Do crawls and runs of sources, as many at a time as there are places."""
        places = asyncio.Semaphore(self._settings.crawls)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await places.acquire()
                seen = self._waking.calls
                search = await self._next_search(
                    self._stores.crawls, self._crawling.crawl, "crawled"
                ) or await self._next_search(self._stores.sources, self._run_source, "read")
                if search is not None:
                    tasks.create_task(search).add_done_callback(lambda _: places.release())
                    continue
                places.release()
                await asyncio.sleep(SEARCH_SECONDS)
                await self._waking.wait(seen)

    async def _next_search[Request](
        self,
        searched: Searched[Request],
        work: Callable[[ItemClaim, Request, StoredCollection], Awaitable[None]],
        outcome: str,
    ) -> Coroutine[Any, Any, None] | None:
        """Return the work on the crawl or run that is next, or None."""
        leased = await self._leases.lease_search(searched)
        if leased is None:
            return None
        item, request = leased

        async def search() -> None:
            await self._stores.queue.join_trace(item)
            await work(item.claim, request, await self._collection_of(item))
            self._outcomes.ended(item, outcome)

        return self._outcomes.guarded(item, search())

    async def _collection_of(self, item: LeasedItem) -> StoredCollection:
        collection = await self._stores.collections.find(item.collection_id)
        if collection is None:
            raise ClaimLostError(item.claim)
        return collection
