"""RerankerService over gRPC."""

from typing import Any

import grpc
from groundline.v1 import reranker_service_pb2, reranker_service_pb2_grpc

from groundline_reranker.converters import to_response, to_work
from groundline_reranker.service import RankingService

__all__ = ["SERVICE", "RerankerServicer"]

SERVICE = "groundline.v1.RerankerService"


class RerankerServicer(reranker_service_pb2_grpc.RerankerServiceServicer):
    def __init__(self, service: RankingService) -> None:
        self._service = service

    async def Rerank(  # noqa: N802
        self, request: reranker_service_pb2.RerankRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> reranker_service_pb2.RerankResponse:
        work = to_work(request)
        ranking = await self._service.rank(work.query, work.candidate_sets, work.options)
        return to_response(ranking, request)
