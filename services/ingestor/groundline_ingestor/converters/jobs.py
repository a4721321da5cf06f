"""Requests about jobs, and jobs and items as messages."""

from collections.abc import Sequence
from datetime import datetime

from groundline.v1 import chat_pb2, ingestor_service_pb2, job_pb2
from groundline_runtime.errors import Violations

from groundline_ingestor.converters.common import (
    check_collection_id,
    checked_uuid,
    page_size,
    page_token,
    read_page_token,
    timestamp,
)
from groundline_ingestor.converters.documents import failure_message, state_value
from groundline_ingestor.domain import ChunkCounts, Item, Job, Usage
from groundline_ingestor.service.pages import Page

__all__ = [
    "get_request",
    "get_response",
    "ingestion_response",
    "job_id_of",
    "job_message",
    "list_request",
    "list_response",
    "watch_response",
]

_LIST, _ITEMS = "jobs", "items"
_DEFAULT_PAGE_SIZE, _DEFAULT_ITEMS_SIZE = 50, 100


def get_request(request: ingestor_service_pb2.GetJobRequest) -> tuple[str, int, int]:
    """Job id, the index that the page of items begins after, and the page's size."""
    violations = Violations()
    job_id = checked_uuid(request.job_id, "job_id", violations)
    size = page_size(request.page_size, _DEFAULT_ITEMS_SIZE, violations)
    key = read_page_token(request.page_token, _ITEMS, (int,), violations)
    violations.raise_if_any()
    return job_id, key[0] if key else -1, size


def get_response(job: Job, page: Page[Item]) -> ingestor_service_pb2.GetJobResponse:
    return ingestor_service_pb2.GetJobResponse(
        job=job_message(job),
        items=map(_item, page.entries),
        next_page_token=page_token(_ITEMS, page.entries[-1].index) if page.more else "",
    )


def list_request(
    request: ingestor_service_pb2.ListJobsRequest,
) -> tuple[str, tuple[datetime, str] | None, int]:
    """Collection id or nothing, the job (by create_time and id) that the page begins after, and its size."""
    violations = Violations()
    if request.collection_id:
        check_collection_id(request.collection_id, violations)
    size = page_size(request.page_size, _DEFAULT_PAGE_SIZE, violations)
    before = None
    if key := read_page_token(request.page_token, _LIST, (str, str), violations):
        try:
            moment = datetime.fromisoformat(key[0])
        except ValueError:
            violations.add("page_token", "is not a token that this list returned")
        else:
            before = (moment, checked_uuid(key[1], "page_token", violations))
    violations.raise_if_any()
    return request.collection_id, before, size


def list_response(page: Page[Job]) -> ingestor_service_pb2.ListJobsResponse:
    last = page.entries[-1] if page.more else None
    return ingestor_service_pb2.ListJobsResponse(
        jobs=map(job_message, page.entries),
        next_page_token=page_token(_LIST, last.create_time.isoformat(), last.job_id) if last else "",
    )


def job_id_of(
    request: ingestor_service_pb2.WatchJobRequest
    | ingestor_service_pb2.CancelJobRequest
    | ingestor_service_pb2.RetryJobRequest,
) -> str:
    violations = Violations()
    job_id = checked_uuid(request.job_id, "job_id", violations)
    violations.raise_if_any()
    return job_id


def watch_response(job: Job, items: Sequence[Item]) -> ingestor_service_pb2.WatchJobResponse:
    return ingestor_service_pb2.WatchJobResponse(job=job_message(job), items=map(_item, items))


def ingestion_response(job: Job, items: Sequence[Item]) -> ingestor_service_pb2.IngestDocumentsResponse:
    return ingestor_service_pb2.IngestDocumentsResponse(job=job_message(job), items=map(_item, items))


def upload_response(job: Job, item: Item) -> ingestor_service_pb2.UploadDocumentResponse:
    return ingestor_service_pb2.UploadDocumentResponse(job=job_message(job), item=_item(item))


def job_message(job: Job) -> job_pb2.IngestionJob:
    return job_pb2.IngestionJob(
        job_id=job.job_id,
        collection_id=job.collection_id,
        state=job_pb2.JobState.Value(f"JOB_STATE_{job.state.upper()}"),
        item_count=job.item_count,
        done_count=job.done_count,
        unchanged_count=job.unchanged_count,
        failed_count=job.failed_count,
        cancelled_count=job.cancelled_count,
        chunks=_counts(job.chunks),
        usage=_usage(job.usage),
        create_time=timestamp(job.create_time),
        start_time=timestamp(job.start_time),
        end_time=timestamp(job.end_time),
    )


def _item(item: Item) -> job_pb2.IngestionItem:
    outcome = item.outcome.upper() if item.outcome else "UNSPECIFIED"
    return job_pb2.IngestionItem(
        document_id=item.document_id or "",
        uri=item.uri,
        state=state_value(item.state),
        outcome=job_pb2.IngestionOutcome.Value(f"INGESTION_OUTCOME_{outcome}"),
        failure=failure_message(item.failure),
        attempts=item.attempts,
        chunks=_counts(item.chunks),
        usage=_usage(item.usage),
        is_crawl=item.is_crawl,
    )


def _counts(counts: ChunkCounts) -> job_pb2.ChunkCounts:
    return job_pb2.ChunkCounts(
        parsed=counts.parsed,
        contextualized=counts.contextualized,
        embedded=counts.embedded,
        stored=counts.stored,
    )


def _usage(usage: Usage) -> chat_pb2.Usage | None:
    if usage == Usage():
        return None
    return chat_pb2.Usage(
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
    )
