"""The retriever over gRPC."""

from typing import Final

import grpc
from groundline.v1 import retriever_service_pb2, retriever_service_pb2_grpc
from groundline_runtime.status import translated_rpc_errors

__all__ = ["SERVICE", "GrpcRetriever"]

SERVICE: Final = "groundline.v1.RetrieverService"


class GrpcRetriever:
    """A Retriever; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: retriever_service_pb2_grpc.RetrieverServiceAsyncStub = (
            retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        )

    async def search(
        self, request: retriever_service_pb2.SearchRequest
    ) -> retriever_service_pb2.SearchResponse:
        with translated_rpc_errors("the retriever"):
            return await self._stub.Search(request)

    async def fetch(
        self, request: retriever_service_pb2.FetchChunksRequest
    ) -> retriever_service_pb2.FetchChunksResponse:
        with translated_rpc_errors("the retriever"):
            return await self._stub.FetchChunks(request)

    async def query_tables(
        self, request: retriever_service_pb2.QueryTablesRequest
    ) -> retriever_service_pb2.QueryTablesResponse:
        with translated_rpc_errors("the retriever"):
            return await self._stub.QueryTables(request)
