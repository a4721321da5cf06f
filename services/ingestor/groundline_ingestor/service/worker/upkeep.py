"""Periodic work of a process with workers: leases, progress, re-indexes, indexes, webhooks, cleaning."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog
from groundline_runtime.errors import UnavailableError
from groundline_runtime.metrics.declaring import is_measuring

from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.metrics import ITEMS, OLDEST_ITEM, WEBHOOK_LAG
from groundline_ingestor.service.worker.leases import Leases
from groundline_ingestor.settings import IngestorSettings

PROGRESS_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 1.0
STIRRED_SECONDS: Final = 10.0
"""Time after the last change of an item for which jobs and partitions are checked every SETTLE_SECONDS, in
seconds."""
IDLE_SECONDS: Final = 30.0
CLEANING_SECONDS: Final = 60.0
PRUNING_SECONDS: Final = 1800.0
CLEANED_ENTRIES: Final = 10_000
"""Maximum vectors, and contexts, that one cleaning drops."""

MEASURING_SECONDS: Final = 15.0
"""Time between two counts of the items that have not ended, in seconds; made only if metrics are read."""

_log = structlog.get_logger(__name__)


class Upkeep:
    """Runner of each piece of work at its own pace."""

    def __init__(
        self,
        stores: Stores,
        leases: Leases,
        tell_webhooks: Callable[[], Awaitable[None]],
        settings: IngestorSettings,
    ) -> None:
        self._stores = stores
        self._leases = leases
        self._tell_webhooks = tell_webhooks
        self._settings = settings
        self._stirred = asyncio.Event()
        self._stirred_until = 0.0
        self._measured: set[str] = {"queued"}

    def stir(self) -> None:
        """Report a change in the queue."""
        self._stirred_until = time.monotonic() + STIRRED_SECONDS
        self._stirred.set()

    async def run(self) -> None:
        """Repeat the work until cancelled; log failures and try again."""
        lease_part = self._settings.lease_seconds / 3
        async with asyncio.TaskGroup() as tasks:
            for work, pause in (
                (self._leases.show_progress, partial(asyncio.sleep, PROGRESS_SECONDS)),
                (self._leases.extend, partial(asyncio.sleep, lease_part)),
                (self._leases.expire, partial(self._until_stirred, lease_part)),
                (self._begin_runs, partial(self._until_stirred, IDLE_SECONDS)),
                (self._settle, partial(self._until_stirred, IDLE_SECONDS)),
                (self._stores.lexical_indexes.rebuild_due, partial(self._until_stirred, IDLE_SECONDS)),
                (self._stores.vector_indexes.build_due, partial(self._until_stirred, IDLE_SECONDS)),
                (self._tell_webhooks, partial(self._until_stirred, IDLE_SECONDS)),
                (self._clean, partial(asyncio.sleep, CLEANING_SECONDS)),
                (self._stores.past.tend, partial(asyncio.sleep, CLEANING_SECONDS)),
                (self._stores.revisions.prune, partial(asyncio.sleep, PRUNING_SECONDS)),
            ):
                tasks.create_task(_repeat(work, pause))
            if is_measuring():
                tasks.create_task(_repeat(self._measure, partial(asyncio.sleep, MEASURING_SECONDS)))

    async def _until_stirred(self, idle_seconds: float) -> None:
        """Wait a second while items have changed lately, else until one does, or until the time is up."""
        if time.monotonic() < self._stirred_until:
            await asyncio.sleep(min(SETTLE_SECONDS, idle_seconds))
            return
        self._stirred.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(idle_seconds):
                await self._stirred.wait()

    async def _begin_runs(self) -> None:
        for job_id in await self._stores.sources.enqueue_due():
            _log.info("source_run_begun", job_id=job_id)

    async def _settle(self) -> None:
        for job_id in await self._stores.reindex.settle(self._settings.reindex_grace_seconds):
            _log.info("reindex_ended", job_id=job_id)

    async def _measure(self) -> None:
        """Report the items that wait or are worked on, and what webhooks were not told yet; a state that has
        no items left is reported once more."""
        waiting, oldest = await self._stores.queue.waiting()
        OLDEST_ITEM.set(oldest)
        for state in self._measured | waiting.keys():
            ITEMS.set(waiting.get(state, 0), {"state": state})
        self._measured = set(waiting)
        WEBHOOK_LAG.set(await self._stores.webhooks.lag())

    async def _clean(self) -> None:
        await self._stores.queue.discard(self._settings.payload_days * 86400)
        cache_seconds = self._settings.embedding_cache_days * 86400
        await self._stores.embeddings.discard(cache_seconds, CLEANED_ENTRIES)
        await self._stores.contexts.discard(cache_seconds, CLEANED_ENTRIES)


async def _repeat(work: Callable[[], Awaitable[object]], pause: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await work()
        except UnavailableError as error:
            _log.warning("upkeep_failed", work=work.__name__, reason=error.reason)
        except Exception as error:
            _log.error("upkeep_failed", work=work.__name__, error=type(error).__qualname__)
        await pause()
