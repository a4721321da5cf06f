"""The coordinator over gRPC."""

from collections.abc import AsyncGenerator
from typing import Final

import grpc
from groundline.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc
from groundline_runtime.channels import cancelled_on_exit
from groundline_runtime.status import UnaryCall, translated_rpc_errors

SERVICE: Final = "groundline.v1.CoordinatorService"


class GrpcCoordinator:
    """A Coordinator; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: coordinator_service_pb2_grpc.CoordinatorServiceAsyncStub = (
            coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
        )
        self.answer = UnaryCall(self._stub.Answer, "the coordinator")

    async def chat(
        self, request: coordinator_service_pb2.ChatRequest
    ) -> AsyncGenerator[coordinator_service_pb2.ChatResponse]:
        with translated_rpc_errors("the coordinator"):
            async with cancelled_on_exit(self._stub.Chat(request)) as responses:
                async for response in responses:
                    # An error event is followed by the status, which says more; an empty message only keeps
                    # the stream alive, and would delay the bridge's own comments.
                    if response.WhichOneof("event") not in (None, "error"):
                        yield response

    async def verify(
        self, request: coordinator_service_pb2.VerifyRequest
    ) -> AsyncGenerator[coordinator_service_pb2.VerifyResponse]:
        with translated_rpc_errors("the coordinator"):
            async with cancelled_on_exit(self._stub.Verify(request)) as responses:
                async for response in responses:
                    if response.WhichOneof("event") not in (None, "error"):
                        yield response
