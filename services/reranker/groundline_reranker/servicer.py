"""RerankerService over gRPC."""

# ruff: noqa: N802 - the contract names the methods
from typing import Any, Final

import grpc
from groundline.v1 import reranker_service_pb2 as pb
from groundline.v1 import reranker_service_pb2_grpc

from groundline_reranker.service import RankingService

SERVICE: Final = "groundline.v1.RerankerService"


class RerankerServicer(reranker_service_pb2_grpc.RerankerServiceServicer):
    def __init__(self, service: RankingService) -> None:
        self._service = service

    async def Rerank(
        self, request: pb.RerankRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> pb.RerankResponse:
        return await self._service.rank(request)
