"""Rules in place of a language model that fails or is late."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_runtime.charges import usage_of
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)

_MODEL_SHARE: Final = 0.9
"""Share of the time left that a model may take where rules are quick."""


async def model_or[T, R](
    by_rules: Callable[[GroundlineError], Awaitable[R]], asked: Awaitable[T], share: float
) -> T | R:
    """Return a model's answer; if the model fails, or has not answered when `share` of the time left is gone,
    the rules' answer. A wrong request is the caller's mistake, and is raised."""
    left = remaining_seconds()
    try:
        async with deadline_within(share * left) if left is not None else nullcontext():
            return await asked
    except (DeadlineExceededError, InternalError, ResourceExhaustedError, UnavailableError) as error:
        return await by_rules(error)


async def model_or_rules[
    Q: (pb.RewriteQueryRequest, pb.JudgeSufficiencyRequest),
    A: (pb.RewriteQueryResponse, pb.JudgeSufficiencyResponse),
](request: Q, model: Callable[[Q], Awaitable[A]], rules: Callable[[Q], Awaitable[A]]) -> A:
    """Return a model's answer; if the model fails or is late, the rules' answer, which says why."""

    async def by_rules(error: GroundlineError) -> A:
        asked = type(request)()
        asked.CopyFrom(request)
        asked.ClearField("model")
        answer = await rules(asked)
        answer.fallback_reason = error.reason
        answer.usage.CopyFrom(usage_of(error))
        return answer

    return await model_or(by_rules, model(request), _MODEL_SHARE)
