"""Hand-in of documents and crawls: a job is stored, which workers then do."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog
from groundline.v1 import document_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_contracts.times import timestamp
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_indexing.collections import StoredCollection, running_model
from groundline_indexing.preparation import identify
from groundline_runtime.charges import total
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    FailedPreconditionError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from groundline_runtime.turns import ClientTurns
from groundline_validation import page_address

from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.jobs import has_ended, plus
from groundline_ingestor.domain.work import OrderedCrawl
from groundline_ingestor.service.access import (
    collection_not_found,
    readable_document,
    readable_job,
    writable_collection,
)
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.spooled import spooled
from groundline_ingestor.service.worker.stages import Stages

MAX_RETURNED_ITEMS: Final = 1000

ESTIMATES: Final = 4
"""Maximum requests that are estimated at a time; they take threads that other requests need as well."""


_log = structlog.get_logger(__name__)


class IngestionService:
    """Use cases of handing in documents and crawls."""

    def __init__(
        self,
        stores: Stores,
        stages: Stages,
        quotas: Quotas,
        *,
        max_documents: int,
        on_enqueued: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the parts. `max_documents`: maximum of one request. `on_enqueued` wakes the workers of this
        process; others find the work by looking."""
        self._collections = stores.collections
        self._documents = stores.documents
        self._revisions = stores.revisions
        self._reverts = stores.reverts
        self._jobs = stores.jobs
        self._crawls = stores.crawls
        self._embedders = stages.embedder.embedders
        self._preparation = stages.preparation
        self._contextualization = stages.contextualization
        self._pictures = stages.pictures
        self._quotas = quotas
        self._max_documents = max_documents
        self._on_enqueued = on_enqueued
        self._estimating = ClientTurns(ESTIMATES)

    async def ingest(
        self, caller: Caller, collection_id: str, inputs: Sequence[GivenDocument], request_id: str
    ) -> pb.IngestDocumentsResponse:
        """Store documents to be ingested; return their job, and its first items.

        The caller's same `request_id` returns the job it made. Raises NotFoundError, PermissionDeniedError,
        FailedPreconditionError (EMBEDDING_MODEL_MISMATCH), ResourceExhaustedError (QUOTA_EXHAUSTED),
        UnavailableError, InvalidArgumentError for too many documents.
        """
        self._require_count(inputs)
        request_id = caller.own_request_id(request_id)
        collection = await writable_collection(self._collections, caller, collection_id)
        job = await self._jobs.find_by_request_id(collection_id, request_id, caller.principals)
        if job is None:
            await self._require_ready(caller, collection)
            handed_in = await asyncio.to_thread(lambda: [identify(given, collection) for given in inputs])
            sizes = {one.version.uri: one.version.size_bytes for one in handed_in}
            await self._quotas.require_documents(collection_id, sizes)
            job = await self._jobs.enqueue(collection, handed_in, caller.principals, request_id)
            _log.info(
                "job_enqueued", job_id=job.job_id, collection_id=collection_id, documents=job.item_count
            )
            self._on_enqueued()
        return await self._response(caller, job)

    async def restore(self, caller: Caller, request: pb.RestoreRevisionRequest) -> pb.RestoreRevisionResponse:
        """Store a revision to be put in the place of the one in use; return its job and item. Raises as
        `ingest` does, and NotFoundError (REVISION_NOT_FOUND)."""
        collection_id, document_id = request.collection_id, request.document_id
        request_id = caller.own_request_id(request.request_id)
        collection = await writable_collection(self._collections, caller, collection_id)
        job = await self._jobs.find_by_request_id(collection_id, request_id, caller.principals)
        if job is None:
            await readable_document(self._collections, self._documents, caller, collection_id, document_id)
            found = await self._revisions.handed_in(
                collection_id, document_id, caller.principals, request.revision
            )
            if found is None:
                raise NotFoundError(
                    "REVISION_NOT_FOUND", f"no replaced revision {request.revision} of the document is kept"
                )
            await self._require_ready(caller, collection)
            await self._quotas.require_documents(collection_id, {found.version.uri: found.version.size_bytes})
            job = await self._jobs.enqueue(collection, [found], caller.principals, request_id)
            _log.info("restore_enqueued", job_id=job.job_id, collection_id=collection_id)
            self._on_enqueued()
        items = await self._jobs.items(job.job_id, caller.principals, after=-1, limit=1)
        return pb.RestoreRevisionResponse(job=job, item=items[0] if items else None)

    async def revert(self, caller: Caller, request: pb.RevertJobRequest) -> pb.RevertJobResponse:
        """Take back what a job did to its documents, or tell what that would do.

        Raises as `ingest` does, NotFoundError (JOB_NOT_FOUND), FailedPreconditionError (JOB_UNDER_WAY).
        """
        job = await readable_job(self._collections, self._jobs, caller, request.job_id)
        collection = await writable_collection(self._collections, caller, job.collection_id)
        if not has_ended(job):
            raise FailedPreconditionError("JOB_UNDER_WAY", f"the job {job.job_id} has not ended")
        request_id = caller.own_request_id(request.request_id)
        made = await self._jobs.find_by_request_id(job.collection_id, request_id, caller.principals)
        if made is None and not request.dry_run:
            await self._require_ready(caller, collection)
            found = await self._reverts.revert(
                collection, job.job_id, caller.principals, request_id, overwrite=request.overwrite
            )
            made = await self._jobs.find(found.job_id, caller.principals) if found.job_id else None
            _log.info("job_reverted", job_id=job.job_id, collection_id=job.collection_id, by=found.job_id)
            self._on_enqueued()
        else:
            found = await self._reverts.plan(
                job.collection_id, job.job_id, caller.principals, overwrite=request.overwrite
            )
        return pb.RevertJobResponse(
            job=made,
            counts=[
                pb.RevertCount(action=action, document_count=count)
                for action, count in sorted(found.counts.items())
            ],
            documents=found.listed,
        )

    async def crawl(self, caller: Caller, request: pb.IngestDocumentsRequest) -> pb.IngestDocumentsResponse:
        """Store a crawl to be done; return its job and its first items. Raises what `ingest` raises."""
        collection_id, request_id = request.collection_id, caller.own_request_id(request.request_id)
        crawl = pb.WebCrawl()
        crawl.CopyFrom(request.crawl)
        # In one spelling; validation has refused what leads to no page.
        crawl.start_url = page_address(crawl.start_url) or ""
        collection = await writable_collection(self._collections, caller, collection_id)
        job = await self._jobs.find_by_request_id(collection_id, request_id, caller.principals)
        if job is None:
            await self._require_ready(caller, collection)
            if not request.dry_run:
                await self._quotas.require_documents(collection_id, {crawl.start_url: 0})
            order = OrderedCrawl(crawl, is_dry_run=request.dry_run)
            job_id = await self._crawls.enqueue(collection, order, caller.principals, request_id)
            job = await self._jobs.find(job_id, caller.principals)
            if job is None:
                raise collection_not_found(collection_id)
            _log.info("crawl_enqueued", job_id=job.job_id, collection_id=collection_id)
            self._on_enqueued()
        return await self._response(caller, job)

    async def upload(
        self,
        caller: Caller,
        collection_id: str,
        described: GivenDocument,
        parts: AsyncIterator[bytes],
        request_id: str,
    ) -> pb.UploadDocumentResponse:
        """Store one document whose content comes in parts; return its job and item.

        The parts wait in a file, so that a slow client holds no connection to the database, and one that
        disconnects leaves nothing. Raises as `ingest` does, before the first part is read, OutOfRangeError
        (DOCUMENT_TOO_LARGE) and UnavailableError (DISK_FULL).
        """
        request_id = caller.own_request_id(request_id)
        collection = await writable_collection(self._collections, caller, collection_id)
        job = await self._jobs.find_by_request_id(collection_id, request_id, caller.principals)
        if job is None:
            await self._require_ready(caller, collection)
            await self._quotas.require_documents(collection_id, {described.uri: 0})
            with spooled(self._preparation.open_spool_file) as file:
                size, digest = 0, hashlib.sha256()

                def keep(part: bytes) -> None:
                    file.write(part)
                    digest.update(part)

                async for part in parts:
                    size += len(part)
                    if size > self._preparation.max_document_bytes:
                        raise OutOfRangeError(
                            "DOCUMENT_TOO_LARGE",
                            f"the document has more than {self._preparation.max_document_bytes} bytes, which "
                            "are the most that are taken",
                        )
                    await asyncio.to_thread(keep, part)
                content = FileContent(file, size) if size else b""
                given = replace(described, content=content, content_hash=digest.digest())
                identified = await asyncio.to_thread(identify, given, collection)
                await self._quotas.require_documents(collection_id, {identified.version.uri: size})
                job = await self._jobs.enqueue(collection, [identified], caller.principals, request_id)
            _log.info("job_enqueued", job_id=job.job_id, collection_id=collection_id, documents=1)
            self._on_enqueued()
        items = await self._jobs.items(job.job_id, caller.principals, after=-1, limit=1)
        return pb.UploadDocumentResponse(job=job, item=items[0] if items else None)

    async def estimate(
        self, caller: Caller, collection_id: str, inputs: Sequence[GivenDocument]
    ) -> pb.IngestDocumentsResponse:
        """Return a job that is not stored: each document's chunks, and the tokens their contexts would take.

        Raises as `ingest` does.
        """
        self._require_count(inputs)
        collection = await writable_collection(self._collections, caller, collection_id)
        self._contextualization.require(collection)
        begun = datetime.now(UTC)
        async with self._estimating.turn(caller.owner):
            items = [
                await self._estimate(index, given, collection, caller.owner)
                for index, given in enumerate(inputs)
            ]
        failed = sum(item.HasField("failure") for item in items)
        job = job_pb2.IngestionJob(
            collection_id=collection_id,
            state=job_pb2.JOB_STATE_FAILED if failed == len(items) else job_pb2.JOB_STATE_DONE,
            create_time=timestamp(begun),
            start_time=timestamp(begun),
            end_time=timestamp(datetime.now(UTC)),
            item_count=len(items),
            done_count=len(items) - failed,
            failed_count=failed,
            chunks=plus(item.chunks for item in items),
            usage=total((item.usage for item in items), stored=True),
        )
        return pb.IngestDocumentsResponse(job=job, items=items[:MAX_RETURNED_ITEMS])

    async def _require_ready(self, caller: Caller, collection: StoredCollection) -> None:
        """Raise unless the models that the collection needs are running, the caller may begin a job, and its
        budgets are not spent if documents cost money."""
        embedder = running_model(collection, self._embedders)
        self._contextualization.require(collection)
        await self._quotas.require_job(caller)
        if not self._quotas.spending.have_budgets:
            return
        asks = self._contextualization.is_asked_for(collection) or self._pictures.are_asked_for(collection)
        if asks or await asyncio.to_thread(embedder.cost, 1) != 0:
            await self._quotas.spending.require(caller.owner)

    def _require_count(self, inputs: Sequence[GivenDocument]) -> None:
        if len(inputs) > self._max_documents:
            raise InvalidArgumentError(
                [FieldViolation("documents", f"must have 1 to {self._max_documents} entries")]
            )

    async def _estimate(
        self, index: int, given: GivenDocument, collection: StoredCollection, client: str
    ) -> job_pb2.IngestionItem:
        handed_in = await asyncio.to_thread(identify, given, collection)
        item = job_pb2.IngestionItem(item_index=index, uri=handed_in.version.uri)
        asks = self._pictures.are_asked_for(collection)
        try:
            with closing(self._preparation.keep_pictures()) as pictures:
                segments, version = await asyncio.to_thread(
                    self._preparation.read,
                    handed_in.given,
                    handed_in.version,
                    client=client,
                    pictures=pictures if asks else None,
                )
                usages = [self._pictures.estimate(len(pictures))]
            with closing(segments):
                parts = self._preparation.chunk(segments, version, collection)
                while (prepared := await asyncio.to_thread(next, parts, None)) is not None:
                    item.chunks.parsed += len(prepared.chunks)
                    usages.append(await self._contextualization.estimate(prepared, collection))
        except IngestionError as error:
            item.state = document_pb2.INGESTION_STATE_FAILED
            item.ClearField("chunks")
            item.failure.CopyFrom(error.failure)
            return item
        item.state = document_pb2.INGESTION_STATE_QUEUED
        item.usage.CopyFrom(total(usages))
        return item

    async def _response(self, caller: Caller, job: job_pb2.IngestionJob) -> pb.IngestDocumentsResponse:
        items = await self._jobs.items(job.job_id, caller.principals, after=-1, limit=MAX_RETURNED_ITEMS)
        return pb.IngestDocumentsResponse(job=job, items=items)
