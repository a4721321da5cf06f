"""The ingestor over gRPC."""

from typing import Final

import grpc
from groundline.v1 import ingestor_service_pb2, ingestor_service_pb2_grpc
from groundline_runtime.status import translated_rpc_errors

__all__ = ["SERVICE", "GrpcIngestor"]

SERVICE: Final = "groundline.v1.IngestorService"


class GrpcIngestor:
    """An Ingestor; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: ingestor_service_pb2_grpc.IngestorServiceAsyncStub = (
            ingestor_service_pb2_grpc.IngestorServiceStub(channel)
        )

    async def get_collection(
        self, request: ingestor_service_pb2.GetCollectionRequest
    ) -> ingestor_service_pb2.GetCollectionResponse:
        with translated_rpc_errors("the ingestor"):
            return await self._stub.GetCollection(request)

    async def list_collections(
        self, request: ingestor_service_pb2.ListCollectionsRequest
    ) -> ingestor_service_pb2.ListCollectionsResponse:
        with translated_rpc_errors("the ingestor"):
            return await self._stub.ListCollections(request)

    async def get_document(
        self, request: ingestor_service_pb2.GetDocumentRequest
    ) -> ingestor_service_pb2.GetDocumentResponse:
        with translated_rpc_errors("the ingestor"):
            return await self._stub.GetDocument(request)

    async def list_documents(
        self, request: ingestor_service_pb2.ListDocumentsRequest
    ) -> ingestor_service_pb2.ListDocumentsResponse:
        with translated_rpc_errors("the ingestor"):
            return await self._stub.ListDocuments(request)

    async def get_document_text(
        self, request: ingestor_service_pb2.GetDocumentTextRequest
    ) -> ingestor_service_pb2.GetDocumentTextResponse:
        with translated_rpc_errors("the ingestor"):
            return await self._stub.GetDocumentText(request)

    async def embed_texts(
        self, request: ingestor_service_pb2.EmbedTextsRequest
    ) -> ingestor_service_pb2.EmbedTextsResponse:
        with translated_rpc_errors("the ingestor"):
            return await self._stub.EmbedTexts(request)
