"""GeneratorService over gRPC."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Never

import grpc
from groundline.v1 import generator_service_pb2, generator_service_pb2_grpc
from groundline_runtime.errors import UnimplementedError

from groundline_generator.converters import to_question, to_response
from groundline_generator.service import AnswerService

__all__ = ["SERVICE", "GeneratorServicer"]

SERVICE = "groundline.v1.GeneratorService"


class GeneratorServicer(generator_service_pb2_grpc.GeneratorServiceServicer):
    def __init__(self, service: AnswerService, *, max_passage_characters: int) -> None:
        self._service = service
        self._max_passage_characters = max_passage_characters

    async def Generate(  # noqa: N802
        self,
        request: generator_service_pb2.GenerateRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> AsyncIterator[generator_service_pb2.GenerateResponse]:
        question = to_question(request, max_passage_characters=self._max_passage_characters)
        async with aclosing(self._service.answer(question)) as events:
            async for event in events:
                yield to_response(event)

    async def RewriteQuery(self, request: Any, context: Any) -> Never:  # noqa: N802
        raise _not_available("RewriteQuery")

    async def ContextualizeChunks(self, request: Any, context: Any) -> Never:  # noqa: N802
        raise _not_available("ContextualizeChunks")

    async def JudgeRelevance(self, request: Any, context: Any) -> Never:  # noqa: N802
        raise _not_available("JudgeRelevance")

    async def JudgeFaithfulness(self, request: Any, context: Any) -> Never:  # noqa: N802
        raise _not_available("JudgeFaithfulness")


def _not_available(method: str) -> UnimplementedError:
    return UnimplementedError("METHOD_NOT_AVAILABLE", f"{method} is not available in this release")
