"""Re-indexing of a collection, beside the index in use, and return to the one before."""

from collections.abc import Callable
from typing import Final

import structlog
from groundline.v1 import collection_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedders
from groundline_indexing.collections import mismatch
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, FieldViolation, InvalidArgumentError
from groundline_validation import violations_of

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.jobs import PostgresJobs
from groundline_ingestor.adapters.postgres.kept_indexes import PostgresKeptIndexes
from groundline_ingestor.adapters.postgres.reindex import PostgresReindex
from groundline_ingestor.domain.settings import changed
from groundline_ingestor.service.access import (
    administrable_collection,
    collection_not_found,
    readable_job,
)

_INDEX_SETTINGS: Final = ("chunking", "contextualization", "embedding", "lexical")

_log = structlog.get_logger(__name__)


class ReindexService:
    """Use cases that start re-indexes, which workers then do, and that decide about their indexes."""

    def __init__(
        self,
        collections: PostgresCollections,
        jobs: PostgresJobs,
        reindex: PostgresReindex,
        kept: PostgresKeptIndexes,
        embedders: Embedders,
        *,
        grace_seconds: float,
        on_enqueued: Callable[[], None] = lambda: None,
    ) -> None:
        self._collections = collections
        self._jobs = jobs
        self._reindex = reindex
        self._kept = kept
        self._embedders = embedders
        self._grace_seconds = grace_seconds
        self._on_enqueued = on_enqueued

    async def begin(self, caller: Caller, request: pb.ReindexCollectionRequest) -> job_pb2.IngestionJob:
        """Return the job that builds the new index; the caller's same `request_id` returns the job it made.

        Raises InvalidArgumentError, NotFoundError, PermissionDeniedError, FailedPreconditionError
        (EMBEDDING_MODEL_MISMATCH, REINDEX_RUNNING).
        """
        _require_index_settings(request.settings)
        collection = await administrable_collection(self._collections, caller, request.collection_id)
        after = changed(collection.message, pb.UpdateCollectionRequest(settings=request.settings)).settings
        violations_of(after, "settings").raise_if_any()
        embedder = self._embedders.of(after.embedding.model)
        if embedder is None:
            raise mismatch(
                f"the collection is to be embedded with {after.embedding.model!r}", self._embedders
            )
        after.embedding.dimensions = embedder.dimensions
        job_id = await self._reindex.begin(
            collection,
            after,
            caller.own_request_id(request.request_id),
            holds_index=request.hold,
            keeps_previous=request.keep_previous,
        )
        return await self._enqueued(caller, job_id, request.collection_id)

    async def revert(self, caller: Caller, request: pb.RevertIndexRequest) -> job_pb2.IngestionJob:
        """Return the job that puts the previous index back into use; the caller's same `request_id` returns
        the job it made.

        Raises NotFoundError, PermissionDeniedError, FailedPreconditionError (INDEX_NOT_FOUND,
        EMBEDDING_MODEL_MISMATCH, REINDEX_RUNNING).
        """
        collection = await administrable_collection(self._collections, caller, request.collection_id)
        before = await self._kept.previous(request.collection_id)
        if before is not None and self._embedders.of(before.embedding.model) is None:
            raise mismatch(
                f"the previous index was embedded with {before.embedding.model!r}", self._embedders
            )
        job_id = await self._kept.revert(collection, caller.own_request_id(request.request_id))
        return await self._enqueued(caller, job_id, request.collection_id)

    async def reclaim(self, caller: Caller, collection_id: str) -> bool:
        """Give the previous index up; tell whether there was one.

        Raises NotFoundError, PermissionDeniedError, FailedPreconditionError (REINDEX_RUNNING).
        """
        await administrable_collection(self._collections, caller, collection_id)
        return await self._kept.reclaim(collection_id, self._grace_seconds)

    async def swap(self, caller: Caller, job_id: str) -> job_pb2.IngestionJob:
        """Let a job put the index into use that it holds back; return the job.

        Raises NotFoundError, PermissionDeniedError, FailedPreconditionError (NO_REINDEX).
        """
        job = await readable_job(self._collections, self._jobs, caller, job_id)
        await administrable_collection(self._collections, caller, job.collection_id)
        if not await self._kept.release(job_id):
            raise FailedPreconditionError(
                "NO_REINDEX", "the job does not build an index, or it failed or was cancelled"
            )
        self._on_enqueued()
        return await readable_job(self._collections, self._jobs, caller, job_id)

    async def _enqueued(self, caller: Caller, job_id: str, collection_id: str) -> job_pb2.IngestionJob:
        job = await self._jobs.find(job_id, caller.principals)
        if job is None:
            raise collection_not_found(collection_id)
        _log.info("reindex_enqueued", job_id=job_id, collection_id=collection_id, documents=job.item_count)
        self._on_enqueued()
        return job


def _require_index_settings(settings: collection_pb2.CollectionSettings) -> None:
    others = [field.name for field, _ in settings.ListFields() if field.name not in _INDEX_SETTINGS]
    if others:
        raise InvalidArgumentError(
            FieldViolation(f"settings.{name}", "is changed by UpdateCollection: the index is not built by it")
            for name in others
        )
