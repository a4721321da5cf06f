"""The retriever over gRPC."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from groundline.v1 import options_pb2, retriever_service_pb2, retriever_service_pb2_grpc
from groundline_runtime.status import translated_rpc_errors

from groundline_coordinator.domain import Options, Retrieval
from groundline_coordinator.messages import (
    ReceivedCandidate,
    degradation_from_proto,
    timing_from_proto,
)

__all__ = ["SERVICE", "GrpcRetriever"]

SERVICE = "groundline.v1.RetrieverService"


class GrpcRetriever:
    """A Retriever; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: retriever_service_pb2_grpc.RetrieverServiceAsyncStub = (
            retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        )

    async def retrieve(
        self, query: str, collection_ids: Sequence[str], options: Options, conditions: Mapping[str, Any]
    ) -> Retrieval:
        request = retriever_service_pb2.RetrieveRequest(
            query=query,
            collection_ids=collection_ids,
            options=ParseDict(dict(options), options_pb2.RetrievalOptions()),
        )
        if conditions:
            request.filter.update(dict(conditions))
        with translated_rpc_errors():
            response = await self._stub.Retrieve(request)
        return Retrieval(
            candidates=[ReceivedCandidate(candidate) for candidate in response.candidates],
            degraded=[degradation_from_proto(degradation) for degradation in response.degraded],
            timings=[timing_from_proto(timing) for timing in response.timings],
        )
