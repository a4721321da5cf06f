"""Rules in place of a language model that fails or is late."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)

__all__ = ["model_or"]


async def model_or[T](
    by_rules: Callable[[GroundlineError], Awaitable[T]], asked: Awaitable[T], share: float
) -> T:
    """Return a model's answer; if the model fails, or has not answered when `share` of the time left is gone,
    the rules' answer. A wrong request is the caller's mistake, and is raised."""
    left = remaining_seconds()
    try:
        async with deadline_within(share * left) if left is not None else nullcontext():
            return await asked
    except (DeadlineExceededError, InternalError, ResourceExhaustedError, UnavailableError) as error:
        return await by_rules(error)
