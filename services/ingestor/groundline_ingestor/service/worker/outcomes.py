"""Outcomes of items: ended, failed, or postponed."""

import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline_extraction.documents import IngestionError
from groundline_extraction.spooling import is_disk_full
from groundline_indexing.documents import NOTHING_TO_READ
from groundline_runtime.context import queued_work
from groundline_runtime.errors import Code, GroundlineError, NotFoundError, UnavailableError, whereabouts
from groundline_runtime.reasons import reason_value
from opentelemetry import trace

from groundline_ingestor.adapters.postgres.queue import PostgresQueue
from groundline_ingestor.domain.work import ClaimLostError, LeasedItem
from groundline_ingestor.metrics import DOCUMENTS
from groundline_ingestor.ports import CollectorLostError
from groundline_ingestor.service.worker.leases import Leases

RETRY_SECONDS: Final = 2.0
"""Pause after the first transient failure, in seconds; it doubles with each."""
MAXIMUM_PAUSE_SECONDS: Final = 300.0
MAXIMUM_DOUBLINGS: Final = 10

_TRANSIENT: Final = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED, Code.ABORTED)

_log = structlog.get_logger(__name__)
_tracer = trace.get_tracer("groundline_ingestor")


class Outcomes:
    """Reporter of outcomes to the queue, the log and the metrics."""

    def __init__(
        self,
        queue: PostgresQueue,
        leases: Leases,
        *,
        maximum_attempts: int,
        on_postponed: Callable[[float], None],
    ) -> None:
        self._queue = queue
        self._leases = leases
        self._maximum_attempts = maximum_attempts
        self._on_postponed = on_postponed

    async def guarded[T](self, item: LeasedItem, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of work on one item; None when it raised, which is then handled here."""
        try:
            with queued_work(_tracer, "ingest_item", [item.traceparent], item=item.claim.item_index):
                return await work
        except Exception as error:
            reached = self._leases.reached(item.claim)
            await self.failed(item, reached.state, error, reached.chunks)
            return None

    def ended(self, item: LeasedItem, outcome: str) -> None:
        """Count an item that this process has finished."""
        self._leases.drop(item.claim)
        DOCUMENTS.add(1, {"outcome": outcome})
        _log.info("item_ended", job_id=item.claim.job_id, item=item.claim.item_index, outcome=outcome)

    async def failed(
        self,
        item: LeasedItem,
        stage: document_pb2.IngestionState.ValueType,
        error: Exception,
        counts: job_pb2.ChunkCounts,
    ) -> None:
        """End an item, or postpone it if a retry may help."""
        gone = isinstance(error, NotFoundError) and error.reason == "COLLECTION_NOT_FOUND"
        if gone or isinstance(error, ClaimLostError):
            self.ended(item, "lost")
            return
        failure = _failure_of(error, stage)
        is_blameless = _is_blameless(error)
        try:
            if is_blameless or (_is_transient(error) and item.attempts < self._maximum_attempts):
                pause = self._pause(item, error)
                await self._queue.postpone(item.claim, pause, failure, forgiven=is_blameless)
                self._on_postponed(pause)
                self.ended(item, "postponed")
            elif item.container_uri and failure.reason in NOTHING_TO_READ:
                await self._queue.skip(item.claim, failure)
                self.ended(item, "skipped")
            else:
                await self._queue.fail(item.claim, failure, counts)
                self.ended(item, "failed")
        except (ClaimLostError, UnavailableError):
            # Unavailable: the failure cannot be stored now; the lease runs out, and the item is begun again.
            self.ended(item, "lost")

    def _pause(self, item: LeasedItem, error: Exception) -> float:
        pause = RETRY_SECONDS * 2.0 ** min(item.attempts - 1, MAXIMUM_DOUBLINGS)
        asked: float | None = getattr(error, "retry_after_seconds", None)
        return min(max(pause, asked or 0.0), MAXIMUM_PAUSE_SECONDS)


def _is_blameless(error: Exception) -> bool:
    """Return whether the store, the collector or the disk is to blame, which any item would have met: it goes
    on when they do."""
    if isinstance(error, UnavailableError):
        return isinstance(error, CollectorLostError) or error.reason.startswith("DATABASE_")
    return is_disk_full(error)


def _is_transient(error: Exception) -> bool:
    return isinstance(error, OSError | TimeoutError) or (
        isinstance(error, GroundlineError) and error.code in _TRANSIENT
    )


def _failure_of(
    error: Exception, stage: document_pb2.IngestionState.ValueType
) -> document_pb2.IngestionFailure:
    """Return the failure of a document's item; for an unexpected error only where to look for it."""
    if isinstance(error, IngestionError):
        return error.failure
    if isinstance(error, GroundlineError):
        return document_pb2.IngestionFailure(
            stage=stage, reason=reason_value(error.reason), message=error.message
        )
    error_id = str(uuid.uuid4())
    _log.error(
        "document_failed",
        error_id=error_id,
        stage=document_pb2.IngestionState.Name(stage),
        **whereabouts(error),
    )
    return document_pb2.IngestionFailure(
        stage=stage,
        reason=error_pb2.INTERNAL,
        message=f"internal error {error_id}; the service's log holds its cause",
    )
