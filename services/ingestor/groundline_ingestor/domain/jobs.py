"""State machines of jobs: transitions of items, the state of a job by its items, the next step of a re-index.

Pure functions; stores lock what they read, apply one of these, and write its result.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from groundline.v1 import chat_pb2, document_pb2, error_pb2, job_pb2
from groundline_contracts.times import timestamp
from groundline_runtime.charges import total

ENDED: Final = frozenset(
    {
        document_pb2.INGESTION_STATE_DONE,
        document_pb2.INGESTION_STATE_FAILED,
        document_pb2.INGESTION_STATE_CANCELLED,
    }
)


class JobKind(enum.StrEnum):
    INGEST = "ingest"
    REINDEX = "reindex"


# --- items ---


@dataclass(frozen=True, slots=True)
class ItemState:
    """Properties of an item that decide its transitions, and those that are shown."""

    state: document_pb2.IngestionState.ValueType = document_pb2.INGESTION_STATE_QUEUED
    lease_id: str = ""
    """Lease of the worker that has it; "" for nobody."""
    is_alone: bool = False
    """Whether its worker began nothing beside it."""
    is_suspect: bool = False
    """Whether a worker was lost that had it, so that it is worked on beside other suspects only."""
    attempts: int = 0
    forgiven_attempts: int = 0
    """Attempts that do not count against the maximum."""
    outcome: job_pb2.IngestionOutcome.ValueType = job_pb2.INGESTION_OUTCOME_UNSPECIFIED
    failure: document_pb2.IngestionFailure | None = None
    chunks: job_pb2.ChunkCounts = field(default_factory=job_pb2.ChunkCounts)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def counted_attempts(self) -> int:
        """Attempts that count against the maximum."""
        return self.attempts - self.forgiven_attempts


def begin(item: ItemState, lease_id: str, *, alone: bool) -> ItemState:
    """Give a queued item to a worker."""
    return replace(
        item,
        state=document_pb2.INGESTION_STATE_EXTRACTING,
        lease_id=lease_id,
        is_alone=alone,
        attempts=item.attempts + 1,
        chunks=job_pb2.ChunkCounts(),
    )


def move(
    item: ItemState, stage: document_pb2.IngestionState.ValueType, chunks: job_pb2.ChunkCounts
) -> ItemState:
    """Advance an item to a stage."""
    return replace(item, state=stage, chunks=chunks)


def finish(item: ItemState, outcome: job_pb2.IngestionOutcome.ValueType, chunk_count: int) -> ItemState:
    """Mark the item done; its chunks, if it has new ones, are stored."""
    return replace(
        _ended(item, document_pb2.INGESTION_STATE_DONE),
        outcome=outcome,
        failure=None,
        chunks=job_pb2.ChunkCounts(
            parsed=chunk_count, contextualized=chunk_count, embedded=chunk_count, stored=chunk_count
        ),
    )


def fail(item: ItemState, failure: document_pb2.IngestionFailure, chunks: job_pb2.ChunkCounts) -> ItemState:
    """Mark the item failed."""
    return replace(_ended(item, document_pb2.INGESTION_STATE_FAILED), failure=failure, chunks=chunks)


def skip(item: ItemState, failure: document_pb2.IngestionFailure) -> ItemState:
    """Skip the item of a file within a document that has nothing to read."""
    return replace(
        finish(item, job_pb2.INGESTION_OUTCOME_SKIPPED, 0),
        failure=failure,
    )


def postpone(item: ItemState, failure: document_pb2.IngestionFailure, *, forgiven: bool) -> ItemState:
    """Return the item to the queue, since a retry may help; `forgiven` if it is not to blame."""
    return replace(_queued(item), failure=failure, forgiven_attempts=item.forgiven_attempts + forgiven)


def release(item: ItemState) -> ItemState:
    """Return the item to the queue as if it had not been begun: its worker ends in order."""
    return replace(_queued(item), attempts=item.attempts - 1)


def lose(item: ItemState, maximum_attempts: int) -> ItemState:
    """Take the item from a lost worker. If the worker had several items, nobody knows which one is at fault:
    each becomes a suspect, and only one that was worked on alone is charged."""
    forgiven = item.forgiven_attempts + (0 if item.is_alone else 1)
    suspect = replace(item, is_suspect=True, forgiven_attempts=forgiven)
    if suspect.counted_attempts < maximum_attempts:
        return _queued(suspect)
    failure = document_pb2.IngestionFailure(
        stage=item.state,
        reason=error_pb2.ATTEMPTS_EXHAUSTED,
        message=f"its worker was lost {suspect.counted_attempts} times while it was tried alone",
    )
    return replace(_ended(suspect, document_pb2.INGESTION_STATE_FAILED), failure=failure)


def cancel(item: ItemState) -> ItemState:
    """Cancel the item; one that has ended stays as it is."""
    return item if item.has_ended else _ended(item, document_pb2.INGESTION_STATE_CANCELLED)


def retry(item: ItemState) -> ItemState:
    """Queue an ended item again on a person's request; earlier attempts are forgiven."""
    return replace(
        _queued(item),
        outcome=job_pb2.INGESTION_OUTCOME_UNSPECIFIED,
        failure=None,
        forgiven_attempts=item.attempts,
        chunks=job_pb2.ChunkCounts(),
    )


def _queued(item: ItemState) -> ItemState:
    return replace(item, state=document_pb2.INGESTION_STATE_QUEUED, lease_id="", is_alone=False)


def _ended(item: ItemState, state: document_pb2.IngestionState.ValueType) -> ItemState:
    return replace(item, state=state, lease_id="", is_alone=False)


# --- jobs ---


@dataclass(frozen=True, slots=True)
class Tally:
    """Number of a job's items that are alike in the properties that decide the job's state, and who may see
    them."""

    state: document_pb2.IngestionState.ValueType
    count: int = 1
    is_crawl: bool = False
    is_begun: bool = False
    is_unchanged: bool = False
    is_skipped: bool = False
    is_visible: bool = True
    """Whether the caller may see them. Invisible ones are not counted, but the job's state and times are the
    same for all."""
    chunks: job_pb2.ChunkCounts = field(default_factory=job_pb2.ChunkCounts)
    usage: chat_pb2.Usage = field(default_factory=chat_pb2.Usage)
    start_time: datetime | None = None
    """Time when the first of them was begun."""
    end_time: datetime | None = None
    """Time when the last of them ended."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """Stored part of a job. State and end of an ingestion follow from its items, so that no two workers
    contend for its row; those of a re-index are stored, since its items may be added to."""

    job_id: str
    collection_id: str
    kind: JobKind
    create_time: datetime
    is_cancelled: bool = False
    state: job_pb2.JobState.ValueType = job_pb2.JOB_STATE_QUEUED
    end_time: datetime | None = None
    position: str = ""
    """Position of the database when this was read."""
    deleted_count: int = 0
    """Number of documents that the run of a source deleted."""
    is_dry_run: bool = False
    is_held: bool = False
    """Whether its index is complete and held back."""


def summarize(job: StoredJob, tallies: Sequence[Tally]) -> job_pb2.IngestionJob:
    """Return the job as it is shown."""
    # A crawl is not a document, but one that failed or was cancelled must be seen.
    visible = [one for one in tallies if one.is_visible]
    items = [one for one in visible if not one.is_crawl or one.state in _LOST]
    pending = count(one for one in tallies if one.state not in ENDED)
    end_time = job.end_time
    if job.kind is JobKind.INGEST:
        ends = [one.end_time for one in tallies if one.end_time]
        end_time = None if pending else max(ends, default=job.end_time)
    starts = [one.start_time for one in tallies if one.start_time]
    usage = total((one.usage for one in visible), stored=True)
    return job_pb2.IngestionJob(
        job_id=job.job_id,
        collection_id=job.collection_id,
        state=_job_state(job, tallies, pending),
        item_count=count(items),
        done_count=count(one for one in items if one.state == document_pb2.INGESTION_STATE_DONE),
        unchanged_count=count(one for one in items if one.is_unchanged),
        skipped_count=count(one for one in items if one.is_skipped),
        failed_count=count(one for one in items if one.state == document_pb2.INGESTION_STATE_FAILED),
        cancelled_count=count(one for one in items if one.state == document_pb2.INGESTION_STATE_CANCELLED),
        chunks=plus(one.chunks for one in visible),
        usage=usage if usage.ByteSize() else None,
        create_time=timestamp(job.create_time),
        start_time=timestamp(min(starts, default=None)),
        end_time=timestamp(end_time),
        # Until then more items follow.
        position=job.position if end_time else "",
        deleted_count=job.deleted_count,
        is_dry_run=job.is_dry_run,
        is_held=job.is_held,
    )


def has_ended(job: job_pb2.IngestionJob) -> bool:
    """Tell whether the job will not change any more by itself."""
    return job.state in (job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED)


def _job_state(job: StoredJob, tallies: Sequence[Tally], pending: int) -> job_pb2.JobState.ValueType:
    is_reindex = job.kind is JobKind.REINDEX
    if is_reindex and job.end_time is not None:
        return job.state
    if is_reindex or pending:
        begun = any(one.is_begun for one in tallies)
        return job_pb2.JOB_STATE_RUNNING if begun else job_pb2.JOB_STATE_QUEUED
    states = {one.state for one in tallies if not one.is_crawl or one.state in _LOST}
    if job.is_cancelled and document_pb2.INGESTION_STATE_CANCELLED in states:
        return job_pb2.JOB_STATE_CANCELLED
    if not states or document_pb2.INGESTION_STATE_DONE in states:
        return job_pb2.JOB_STATE_DONE
    if document_pb2.INGESTION_STATE_FAILED in states:
        return job_pb2.JOB_STATE_FAILED
    return job_pb2.JOB_STATE_CANCELLED


_LOST: Final = (document_pb2.INGESTION_STATE_FAILED, document_pb2.INGESTION_STATE_CANCELLED)


def count(tallies: Iterable[Tally]) -> int:
    """Count the items in them."""
    return sum(one.count for one in tallies)


def plus(parts: Iterable[job_pb2.ChunkCounts]) -> job_pb2.ChunkCounts:
    """Add up number by number."""
    sums = job_pb2.ChunkCounts()
    for part in parts:
        for number, value in part.ListFields():
            setattr(sums, number.name, getattr(sums, number.name) + value)
    return sums


# --- re-indexing ---


class ReindexStep(enum.Enum):
    """Next step of a re-index."""

    WAIT = enum.auto()
    """Wait: its items or the vector index of its partition are still being worked on."""
    COMPARE = enum.auto()
    """Hold the collection's writers, and count the documents that changed since they were written."""
    QUEUE_CHANGED = enum.auto()
    """Queue these documents; others of the collection wait meanwhile."""
    HOLD = enum.auto()
    """Offer its partition, which is complete, to searches that ask for it, and wait to be told."""
    SWAP = enum.auto()
    """Put its partition in the place of the one in use."""
    FAIL = enum.auto()


def next_reindex_step(
    *, pending: int, failed: int, is_index_due: bool, is_held: bool, changed: int | None
) -> ReindexStep:
    """Return the next step by the numbers of unfinished and failed items, and whether its index is to be held
    back; `changed` is None until it was compared."""
    if pending:
        return ReindexStep.WAIT
    if failed:
        return ReindexStep.FAIL
    if is_index_due:
        return ReindexStep.WAIT
    if is_held:
        return ReindexStep.HOLD
    if changed is None:
        return ReindexStep.COMPARE
    return ReindexStep.QUEUE_CHANGED if changed else ReindexStep.SWAP
