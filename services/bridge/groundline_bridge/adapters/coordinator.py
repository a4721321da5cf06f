"""The coordinator over gRPC."""

from collections.abc import AsyncGenerator

import grpc
from groundline.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc
from groundline_runtime.channels import cancelled_on_exit
from groundline_runtime.status import translated_rpc_errors

__all__ = ["SERVICE", "GrpcCoordinator"]

SERVICE = "groundline.v1.CoordinatorService"


class GrpcCoordinator:
    """A Coordinator; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: coordinator_service_pb2_grpc.CoordinatorServiceAsyncStub = (
            coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
        )

    async def chat(
        self, request: coordinator_service_pb2.ChatRequest
    ) -> AsyncGenerator[coordinator_service_pb2.ChatResponse]:
        with translated_rpc_errors("the coordinator"):
            async with cancelled_on_exit(self._stub.Chat(request)) as responses:
                async for response in responses:
                    # After an error follows the status, which says more; an empty message is a sign of life,
                    # and would put off those that the bridge gives.
                    if response.WhichOneof("event") not in (None, "error"):
                        yield response

    async def answer(
        self, request: coordinator_service_pb2.AnswerRequest
    ) -> coordinator_service_pb2.AnswerResponse:
        with translated_rpc_errors("the coordinator"):
            return await self._stub.Answer(request)

    async def search(
        self, request: coordinator_service_pb2.SearchRequest
    ) -> coordinator_service_pb2.SearchResponse:
        with translated_rpc_errors("the coordinator"):
            return await self._stub.Search(request)
