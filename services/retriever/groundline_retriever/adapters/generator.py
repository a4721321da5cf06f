"""The generator over gRPC, which asks a language model for plans of tables."""

from typing import Final

import grpc
from groundline.v1 import generator_service_pb2_grpc
from groundline_runtime.status import UnaryCall

__all__ = ["SERVICE", "GrpcTablePlanner"]

SERVICE: Final = "groundline.v1.GeneratorService"


class GrpcTablePlanner:
    """A TablePlanner; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub: generator_service_pb2_grpc.GeneratorServiceAsyncStub = (
            generator_service_pb2_grpc.GeneratorServiceStub(channel)
        )
        self.plan = UnaryCall(stub.PlanTable, "the generator")
