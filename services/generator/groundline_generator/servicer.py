"""GeneratorService over gRPC: check, call, answer."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import grpc
from groundline.v1 import generator_service_pb2 as pb
from groundline.v1.generator_service_pb2_grpc import GeneratorServiceServicer
from groundline_runtime.errors import FailedPreconditionError

from groundline_generator.domain.calls import EXTRACTIVE, ModelChoice
from groundline_generator.service.answers.answering import AnswerService
from groundline_generator.service.claims.cascade import ClaimCascade
from groundline_generator.service.claims.splitting import split_claims
from groundline_generator.service.contextualizing import Contextualizer
from groundline_generator.service.describing import PictureDescriber
from groundline_generator.service.judging import ModelJudge
from groundline_generator.service.planning import TablePlanner
from groundline_generator.service.rewriting import Rewriter
from groundline_generator.service.sufficiency import SufficiencyJudge

SERVICE: Final = "groundline.v1.GeneratorService"

type _Context = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True, slots=True)
class UseCases:
    """Use cases behind the RPCs; None if one needs a language model and none is configured."""

    answers: AnswerService
    rewriter: Rewriter
    sufficiency: SufficiencyJudge
    claims: ClaimCascade
    models: ModelChoice = EXTRACTIVE
    relevance: ModelJudge | None = None
    contextualizer: Contextualizer | None = None
    describer: PictureDescriber | None = None
    planner: TablePlanner | None = None


class GeneratorServicer(GeneratorServiceServicer):
    def __init__(self, use_cases: UseCases) -> None:
        self._use_cases = use_cases

    async def Generate(  # noqa: N802
        self, request: pb.GenerateRequest, context: _Context
    ) -> AsyncIterator[pb.GenerateResponse]:
        _retries_end_here(context)
        async with aclosing(self._use_cases.answers.answer(request)) as responses:
            async for response in responses:
                yield response

    async def RewriteQuery(  # noqa: N802
        self, request: pb.RewriteQueryRequest, context: _Context
    ) -> pb.RewriteQueryResponse:
        _retries_end_here(context)
        return await self._use_cases.rewriter.rewrite(request)

    async def ContextualizeChunks(  # noqa: N802
        self, request: pb.ContextualizeChunksRequest, context: _Context
    ) -> pb.ContextualizeChunksResponse:
        _retries_end_here(context)
        return await _available(self._use_cases.contextualizer).contextualize(request)

    async def DescribePicture(  # noqa: N802
        self, request: pb.DescribePictureRequest, context: _Context
    ) -> pb.DescribePictureResponse:
        _retries_end_here(context)
        return await _available(self._use_cases.describer).describe(request)

    async def JudgeRelevance(  # noqa: N802
        self, request: pb.JudgeRelevanceRequest, context: _Context
    ) -> pb.JudgeRelevanceResponse:
        _retries_end_here(context)
        return await _available(self._use_cases.relevance).relevances(request)

    async def JudgeSufficiency(  # noqa: N802
        self, request: pb.JudgeSufficiencyRequest, context: _Context
    ) -> pb.JudgeSufficiencyResponse:
        _retries_end_here(context)
        return await self._use_cases.sufficiency.judge(request)

    async def PlanTable(  # noqa: N802
        self, request: pb.PlanTableRequest, context: _Context
    ) -> pb.PlanTableResponse:
        _retries_end_here(context)
        return await _available(self._use_cases.planner).plan(request)

    async def SplitClaims(  # noqa: N802
        self, request: pb.SplitClaimsRequest, context: _Context
    ) -> pb.SplitClaimsResponse:
        return await split_claims(request)

    async def JudgeClaims(  # noqa: N802
        self, request: pb.JudgeClaimsRequest, context: _Context
    ) -> pb.JudgeClaimsResponse:
        _retries_end_here(context)
        return await self._use_cases.claims.judge_claims(request)

    async def GetModelChoice(  # noqa: N802
        self, request: pb.GetModelChoiceRequest, context: _Context
    ) -> pb.GetModelChoiceResponse:
        return pb.GetModelChoiceResponse(models=self._use_cases.models.names)


def _retries_end_here(context: _Context) -> None:
    """Tell the client's channel not to retry: whatever can be retried has been.

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
