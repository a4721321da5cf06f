"""GeneratorService over gRPC."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc
from groundline.v1 import generator_service_pb2, generator_service_pb2_grpc
from groundline_runtime.errors import FailedPreconditionError

from groundline_generator import converters
from groundline_generator.contextualizing import Contextualizer
from groundline_generator.judging import FaithfulnessJudge, ModelJudge
from groundline_generator.rewriting import Rewriter
from groundline_generator.service import AnswerService

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


class GeneratorServicer(generator_service_pb2_grpc.GeneratorServiceServicer):
    def __init__(self, use_cases: UseCases, *, max_passage_characters: int) -> None:
        self._use_cases = use_cases
        self._max_passage_characters = max_passage_characters

    async def Generate(  # noqa: N802
        self, request: generator_service_pb2.GenerateRequest, context: _Context
    ) -> AsyncIterator[generator_service_pb2.GenerateResponse]:
        question = converters.to_question(request, max_passage_characters=self._max_passage_characters)
        async with aclosing(self._use_cases.answers.answer(question)) as events:
            async for event in events:
                yield converters.to_response(event)

    async def RewriteQuery(  # noqa: N802
        self, request: generator_service_pb2.RewriteQueryRequest, context: _Context
    ) -> generator_service_pb2.RewriteQueryResponse:
        asked = converters.to_rewrite(request)
        rewriting = await self._use_cases.rewriter.rewrite(
            asked.query, asked.history, asked.max_sub_queries, asked.model
        )
        return converters.from_rewriting(rewriting)

    async def ContextualizeChunks(  # noqa: N802
        self, request: generator_service_pb2.ContextualizeChunksRequest, context: _Context
    ) -> generator_service_pb2.ContextualizeChunksResponse:
        asked = converters.to_contextualize(request, max_passage_characters=self._max_passage_characters)
        contextualizer = _available(self._use_cases.contextualizer)
        contexts = await contextualizer.contexts(
            asked.title, asked.document, asked.chunks, asked.prompt, asked.model
        )
        return converters.from_contexts(contexts)

    async def JudgeRelevance(  # noqa: N802
        self, request: generator_service_pb2.JudgeRelevanceRequest, context: _Context
    ) -> generator_service_pb2.JudgeRelevanceResponse:
        asked = converters.to_relevance(request, max_passage_characters=self._max_passage_characters)
        judge = _available(self._use_cases.relevance)
        return converters.from_relevances(await judge.relevances(asked.query, asked.passages, asked.model))

    async def JudgeFaithfulness(  # noqa: N802
        self, request: generator_service_pb2.JudgeFaithfulnessRequest, context: _Context
    ) -> generator_service_pb2.JudgeFaithfulnessResponse:
        asked = converters.to_faithfulness(request, max_passage_characters=self._max_passage_characters)
        judged = await self._use_cases.faithfulness.judge(
            asked.query, asked.answer, asked.passages, asked.model
        )
        return converters.from_faithfulness(judged)


def _available[T](use_case: T | None) -> T:
    if use_case is None:
        raise FailedPreconditionError(
            "MODEL_NOT_AVAILABLE", "this needs a language model, and the generator's provider is extractive"
        )
    return use_case
