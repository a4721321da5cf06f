"""Sources: creating, reading, changing, running and deleting them."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2, source_pb2
from groundline_indexing.collections import StoredCollection
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    AbortedError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
)
from groundline_runtime.paging import PageTokens, page_size
from groundline_validation import violations_of

from groundline_ingestor.adapters.postgres.collecting.sources import PostgresSources
from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.jobs import PostgresJobs
from groundline_ingestor.domain.sources import (
    StoredSource,
    as_planned,
    changed,
    etag_of,
    reads_the_same,
    wrong_paths,
)
from groundline_ingestor.ports import Collector
from groundline_ingestor.service.access import administrable_collection
from groundline_ingestor.service.quotas import Quotas

_log = structlog.get_logger(__name__)


class SourceService:
    """Use cases of sources; every method acts for `caller`, who has to administer the collection.

    Each raises NotFoundError and PermissionDeniedError.
    """

    def __init__(
        self,
        collections: PostgresCollections,
        jobs: PostgresJobs,
        sources: PostgresSources,
        collector: Collector,
        quotas: Quotas,
        page_tokens: PageTokens,
        *,
        on_enqueued: Callable[[], None] = lambda: None,
    ) -> None:
        self._collections = collections
        self._jobs = jobs
        self._sources = sources
        self._collector = collector
        self._quotas = quotas
        self._page_tokens = page_tokens
        self._on_enqueued = on_enqueued

    async def create(self, caller: Caller, request: pb.CreateSourceRequest) -> source_pb2.DocumentSource:
        """Store a source, which is due at once. A dry run returns it as it would be.

        Raises AlreadyExistsError, FailedPreconditionError (SOURCE_NOT_AVAILABLE), ResourceExhaustedError
        (QUOTA_EXHAUSTED).
        """
        await administrable_collection(self._collections, caller, request.collection_id)
        source = source_pb2.DocumentSource()
        source.CopyFrom(request.source)
        source.source_id, source.collection_id = str(uuid.uuid4()), request.collection_id
        await self._collector.require_available(source)
        await self._quotas.require_source(request.collection_id)
        if request.dry_run:
            await self._sources.require_free_name(source)
            return as_planned(source)
        await self._sources.create(source, caller.principals)
        _log.info(
            "source_created",
            source_id=source.source_id,
            collection_id=source.collection_id,
            kind=source.WhichOneof("kind"),
            caller=caller.owner,
        )
        self._on_enqueued()
        return await self._found(caller, request.collection_id, source.source_id)

    async def get(self, caller: Caller, collection_id: str, source_id: str) -> source_pb2.DocumentSource:
        """Return the source with its last run."""
        await administrable_collection(self._collections, caller, collection_id)
        return await self._found(caller, collection_id, source_id)

    async def list(self, caller: Caller, request: pb.ListSourcesRequest) -> pb.ListSourcesResponse:
        """Return a page of sources, by name. Raises InvalidArgumentError for a wrong token."""
        [after] = self._page_tokens.key_in(request, caller) or ("",)
        await administrable_collection(self._collections, caller, request.collection_id)
        limit = page_size(request) + 1
        found = await self._sources.list_sources(request.collection_id, after=after, limit=limit)
        page, token = self._page_tokens.page_of(request, caller, found, lambda one: (one.message.name,))
        return pb.ListSourcesResponse(sources=await self._shown(caller, page), next_page_token=token)

    async def update(self, caller: Caller, request: pb.UpdateSourceRequest) -> source_pb2.DocumentSource:
        """Change a source. A dry run returns it as it would be.

        Raises InvalidArgumentError, AlreadyExistsError, FailedPreconditionError (SOURCE_NOT_AVAILABLE),
        AbortedError (somebody else changed it in between, or since it had the etag of the request).
        """
        if wrong := wrong_paths(request.update_mask):
            raise InvalidArgumentError(
                FieldViolation("update_mask", f"{path[:100]!r} is not a field that can be changed")
                for path in wrong
            )
        _, before = await self._administrable(caller, request.collection_id, request.source_id)
        if request.etag and request.etag != etag_of(before.message):
            raise _changed_meanwhile()
        after = changed(before.message, request)
        # The request is valid by itself; together with the stored source it may not be.
        violations_of(after).raise_if_any()
        try:
            await self._collector.require_available(after)
        except InvalidArgumentError as error:
            # The fields of a source are those of this request.
            raise InvalidArgumentError(
                replace(one, field=one.field.removeprefix("source.")) for one in error.violations
            ) from None
        if request.dry_run:
            await self._sources.require_free_name(after)
            after.etag = etag_of(after)
            return after
        is_same = reads_the_same(before.message, after)
        if not await self._sources.update(before, after, None if is_same else caller.principals):
            await self._find(request.collection_id, request.source_id)
            raise _changed_meanwhile()
        _log.info(
            "source_updated",
            source_id=request.source_id,
            collection_id=request.collection_id,
            reads_anew=not is_same,
            caller=caller.owner,
        )
        self._on_enqueued()
        return await self._found(caller, request.collection_id, request.source_id)

    async def run(self, caller: Caller, request: pb.RunSourceRequest) -> job_pb2.IngestionJob:
        """Return the job of a run, which is the unfinished one, if there is one. Raises
        ResourceExhaustedError (QUOTA_EXHAUSTED)."""
        _, source = await self._administrable(caller, request.collection_id, request.source_id)
        await self._quotas.require_job(caller)
        if request.dry_run:
            job_id = await self._sources.enqueue_dry_run(source)
        else:
            job_id = await self._sources.enqueue(source, full=request.full)
        _log.info(
            "source_run",
            source_id=request.source_id,
            job_id=job_id,
            caller=caller.owner,
            is_dry_run=request.dry_run,
        )
        self._on_enqueued()
        job = await self._jobs.find(job_id, caller.principals)
        if job is None:
            raise _not_found(request.source_id)
        return job

    async def delete(self, caller: Caller, request: pb.DeleteSourceRequest) -> None:
        """Delete a source, and its documents if the request says so."""
        collection, source = await self._administrable(caller, request.collection_id, request.source_id)
        if not await self._sources.delete(collection, source, documents=request.delete_documents):
            raise _not_found(request.source_id)
        _log.info(
            "source_deleted",
            source_id=request.source_id,
            collection_id=request.collection_id,
            documents=request.delete_documents,
            caller=caller.owner,
        )

    async def _administrable(
        self, caller: Caller, collection_id: str, source_id: str
    ) -> tuple[StoredCollection, StoredSource]:
        collection = await administrable_collection(self._collections, caller, collection_id)
        return collection, await self._find(collection_id, source_id)

    async def _find(self, collection_id: str, source_id: str) -> StoredSource:
        source = await self._sources.find(collection_id, source_id)
        if source is None:
            raise _not_found(source_id)
        return source

    async def _found(self, caller: Caller, collection_id: str, source_id: str) -> source_pb2.DocumentSource:
        [shown] = await self._shown(caller, [await self._find(collection_id, source_id)])
        return shown

    async def _shown(
        self, caller: Caller, sources: Sequence[StoredSource]
    ) -> Sequence[source_pb2.DocumentSource]:
        """Return the sources with their last runs."""
        job_ids = [source.last_job_id for source in sources if source.last_job_id]
        jobs = await self._jobs.find_all(job_ids, caller.principals)
        shown = []
        for source in sources:
            message = source_pb2.DocumentSource()
            message.CopyFrom(source.message)
            message.etag = etag_of(source.message)
            if job := jobs.get(source.last_job_id):
                message.last_job.CopyFrom(job)
            shown.append(message)
        return shown


def _changed_meanwhile() -> AbortedError:
    return AbortedError("SOURCE_CHANGED", "the source was changed meanwhile; try again")


def _not_found(source_id: str) -> NotFoundError:
    return NotFoundError("SOURCE_NOT_FOUND", f"no source {source_id}")
