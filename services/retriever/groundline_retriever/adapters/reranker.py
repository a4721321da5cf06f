"""The reranker over gRPC."""

from typing import Final

import grpc
from groundline.v1 import reranker_service_pb2_grpc
from groundline_runtime.status import UnaryCall

SERVICE: Final = "groundline.v1.RerankerService"


class GrpcReranker:
    """A Reranker; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub: reranker_service_pb2_grpc.RerankerServiceAsyncStub = (
            reranker_service_pb2_grpc.RerankerServiceStub(channel)
        )
        self.rerank = UnaryCall(stub.Rerank, "the reranker")
