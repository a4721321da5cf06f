"""The reranker over gRPC."""

from typing import Final

import grpc
from groundline.v1 import reranker_service_pb2, reranker_service_pb2_grpc
from groundline_runtime.status import translated_rpc_errors

__all__ = ["SERVICE", "GrpcReranker"]

SERVICE: Final = "groundline.v1.RerankerService"


class GrpcReranker:
    """A Reranker; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: reranker_service_pb2_grpc.RerankerServiceAsyncStub = (
            reranker_service_pb2_grpc.RerankerServiceStub(channel)
        )

    async def rerank(
        self, request: reranker_service_pb2.RerankRequest
    ) -> reranker_service_pb2.RerankResponse:
        with translated_rpc_errors("the reranker"):
            return await self._stub.Rerank(request)
