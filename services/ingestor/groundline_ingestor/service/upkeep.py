"""What a process with workers does beside its items: leases, progress, re-indexes, indexes, cleaning."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from groundline_runtime.errors import UnavailableError

from groundline_ingestor.ports import EmbeddingCache, ReindexRepository, VectorIndexes, WorkQueue
from groundline_ingestor.service.contextualization import Contextualization
from groundline_ingestor.service.leases import Leases
from groundline_ingestor.service.options import WorkerOptions

__all__ = ["Upkeep"]

PROGRESS_SECONDS: Final = 0.25
EXPIRY_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 1.0
CLEANING_SECONDS: Final = 60.0
CLEANED_VECTORS: Final = 10_000

_log = structlog.get_logger(__name__)


class Upkeep:
    """Repeats each piece of work at its own pace."""

    def __init__(
        self,
        leases: Leases,
        queue: WorkQueue,
        reindex: ReindexRepository,
        vector_indexes: VectorIndexes,
        cache: EmbeddingCache,
        contextualization: Contextualization,
        options: WorkerOptions,
    ) -> None:
        self._leases = leases
        self._queue = queue
        self._reindex = reindex
        self._vector_indexes = vector_indexes
        self._cache = cache
        self._contextualization = contextualization
        self._options = options

    async def run(self) -> None:
        """Until cancelled; a failure is logged, and the work comes again."""
        async with asyncio.TaskGroup() as tasks:
            for seconds, work in (
                (PROGRESS_SECONDS, self._leases.show_progress),
                (self._options.lease_seconds / 3, self._leases.extend),
                (EXPIRY_SECONDS, self._leases.expire),
                (SETTLE_SECONDS, self._settle),
                (SETTLE_SECONDS, self._build_indexes),
                (CLEANING_SECONDS, self._clean),
            ):
                tasks.create_task(_repeat(seconds, work))

    async def _settle(self) -> None:
        for job_id in await self._reindex.settle(self._options.reindex_grace_seconds):
            _log.info("reindex_ended", job_id=job_id)

    async def _build_indexes(self) -> None:
        await self._vector_indexes.build_due()

    async def _clean(self) -> None:
        await self._queue.discard(self._options.payload_seconds)
        await self._cache.discard(self._options.cache_seconds, CLEANED_VECTORS)
        await self._contextualization.discard(self._options.cache_seconds)


async def _repeat(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        begun = time.monotonic()
        try:
            await work()
        except UnavailableError as error:
            _log.warning("upkeep_failed", work=work.__name__, reason=error.reason)
        except Exception as error:
            _log.error("upkeep_failed", work=work.__name__, error=type(error).__qualname__)
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - begun)))
