"""Jobs: reading and watching."""

from collections.abc import Sequence
from datetime import datetime

from groundline_runtime.context import Caller
from groundline_runtime.errors import NotFoundError

from groundline_ingestor.domain import Item, Job, is_readable
from groundline_ingestor.ports import CollectionRepository, JobRepository
from groundline_ingestor.service.access import readable_collection
from groundline_ingestor.service.pages import Page

__all__ = ["JobService"]

MAX_WATCHED_ITEMS = 1000


class JobService:
    """Use cases of jobs; every method acts for `caller`, who sees jobs on collections it may read, and of
    their items not those whose document it may not read."""

    def __init__(self, collections: CollectionRepository, jobs: JobRepository) -> None:
        self._collections = collections
        self._jobs = jobs

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

    async def watch(self, caller: Caller, job_id: str) -> tuple[Job, Sequence[Item]]:
        """The job as it ended, with its failed items. Raises NotFoundError."""
        job = await self._readable(caller, job_id)
        failed = await self._jobs.items(
            job_id, caller.principals, after=-1, limit=MAX_WATCHED_ITEMS, only_failed=True
        )
        return job, failed

    async def _readable(self, caller: Caller, job_id: str) -> Job:
        job = await self._jobs.find(job_id)
        collection = await self._collections.find(job.collection_id) if job else None
        if job is None or collection is None or not is_readable(collection, caller.principals):
            raise NotFoundError("JOB_NOT_FOUND", f"no job {job_id}")
        return job
