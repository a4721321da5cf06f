"""Ports of the bridge to the other services. Every method raises GroundlineError when it fails."""

from collections.abc import AsyncGenerator
from typing import Protocol

from groundline.v1 import coordinator_service_pb2, ingestor_service_pb2, retriever_service_pb2


class Coordinator(Protocol):
    """Answers and checked texts, for the current caller."""

    def chat(
        self, request: coordinator_service_pb2.ChatRequest
    ) -> AsyncGenerator[coordinator_service_pb2.ChatResponse]:
        """Yield the events of an answer; an `error` is raised, a keep-alive left out. Closing the iterator
        ends the work."""
        ...

    async def answer(
        self, request: coordinator_service_pb2.AnswerRequest
    ) -> coordinator_service_pb2.AnswerResponse: ...

    def verify(
        self, request: coordinator_service_pb2.VerifyRequest
    ) -> AsyncGenerator[coordinator_service_pb2.VerifyResponse]:
        """Yield the events of a verification; an `error` is raised, a keep-alive left out. Closing the
        iterator ends the work."""
        ...


class Retriever(Protocol):
    """Finds passages and asks tables, for the current caller."""

    async def search(
        self, request: retriever_service_pb2.SearchRequest
    ) -> retriever_service_pb2.SearchResponse: ...

    async def query_tables(
        self, request: retriever_service_pb2.QueryTablesRequest
    ) -> retriever_service_pb2.QueryTablesResponse: ...


class Ingestor(Protocol):
    """Collections and documents that the caller may read, and the embedding model."""

    async def get_collection(
        self, request: ingestor_service_pb2.GetCollectionRequest
    ) -> ingestor_service_pb2.GetCollectionResponse: ...

    async def list_collections(
        self, request: ingestor_service_pb2.ListCollectionsRequest
    ) -> ingestor_service_pb2.ListCollectionsResponse: ...

    async def get_document(
        self, request: ingestor_service_pb2.GetDocumentRequest
    ) -> ingestor_service_pb2.GetDocumentResponse: ...

    async def list_documents(
        self, request: ingestor_service_pb2.ListDocumentsRequest
    ) -> ingestor_service_pb2.ListDocumentsResponse: ...

    async def get_document_text(
        self, request: ingestor_service_pb2.GetDocumentTextRequest
    ) -> ingestor_service_pb2.GetDocumentTextResponse: ...

    async def embed_texts(
        self, request: ingestor_service_pb2.EmbedTextsRequest
    ) -> ingestor_service_pb2.EmbedTextsResponse: ...
