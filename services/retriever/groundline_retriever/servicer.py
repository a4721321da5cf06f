"""RetrieverService over gRPC."""

# ruff: noqa: N802 - the contract names the methods
from typing import Any, Final

import grpc
from groundline.v1 import retriever_service_pb2 as pb
from groundline.v1 import retriever_service_pb2_grpc
from groundline_runtime.context import current_caller

from groundline_retriever.service import SearchService
from groundline_retriever.tables.service import TableService

SERVICE: Final = "groundline.v1.RetrieverService"

type Context = "grpc.aio.ServicerContext[Any, Any]"


class RetrieverServicer(retriever_service_pb2_grpc.RetrieverServiceServicer):
    def __init__(self, service: SearchService, tables: TableService) -> None:
        self._service = service
        self._tables = tables

    async def Search(self, request: pb.SearchRequest, context: Context) -> pb.SearchResponse:
        return await self._service.search(current_caller(), request)

    async def FetchChunks(self, request: pb.FetchChunksRequest, context: Context) -> pb.FetchChunksResponse:
        return await self._service.fetch(current_caller(), request)

    async def QueryTables(self, request: pb.QueryTablesRequest, context: Context) -> pb.QueryTablesResponse:
        return await self._tables.query(current_caller(), request)
