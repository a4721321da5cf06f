"""RetrieverService over gRPC."""

from typing import Any

import grpc
from groundline.v1 import retriever_service_pb2, retriever_service_pb2_grpc

from groundline_retriever.converters import to_query, to_response
from groundline_retriever.service import RetrievalService

__all__ = ["SERVICE", "RetrieverServicer"]

SERVICE = "groundline.v1.RetrieverService"


class RetrieverServicer(retriever_service_pb2_grpc.RetrieverServiceServicer):
    def __init__(self, service: RetrievalService) -> None:
        self._service = service

    async def Retrieve(  # noqa: N802
        self, request: retriever_service_pb2.RetrieveRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> retriever_service_pb2.RetrieveResponse:
        return to_response(await self._service.retrieve(to_query(request)))
