"""The reranker over gRPC."""

from collections.abc import Sequence

import grpc
from google.protobuf.json_format import ParseDict
from groundline.v1 import options_pb2, reranker_service_pb2, reranker_service_pb2_grpc
from groundline_runtime.status import translated_rpc_errors

from groundline_coordinator.domain import CandidateSet, Options, Ranking
from groundline_coordinator.messages import (
    candidate_to_proto,
    cut_from_proto,
    degradation_from_proto,
    passage_from_proto,
)

__all__ = ["SERVICE", "GrpcReranker"]

SERVICE = "groundline.v1.RerankerService"


class GrpcReranker:
    """A Reranker; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: reranker_service_pb2_grpc.RerankerServiceAsyncStub = (
            reranker_service_pb2_grpc.RerankerServiceStub(channel)
        )

    async def rerank(self, query: str, sets: Sequence[CandidateSet], options: Options) -> Ranking:
        request = reranker_service_pb2.RerankRequest(
            query=query,
            candidate_sets=[
                reranker_service_pb2.CandidateSet(
                    query=each.query,
                    candidates=[candidate_to_proto(candidate) for candidate in each.candidates],
                )
                for each in sets
            ],
            options=ParseDict(dict(options), options_pb2.RerankOptions()),
        )
        with translated_rpc_errors():
            response = await self._stub.Rerank(request)
        return Ranking(
            passages=[passage_from_proto(passage) for passage in response.passages],
            cut=[cut_from_proto(cut) for cut in response.cut],
            degraded=[degradation_from_proto(degradation) for degradation in response.degraded],
        )
