"""Jobs: reading, watching, cancelling, retrying."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from typing import Final

from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, NotFoundError

from groundline_ingestor.domain import Item, Job, is_readable
from groundline_ingestor.ports import CollectionRepository, JobRepository
from groundline_ingestor.service.access import readable_collection, writable_collection
from groundline_ingestor.service.pages import Page

__all__ = ["JobService"]

MAX_WATCHED_ITEMS: Final = 1000
WATCH_SECONDS: Final = 0.5
# Longer than a transaction that changes an item takes from its change to its end, mostly; what is missed is
# shown when the item changes again or the job ends.
RECENT_SECONDS: Final = 30.0


class JobService:
    """Use cases of jobs; every method acts for `caller`, who sees jobs on collections it may read, and of
    their items not those whose document it may not read."""

    def __init__(
        self,
        collections: CollectionRepository,
        jobs: JobRepository,
        *,
        on_enqueued: Callable[[], None] = lambda: None,
    ) -> None:
        self._collections = collections
        self._jobs = jobs
        self._on_enqueued = on_enqueued

    async def get(self, caller: Caller, job_id: str, *, after: int, size: int) -> tuple[Job, Page[Item]]:
        """The job and its items above the index `after`. Raises NotFoundError."""
        job = await self._readable(caller, job_id)
        found = await self._jobs.items(job_id, caller.principals, after=after, limit=size + 1)
        return job, Page.of(found, size)

    async def list(
        self, caller: Caller, collection_id: str, *, before: tuple[datetime, str] | None, size: int
    ) -> Page[Job]:
        """Jobs, newest first, below `before` (create_time and id); of one collection where an id is given.

        Raises NotFoundError.
        """
        if collection_id:
            await readable_collection(self._collections, caller, collection_id)
        found = await self._jobs.list_readable(
            caller.principals, collection_id=collection_id or None, before=before, limit=size + 1
        )
        return Page.of(found, size)

    async def watch(self, caller: Caller, job_id: str) -> AsyncGenerator[tuple[Job, Sequence[Item]], None]:
        """The job with its failed items, then with the items that changed, until it has ended.

        Raises NotFoundError, also when it goes with its collection.
        """
        job = await self._readable(caller, job_id)
        failed = await self._jobs.items(
            job_id, caller.principals, after=-1, limit=MAX_WATCHED_ITEMS, only_failed=True
        )
        yield job, failed
        shown = {item.index: item for item in failed}
        while not job.has_ended:
            await asyncio.sleep(WATCH_SECONDS)
            earlier, job = job, await self._readable(caller, job_id)
            recent = await self._jobs.changed_items(
                job_id, caller.principals, within_seconds=RECENT_SECONDS, limit=MAX_WATCHED_ITEMS
            )
            changed = [item for item in recent if shown.get(item.index) != item]
            shown.update((item.index, item) for item in changed)
            if changed or job != earlier:
                yield job, changed

    async def cancel(self, caller: Caller, job_id: str) -> Job:
        """Cancel what has not ended. Raises NotFoundError, PermissionDeniedError."""
        await self._writable(caller, job_id)
        await self._jobs.cancel(job_id)
        return await self._readable(caller, job_id)

    async def retry(self, caller: Caller, job_id: str) -> Job:
        """Queue failed and cancelled items again.

        Raises NotFoundError, PermissionDeniedError, FailedPreconditionError (NOTHING_TO_RETRY).
        """
        await self._writable(caller, job_id)
        if not await self._jobs.retry(job_id):
            raise FailedPreconditionError(
                "NOTHING_TO_RETRY",
                "no document of the job failed or was cancelled whose content is still kept and that no "
                "later one replaced",
            )
        self._on_enqueued()
        return await self._readable(caller, job_id)

    async def _writable(self, caller: Caller, job_id: str) -> Job:
        job = await self._readable(caller, job_id)
        await writable_collection(self._collections, caller, job.collection_id)
        return job

    async def _readable(self, caller: Caller, job_id: str) -> Job:
        job = await self._jobs.find(job_id)
        collection = await self._collections.find(job.collection_id) if job else None
        if job is None or collection is None or not is_readable(collection, caller.principals):
            raise NotFoundError("JOB_NOT_FOUND", f"no job {job_id}")
        return job
