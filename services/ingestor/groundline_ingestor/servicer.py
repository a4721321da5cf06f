"""The gRPC face: convert, call, convert back."""

# ruff: noqa: N802 - the contract names the methods

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import grpc
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import ingestor_service_pb2_grpc
from groundline_runtime.context import current_caller
from groundline_runtime.errors import GroundlineError

from groundline_ingestor.converters import collections, documents, jobs
from groundline_ingestor.service.collections import CollectionService
from groundline_ingestor.service.documents import DocumentService
from groundline_ingestor.service.ingestion import IngestionService
from groundline_ingestor.service.jobs import JobService
from groundline_ingestor.service.reindex import ReindexService

__all__ = ["SERVICE_NAME", "IngestorServicer"]

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["IngestorService"].full_name

_PASSED_OVER_BYTES: Final = 512 * 1024**2

type Context = grpc.aio.ServicerContext[Any, Any]


class IngestorServicer(ingestor_service_pb2_grpc.IngestorServiceServicer):
    """Implements groundline.v1.IngestorService."""

    def __init__(
        self,
        collections: CollectionService,
        documents: DocumentService,
        ingestion: IngestionService,
        jobs: JobService,
        reindex: ReindexService,
        *,
        max_documents: int,
    ) -> None:
        self._collections = collections
        self._documents = documents
        self._ingestion = ingestion
        self._jobs = jobs
        self._reindex = reindex
        self._max_documents = max_documents

    async def CreateCollection(
        self, request: pb.CreateCollectionRequest, context: Context
    ) -> pb.CreateCollectionResponse:
        created = await self._collections.create(current_caller(), collections.new_collection(request))
        return pb.CreateCollectionResponse(collection=collections.collection_message(created))

    async def GetCollection(
        self, request: pb.GetCollectionRequest, context: Context
    ) -> pb.GetCollectionResponse:
        found = await self._collections.get(current_caller(), collections.collection_id_of(request))
        return pb.GetCollectionResponse(collection=collections.collection_message(found))

    async def ListCollections(
        self, request: pb.ListCollectionsRequest, context: Context
    ) -> pb.ListCollectionsResponse:
        after, size = collections.list_request(request)
        page = await self._collections.list(current_caller(), after=after, size=size)
        return collections.list_response(page)

    async def UpdateCollection(
        self, request: pb.UpdateCollectionRequest, context: Context
    ) -> pb.UpdateCollectionResponse:
        collection_id, change = collections.collection_change(request)
        updated = await self._collections.update(current_caller(), collection_id, change)
        return pb.UpdateCollectionResponse(collection=collections.collection_message(updated))

    async def DeleteCollection(
        self, request: pb.DeleteCollectionRequest, context: Context
    ) -> pb.DeleteCollectionResponse:
        await self._collections.delete(current_caller(), collections.collection_id_of(request))
        return pb.DeleteCollectionResponse()

    async def IngestDocuments(
        self, request: pb.IngestDocumentsRequest, context: Context
    ) -> pb.IngestDocumentsResponse:
        if request.HasField("crawl"):
            crawl = documents.crawl_request(request)
            return jobs.ingestion_response(*await self._ingestion.crawl(current_caller(), *crawl))
        collection_id, inputs, request_id = documents.ingestion_request(request, self._max_documents)
        caller = current_caller()
        if request.dry_run:
            job, items = await self._ingestion.estimate(caller, collection_id, inputs)
        else:
            job, items = await self._ingestion.ingest(caller, collection_id, inputs, request_id)
        return jobs.ingestion_response(job, items)

    async def UploadDocument(
        self, requests: AsyncIterator[pb.UploadDocumentRequest], context: Context
    ) -> pb.UploadDocumentResponse:
        first = await anext(aiter(requests), pb.UploadDocumentRequest())

        async def parts() -> AsyncIterator[bytes]:
            yield first.content.data
            async for request in requests:
                yield request.content.data

        try:
            upload = documents.upload_request(first)
            job, item = await self._ingestion.upload(
                current_caller(), upload.collection_id, upload.described, parts(), upload.request_id
            )
        except GroundlineError:
            await _pass_over(requests)
            raise
        return jobs.upload_response(job, item)

    async def GetDocument(self, request: pb.GetDocumentRequest, context: Context) -> pb.GetDocumentResponse:
        found = await self._documents.get(current_caller(), *documents.document_key(request))
        return pb.GetDocumentResponse(document=documents.document_message(found))

    async def ListDocuments(
        self, request: pb.ListDocumentsRequest, context: Context
    ) -> pb.ListDocumentsResponse:
        collection_id, after, size = documents.list_request(request)
        page = await self._documents.list(current_caller(), collection_id, after=after, size=size)
        return documents.list_response(page)

    async def DeleteDocument(
        self, request: pb.DeleteDocumentRequest, context: Context
    ) -> pb.DeleteDocumentResponse:
        await self._documents.delete(current_caller(), *documents.document_key(request))
        return pb.DeleteDocumentResponse()

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        job_id, after, size = jobs.get_request(request)
        job, page = await self._jobs.get(current_caller(), job_id, after=after, size=size)
        return jobs.get_response(job, page)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        collection_id, before, size = jobs.list_request(request)
        page = await self._jobs.list(current_caller(), collection_id, before=before, size=size)
        return jobs.list_response(page)

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Context
    ) -> AsyncIterator[pb.WatchJobResponse]:
        states = self._jobs.watch(current_caller(), jobs.job_id_of(request))
        async with aclosing(states):
            async for job, items in states:
                yield jobs.watch_response(job, items)

    async def CancelJob(self, request: pb.CancelJobRequest, context: Context) -> pb.CancelJobResponse:
        job = await self._jobs.cancel(current_caller(), jobs.job_id_of(request))
        return pb.CancelJobResponse(job=jobs.job_message(job))

    async def RetryJob(self, request: pb.RetryJobRequest, context: Context) -> pb.RetryJobResponse:
        job = await self._jobs.retry(current_caller(), jobs.job_id_of(request))
        return pb.RetryJobResponse(job=jobs.job_message(job))

    async def ReindexCollection(
        self, request: pb.ReindexCollectionRequest, context: Context
    ) -> pb.ReindexCollectionResponse:
        job = await self._reindex.begin(current_caller(), *collections.reindex_request(request))
        return pb.ReindexCollectionResponse(job=jobs.job_message(job))

    async def GetCollectionStats(
        self, request: pb.GetCollectionStatsRequest, context: Context
    ) -> pb.GetCollectionStatsResponse:
        stats = await self._documents.stats(current_caller(), collections.collection_id_of(request))
        return collections.stats_response(stats)

    async def DeleteDocuments(
        self, request: pb.DeleteDocumentsRequest, context: Context
    ) -> pb.DeleteDocumentsResponse:
        collection_id, selection, request_id, dry_run = documents.deletion_request(request)
        count = await self._documents.delete_selected(
            current_caller(), collection_id, selection, request_id, dry_run=dry_run
        )
        return pb.DeleteDocumentsResponse(deleted_count=count)


async def _pass_over(requests: AsyncIterator[pb.UploadDocumentRequest]) -> None:
    """Let a client that is still sending come to its end: over HTTP/1.1 it would see its connection break and
    not why."""
    left = _PASSED_OVER_BYTES
    async for request in requests:
        left -= len(request.content.data)
        if left < 0:
            return
