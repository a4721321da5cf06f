"""Jobs: reading, watching, cancelling, retrying."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from typing import Final

from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2
from groundline_contracts.times import moment
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.paging import PageTokens, page_size

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.jobs import PostgresJobs
from groundline_ingestor.domain.jobs import has_ended
from groundline_ingestor.service.access import readable_collection, readable_job, writable_collection

MAX_WATCHED_ITEMS: Final = 1000
WATCH_SECONDS: Final = 0.5
# Longer than a transaction that changes an item mostly takes from its change to its end; a missed change is
# shown when the item changes again or the job ends.
RECENT_SECONDS: Final = 30.0

_EVENT_ID: Final = re.compile("[1-9][0-9]{12}")


class JobService:
    """Use cases of jobs; every method acts for `caller`, who sees jobs on collections it may read: all items
    of its own, and in others those whose document it may read."""

    def __init__(
        self,
        collections: PostgresCollections,
        jobs: PostgresJobs,
        page_tokens: PageTokens,
        *,
        on_enqueued: Callable[[], None] = lambda: None,
    ) -> None:
        self._collections = collections
        self._jobs = jobs
        self._page_tokens = page_tokens
        self._on_enqueued = on_enqueued

    async def get(self, caller: Caller, request: pb.GetJobRequest) -> pb.GetJobResponse:
        """Return the job and a page of its items. Raises InvalidArgumentError for a wrong token,
        NotFoundError."""
        [after] = self._page_tokens.key_in(request, caller) or (-1,)
        job = await self._readable(caller, request.job_id)
        limit = page_size(request) + 1
        found = await self._jobs.items(job.job_id, caller.principals, after=after, limit=limit)
        items, token = self._page_tokens.page_of(request, caller, found, lambda item: (item.item_index,))
        return pb.GetJobResponse(job=job, items=items, next_page_token=token)

    async def list(self, caller: Caller, request: pb.ListJobsRequest) -> pb.ListJobsResponse:
        """Return a page of jobs, newest first; of one collection if an id is given.

        Raises InvalidArgumentError for a wrong token, NotFoundError.
        """
        key = self._page_tokens.key_in(request, caller)
        if request.collection_id:
            await readable_collection(self._collections, caller, request.collection_id)
        found = await self._jobs.list_readable(
            caller.principals,
            collection_id=request.collection_id or None,
            before=key and _read(*key),
            limit=page_size(request) + 1,
        )
        jobs, token = self._page_tokens.page_of(request, caller, found, _page_key)
        return pb.ListJobsResponse(jobs=jobs, next_page_token=token)

    async def watch(
        self, caller: Caller, job_id: str, *, after: str = ""
    ) -> AsyncGenerator[pb.WatchJobResponse, None]:
        """Yield the job with its failed items, then with the items that changed, until it has ended.

        `after` is the id of the last state of an earlier stream: the first one then has the items that
        changed since. Raises NotFoundError, also when the job is deleted with its collection.
        """
        job = await self._readable(caller, job_id)
        away = _seconds_since(after)
        if away is None:
            first = await self._jobs.items(
                job_id, caller.principals, after=-1, limit=MAX_WATCHED_ITEMS, only_failed=True
            )
        else:
            first = await self._changed(caller, job_id, away)
        yield _state(job, first)
        shown = {item.item_index: item for item in first}
        while not has_ended(job):
            await asyncio.sleep(WATCH_SECONDS)
            earlier, job = job, await self._readable(caller, job_id)
            recent = await self._changed(caller, job_id, 0)
            changed = [item for item in recent if shown.get(item.item_index) != item]
            shown.update((item.item_index, item) for item in changed)
            if changed or job != earlier:
                yield _state(job, changed)

    async def _changed(self, caller: Caller, job_id: str, seconds: float) -> Sequence[job_pb2.IngestionItem]:
        """Return the items that changed in this many seconds, and a little before."""
        return await self._jobs.changed_items(
            job_id,
            caller.principals,
            within_seconds=seconds + RECENT_SECONDS,
            limit=MAX_WATCHED_ITEMS,
        )

    async def cancel(self, caller: Caller, job_id: str) -> job_pb2.IngestionJob:
        """Cancel the unfinished items. Raises NotFoundError, PermissionDeniedError."""
        await self._writable(caller, job_id)
        await self._jobs.cancel(job_id)
        return await self._readable(caller, job_id)

    async def retry(self, caller: Caller, job_id: str) -> job_pb2.IngestionJob:
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

    async def _writable(self, caller: Caller, job_id: str) -> job_pb2.IngestionJob:
        job = await self._readable(caller, job_id)
        await writable_collection(self._collections, caller, job.collection_id)
        return job

    async def _readable(self, caller: Caller, job_id: str) -> job_pb2.IngestionJob:
        return await readable_job(self._collections, self._jobs, caller, job_id)


def _state(job: job_pb2.IngestionJob, items: Sequence[job_pb2.IngestionItem]) -> pb.WatchJobResponse:
    """Return the state; its id is the time, in milliseconds."""
    return pb.WatchJobResponse(job=job, items=items, event_id=str(round(time.time() * 1000)))


def _seconds_since(event_id: str) -> float | None:
    """Return the seconds since a state; None for an invalid id."""
    if not _EVENT_ID.fullmatch(event_id):
        return None
    return max(0.0, time.time() - int(event_id) / 1000)


def _page_key(job: job_pb2.IngestionJob) -> tuple[str, str]:
    """Return the fields of a job that a page token holds."""
    return moment(job.create_time).isoformat(), job.job_id


def _read(create_time: str, job_id: str) -> tuple[datetime, str]:
    return datetime.fromisoformat(create_time), job_id
