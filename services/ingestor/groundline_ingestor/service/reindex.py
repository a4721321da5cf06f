"""Indexing a collection again, beside the index in use."""

from collections.abc import Callable

import structlog
from groundline_embedding import Embedder
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

from groundline_ingestor.domain import CollectionChange, Job, settings_violations, with_changes
from groundline_ingestor.ports import CollectionRepository, JobRepository, ReindexRepository
from groundline_ingestor.service.access import writable_collection

__all__ = ["ReindexService"]

_log = structlog.get_logger(__name__)


class ReindexService:
    """Starts what workers then do."""

    def __init__(
        self,
        collections: CollectionRepository,
        jobs: JobRepository,
        reindex: ReindexRepository,
        embedder: Embedder,
        *,
        on_enqueued: Callable[[], None] = lambda: None,
    ) -> None:
        self._collections = collections
        self._jobs = jobs
        self._reindex = reindex
        self._embedder = embedder
        self._on_enqueued = on_enqueued

    async def begin(
        self, caller: Caller, collection_id: str, change: CollectionChange, request_id: str
    ) -> Job:
        """The job that builds the new index; the same `request_id` returns the job it made.

        Raises InvalidArgumentError, NotFoundError, PermissionDeniedError, FailedPreconditionError
        (EMBEDDING_MODEL_MISMATCH, REINDEX_RUNNING).
        """
        collection = await writable_collection(self._collections, caller, collection_id)
        settings = with_changes(collection.settings, change.settings)
        if violations := settings_violations(settings):
            raise InvalidArgumentError(violations)
        model = change.embedding_model or collection.partition.embedding_model
        if model != self._embedder.model:
            raise FailedPreconditionError(
                "EMBEDDING_MODEL_MISMATCH",
                f"the collection is to be embedded with {model!r}, but the running embedding model is "
                f"{self._embedder.model!r}",
            )
        language = change.language or collection.partition.language
        job_id = await self._reindex.begin(
            collection, settings, model, self._embedder.dimensions, language, request_id
        )
        job = await self._jobs.find(job_id)
        if job is None:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection_id!r}")
        _log.info("reindex_enqueued", job_id=job_id, collection_id=collection_id, documents=job.item_count)
        self._on_enqueued()
        return job
