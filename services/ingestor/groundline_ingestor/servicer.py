"""IngestorService over gRPC: check, call, answer."""

# ruff: noqa: N802 - the contract names the methods

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import grpc
from google.api.httpbody_pb2 import HttpBody  # type: ignore[import-untyped]
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import ingestor_service_pb2_grpc
from groundline_indexing.inputs import document_input
from groundline_runtime.context import current_caller, give_place_back, last_event_id
from groundline_runtime.errors import (
    GroundlineError,
)

from groundline_ingestor.converters import described_upload, download_metadata, picture_metadata
from groundline_ingestor.domain.documents import inert_type
from groundline_ingestor.service.collecting.sources import SourceService
from groundline_ingestor.service.collections import CollectionService
from groundline_ingestor.service.documents import DocumentService
from groundline_ingestor.service.embeddings import EmbeddingService
from groundline_ingestor.service.ingestion import IngestionService
from groundline_ingestor.service.jobs import JobService
from groundline_ingestor.service.reindex import ReindexService

SERVICE_NAME: Final = pb.DESCRIPTOR.services_by_name["IngestorService"].full_name

_PASSED_OVER_BYTES: Final = 512 * 1024**2

type Context = grpc.aio.ServicerContext[Any, Any]


class IngestorServicer(ingestor_service_pb2_grpc.IngestorServiceServicer):
    """The servicer of groundline.v1.IngestorService."""

    def __init__(
        self,
        collections: CollectionService,
        documents: DocumentService,
        ingestion: IngestionService,
        jobs: JobService,
        sources: SourceService,
        reindex: ReindexService,
        embedding: EmbeddingService,
    ) -> None:
        self._collections = collections
        self._documents = documents
        self._ingestion = ingestion
        self._jobs = jobs
        self._sources = sources
        self._reindex = reindex
        self._embedding = embedding

    async def CreateCollection(
        self, request: pb.CreateCollectionRequest, context: Context
    ) -> pb.CreateCollectionResponse:
        created = await self._collections.create(current_caller(), request)
        return pb.CreateCollectionResponse(collection=created)

    async def GetCollection(
        self, request: pb.GetCollectionRequest, context: Context
    ) -> pb.GetCollectionResponse:
        found = await self._collections.get(current_caller(), request.collection_id)
        return pb.GetCollectionResponse(collection=found)

    async def ListCollections(
        self, request: pb.ListCollectionsRequest, context: Context
    ) -> pb.ListCollectionsResponse:
        return await self._collections.list(current_caller(), request)

    async def UpdateCollection(
        self, request: pb.UpdateCollectionRequest, context: Context
    ) -> pb.UpdateCollectionResponse:
        updated = await self._collections.update(current_caller(), request)
        return pb.UpdateCollectionResponse(collection=updated)

    async def DeleteCollection(
        self, request: pb.DeleteCollectionRequest, context: Context
    ) -> pb.DeleteCollectionResponse:
        await self._collections.delete(current_caller(), request.collection_id)
        return pb.DeleteCollectionResponse()

    async def IngestDocuments(
        self, request: pb.IngestDocumentsRequest, context: Context
    ) -> pb.IngestDocumentsResponse:
        caller = current_caller()
        if request.HasField("crawl"):
            return await self._ingestion.crawl(caller, request)
        inputs = [document_input(given) for given in request.documents]
        if request.dry_run:
            return await self._ingestion.estimate(caller, request.collection_id, inputs)
        return await self._ingestion.ingest(caller, request.collection_id, inputs, request.request_id)

    async def UploadDocument(
        self, requests: AsyncIterator[pb.UploadDocumentRequest], context: Context
    ) -> pb.UploadDocumentResponse:
        give_place_back()  # it waits for its client
        first = await anext(aiter(requests), pb.UploadDocumentRequest())

        async def parts() -> AsyncIterator[bytes]:
            yield first.content.data
            async for request in requests:
                yield request.content.data

        try:
            return await self._ingestion.upload(
                current_caller(), first.collection_id, described_upload(first), parts(), first.request_id
            )
        except GroundlineError:
            await _pass_over(requests)
            raise

    async def GetDocument(self, request: pb.GetDocumentRequest, context: Context) -> pb.GetDocumentResponse:
        found = await self._documents.get(current_caller(), request.collection_id, request.document_id)
        return pb.GetDocumentResponse(document=found)

    async def ListDocuments(
        self, request: pb.ListDocumentsRequest, context: Context
    ) -> pb.ListDocumentsResponse:
        return await self._documents.list(current_caller(), request)

    async def GetDocumentText(
        self, request: pb.GetDocumentTextRequest, context: Context
    ) -> pb.GetDocumentTextResponse:
        return await self._documents.revisions.text(current_caller(), request)

    async def ListRevisions(
        self, request: pb.ListRevisionsRequest, context: Context
    ) -> pb.ListRevisionsResponse:
        return await self._documents.revisions.list(current_caller(), request)

    async def GetRevision(self, request: pb.GetRevisionRequest, context: Context) -> pb.GetRevisionResponse:
        return pb.GetRevisionResponse(revision=await self._documents.revisions.get(current_caller(), request))

    async def RestoreRevision(
        self, request: pb.RestoreRevisionRequest, context: Context
    ) -> pb.RestoreRevisionResponse:
        return await self._ingestion.restore(current_caller(), request)

    async def ListErasures(
        self, request: pb.ListErasuresRequest, context: Context
    ) -> pb.ListErasuresResponse:
        return await self._collections.erasures.list(current_caller(), request)

    async def GetErasureCertificate(
        self, request: pb.GetErasureCertificateRequest, context: Context
    ) -> AsyncIterator[pb.GetErasureCertificateResponse]:
        data = await self._collections.erasures.certificate(current_caller(), request.erasure_id)
        # A hundred kilobytes at most, which one message takes.
        content = HttpBody(content_type="application/json", data=data)
        yield pb.GetErasureCertificateResponse(content=content)

    async def SetLegalHold(
        self, request: pb.SetLegalHoldRequest, context: Context
    ) -> pb.SetLegalHoldResponse:
        return await self._documents.holds.change(current_caller(), request)

    async def ListLegalHolds(
        self, request: pb.ListLegalHoldsRequest, context: Context
    ) -> pb.ListLegalHoldsResponse:
        return await self._documents.holds.list(current_caller(), request)

    async def RevertJob(self, request: pb.RevertJobRequest, context: Context) -> pb.RevertJobResponse:
        return await self._ingestion.revert(current_caller(), request)

    async def CompareRevisions(
        self, request: pb.CompareRevisionsRequest, context: Context
    ) -> pb.CompareRevisionsResponse:
        return await self._documents.revisions.compare(current_caller(), request)

    async def DownloadDocument(
        self, request: pb.DownloadDocumentRequest, context: Context
    ) -> AsyncIterator[pb.DownloadDocumentResponse]:
        give_place_back()
        caller = current_caller()
        document = await self._documents.downloadable(
            caller, request.collection_id, request.document_id, request.revision
        )
        await context.send_initial_metadata(download_metadata(document))
        async with aclosing(self._documents.original(caller, document)) as parts:
            async for data in parts:
                content = HttpBody(content_type=inert_type(document.mime_type), data=data)
                yield pb.DownloadDocumentResponse(content=content)

    async def GetDocumentPage(
        self, request: pb.GetDocumentPageRequest, context: Context
    ) -> AsyncIterator[pb.GetDocumentPageResponse]:
        give_place_back()
        caller = current_caller()
        document = await self._documents.with_original(
            caller, request.collection_id, request.document_id, request.revision
        )
        parts = await self._documents.page(caller, document, request.page, request.width)
        await context.send_initial_metadata(picture_metadata(document, request))
        for data in parts:
            yield pb.GetDocumentPageResponse(content=HttpBody(content_type="image/png", data=data))

    async def ListChunks(self, request: pb.ListChunksRequest, context: Context) -> pb.ListChunksResponse:
        return await self._documents.chunks(current_caller(), request)

    async def DeleteDocument(
        self, request: pb.DeleteDocumentRequest, context: Context
    ) -> pb.DeleteDocumentResponse:
        await self._documents.delete(current_caller(), request.collection_id, request.document_id)
        return pb.DeleteDocumentResponse()

    async def DeleteDocuments(
        self, request: pb.DeleteDocumentsRequest, context: Context
    ) -> pb.DeleteDocumentsResponse:
        count = await self._documents.delete_selected(current_caller(), request)
        return pb.DeleteDocumentsResponse(deleted_count=count)

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        return await self._jobs.get(current_caller(), request)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        return await self._jobs.list(current_caller(), request)

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Context
    ) -> AsyncIterator[pb.WatchJobResponse]:
        give_place_back()
        watched = self._jobs.watch(current_caller(), request.job_id, after=last_event_id())
        async with aclosing(watched) as states:
            async for state in states:
                yield state

    async def CancelJob(self, request: pb.CancelJobRequest, context: Context) -> pb.CancelJobResponse:
        return pb.CancelJobResponse(job=await self._jobs.cancel(current_caller(), request.job_id))

    async def RetryJob(self, request: pb.RetryJobRequest, context: Context) -> pb.RetryJobResponse:
        return pb.RetryJobResponse(job=await self._jobs.retry(current_caller(), request.job_id))

    async def CreateSource(
        self, request: pb.CreateSourceRequest, context: Context
    ) -> pb.CreateSourceResponse:
        return pb.CreateSourceResponse(source=await self._sources.create(current_caller(), request))

    async def GetSource(self, request: pb.GetSourceRequest, context: Context) -> pb.GetSourceResponse:
        found = await self._sources.get(current_caller(), request.collection_id, request.source_id)
        return pb.GetSourceResponse(source=found)

    async def ListSources(self, request: pb.ListSourcesRequest, context: Context) -> pb.ListSourcesResponse:
        return await self._sources.list(current_caller(), request)

    async def UpdateSource(
        self, request: pb.UpdateSourceRequest, context: Context
    ) -> pb.UpdateSourceResponse:
        return pb.UpdateSourceResponse(source=await self._sources.update(current_caller(), request))

    async def RunSource(self, request: pb.RunSourceRequest, context: Context) -> pb.RunSourceResponse:
        return pb.RunSourceResponse(job=await self._sources.run(current_caller(), request))

    async def DeleteSource(
        self, request: pb.DeleteSourceRequest, context: Context
    ) -> pb.DeleteSourceResponse:
        await self._sources.delete(current_caller(), request)
        return pb.DeleteSourceResponse()

    async def ReindexCollection(
        self, request: pb.ReindexCollectionRequest, context: Context
    ) -> pb.ReindexCollectionResponse:
        return pb.ReindexCollectionResponse(job=await self._reindex.begin(current_caller(), request))

    async def SwapIndex(self, request: pb.SwapIndexRequest, context: Context) -> pb.SwapIndexResponse:
        return pb.SwapIndexResponse(job=await self._reindex.swap(current_caller(), request.job_id))

    async def RevertIndex(self, request: pb.RevertIndexRequest, context: Context) -> pb.RevertIndexResponse:
        return pb.RevertIndexResponse(job=await self._reindex.revert(current_caller(), request))

    async def ReclaimIndex(
        self, request: pb.ReclaimIndexRequest, context: Context
    ) -> pb.ReclaimIndexResponse:
        was_kept = await self._reindex.reclaim(current_caller(), request.collection_id)
        return pb.ReclaimIndexResponse(was_kept=was_kept)

    async def GetCollectionStats(
        self, request: pb.GetCollectionStatsRequest, context: Context
    ) -> pb.GetCollectionStatsResponse:
        stats = await self._documents.stats(current_caller(), request.collection_id)
        return pb.GetCollectionStatsResponse(stats=stats)

    async def EmbedTexts(self, request: pb.EmbedTextsRequest, context: Context) -> pb.EmbedTextsResponse:
        return await self._embedding.embed(current_caller(), request)


async def _pass_over(requests: AsyncIterator[pb.UploadDocumentRequest]) -> None:
    """Read the rest of a client's stream: over HTTP/1.1 it would otherwise see its connection break and not
    why."""
    left = _PASSED_OVER_BYTES
    async for request in requests:
        left -= len(request.content.data)
        if left < 0:
            return
