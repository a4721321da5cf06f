"""The generator over gRPC."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

import grpc
from groundline.v1 import chat_pb2, generator_service_pb2, generator_service_pb2_grpc
from groundline_runtime.channels import cancelled_on_exit
from groundline_runtime.errors import InternalError
from groundline_runtime.status import UnaryCall, is_lost, translated_rpc_errors

SERVICE: Final = "groundline.v1.GeneratorService"

_FINISH_REASONS: Final = frozenset(chat_pb2.FinishReason.values())


class GrpcGenerator:
    """A Generator; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: generator_service_pb2_grpc.GeneratorServiceAsyncStub = (
            generator_service_pb2_grpc.GeneratorServiceStub(channel)
        )
        self.rewrite = UnaryCall(self._stub.RewriteQuery, "the generator")
        self.judge_sufficiency = UnaryCall(self._stub.JudgeSufficiency, "the generator")
        self.split_claims = UnaryCall(self._stub.SplitClaims, "the generator")
        self.judge_claims = UnaryCall(self._stub.JudgeClaims, "the generator")
        self._model_choice = UnaryCall(self._stub.GetModelChoice, "the generator")

    async def generate(
        self, request: generator_service_pb2.GenerateRequest
    ) -> AsyncGenerator[generator_service_pb2.GenerateResponse]:
        with translated_rpc_errors("the generator"):
            async with aclosing(self._responses(request)) as responses:
                async for response in responses:
                    if response.completed.finish_reason not in _FINISH_REASONS:
                        raise InternalError(
                            "FINISH_REASON_UNKNOWN", "the generator ended an answer for an unknown reason"
                        )
                    yield response

    async def _responses(
        self, request: generator_service_pb2.GenerateRequest
    ) -> AsyncGenerator[generator_service_pb2.GenerateResponse]:
        """Yield the events. The call is made once more if the generator was lost after its sign of life and
        before its first event, which the channel does not repeat."""
        is_first = True
        try:
            async with cancelled_on_exit(self._stub.Generate(request)) as responses:
                async for response in responses:
                    is_first = False
                    yield response
        except grpc.aio.AioRpcError as error:
            if not is_first or not is_lost(error):
                raise
        else:
            return
        async with cancelled_on_exit(self._stub.Generate(request)) as responses:
            async for response in responses:
                yield response

    async def models(self) -> Sequence[str]:
        response = await self._model_choice(generator_service_pb2.GetModelChoiceRequest())
        return response.models
