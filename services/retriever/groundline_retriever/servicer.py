"""RetrieverService over gRPC."""

# ruff: noqa: N802 - the contract names the methods

from typing import Any

import grpc
from groundline.v1 import retriever_service_pb2, retriever_service_pb2_grpc
from groundline_runtime.context import current_caller
from groundline_validation import validate

from groundline_retriever.service import RetrievalService

__all__ = ["SERVICE", "RetrieverServicer"]

SERVICE = "groundline.v1.RetrieverService"

type Context = "grpc.aio.ServicerContext[Any, Any]"


class RetrieverServicer(retriever_service_pb2_grpc.RetrieverServiceServicer):
    def __init__(self, service: RetrievalService) -> None:
        self._service = service

    async def Retrieve(
        self, request: retriever_service_pb2.RetrieveRequest, context: Context
    ) -> retriever_service_pb2.RetrieveResponse:
        validate(request)
        return await self._service.retrieve(current_caller(), request)

    async def FetchChunks(
        self, request: retriever_service_pb2.FetchChunksRequest, context: Context
    ) -> retriever_service_pb2.FetchChunksResponse:
        validate(request)
        return await self._service.fetch(current_caller(), request)
