"""GeneratorService over gRPC: check, call, answer."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc
from groundline.v1 import generator_service_pb2 as messages
from groundline.v1.generator_service_pb2_grpc import GeneratorServiceServicer
from groundline_runtime.errors import FailedPreconditionError
from groundline_validation import validate

from groundline_generator.service.answering import AnswerService
from groundline_generator.service.contextualizing import Contextualizer
from groundline_generator.service.judging import FaithfulnessJudge, ModelJudge
from groundline_generator.service.rewriting import Rewriter

__all__ = ["SERVICE", "GeneratorServicer", "UseCases"]

SERVICE = "groundline.v1.GeneratorService"

type _Context = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True, slots=True)
class UseCases:
    """What stands behind the RPCs; None where only a language model could do it and there is none."""

    answers: AnswerService
    rewriter: Rewriter
    faithfulness: FaithfulnessJudge
    relevance: ModelJudge | None = None
    contextualizer: Contextualizer | None = None


class GeneratorServicer(GeneratorServiceServicer):
    def __init__(self, use_cases: UseCases) -> None:
        self._use_cases = use_cases

    async def Generate(  # noqa: N802
        self, request: messages.GenerateRequest, context: _Context
    ) -> AsyncIterator[messages.GenerateResponse]:
        _retries_end_here(context)
        validate(request)
        async with aclosing(self._use_cases.answers.answer(request)) as responses:
            async for response in responses:
                yield response

    async def RewriteQuery(  # noqa: N802
        self, request: messages.RewriteQueryRequest, context: _Context
    ) -> messages.RewriteQueryResponse:
        _retries_end_here(context)
        validate(request)
        return await self._use_cases.rewriter.rewrite(request)

    async def ContextualizeChunks(  # noqa: N802
        self, request: messages.ContextualizeChunksRequest, context: _Context
    ) -> messages.ContextualizeChunksResponse:
        _retries_end_here(context)
        validate(request)
        return await _available(self._use_cases.contextualizer).contextualize(request)

    async def JudgeRelevance(  # noqa: N802
        self, request: messages.JudgeRelevanceRequest, context: _Context
    ) -> messages.JudgeRelevanceResponse:
        _retries_end_here(context)
        validate(request)
        return await _available(self._use_cases.relevance).relevances(request)

    async def JudgeFaithfulness(  # noqa: N802
        self, request: messages.JudgeFaithfulnessRequest, context: _Context
    ) -> messages.JudgeFaithfulnessResponse:
        _retries_end_here(context)
        validate(request)
        return await self._use_cases.faithfulness.judge(request)


def _retries_end_here(context: _Context) -> None:
    """Tell the client's channel not to repeat what fails here: what can be repeated has been.

    Only a call that never arrives is tried elsewhere, and a client may act on the RetryInfo. See gRFC A6,
    "pushback".
    """
    context.set_trailing_metadata((("grpc-retry-pushback-ms", "-1"),))


def _available[T](use_case: T | None) -> T:
    if use_case is None:
        raise FailedPreconditionError(
            "MODEL_NOT_AVAILABLE", "this needs a language model, and the generator's provider is extractive"
        )
    return use_case
