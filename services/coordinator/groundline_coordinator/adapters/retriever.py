"""The retriever over gRPC."""

from typing import Final

import grpc
from groundline.v1 import retriever_service_pb2_grpc
from groundline_runtime.status import UnaryCall

SERVICE: Final = "groundline.v1.RetrieverService"


class GrpcRetriever:
    """A Retriever; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub: retriever_service_pb2_grpc.RetrieverServiceAsyncStub = (
            retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        )
        self.search = UnaryCall(stub.Search, "the retriever")
        self.fetch = UnaryCall(stub.FetchChunks, "the retriever")
        self.query_tables = UnaryCall(stub.QueryTables, "the retriever")
