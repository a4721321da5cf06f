"""Puts candidates in order. What takes no model is groundline_ranking's; here are the models."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import structlog
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2
from groundline_ranking import (
    MODELS,
    Order,
    Pool,
    finish,
    in_fused_order,
    off_loop,
    pooled,
    rank,
    size_of,
    texts_of,
    wanted_chunks,
    window_of,
)
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    GroundlineError,
    InternalError,
)
from groundline_runtime.reasons import reason_value

from groundline_reranker.ports import Scorer

__all__ = ["RankingService"]

SCORING_SHARE = 0.8
"""Part of the time left that a model may take: the caller still has to get the fused order if it is late."""

_log = structlog.get_logger(__name__)


class RankingService:
    """`scorers` are the models that are set up; `scored_candidates`, how many of the best a model scores.

    It scores top_k at least, and what it does not score is cut.
    """

    def __init__(
        self,
        scorers: Mapping[options_pb2.RerankStrategy.ValueType, Scorer],
        *,
        scored_candidates: int = 50,
        timeout_seconds: float = 60.0,
    ) -> None:
        self._scorers = scorers
        self._scored_candidates = scored_candidates
        self._timeout_seconds = timeout_seconds

    async def rank(self, request: reranker_service_pb2.RerankRequest) -> reranker_service_pb2.RerankResponse:
        """Fuse, remove near-duplicates, rerank, drop what scores too low, keep the first top_k.

        Where the strategy needs texts that the request does not have, the response says which. A model that
        fails or is late leaves the fused order, and is named in `degraded`.
        """
        options = request.options
        if options.strategy not in MODELS:
            return await rank(request)
        pool = await pooled(request)
        seen, unseen = window_of(pool, options, self._scored_candidates)
        if seen and not request.has_chunks:
            return reranker_service_pb2.RerankResponse(wanted=wanted_chunks(pool, seen))
        degraded: list[passage_pb2.Degradation] = []
        try:
            order = await self._scored(request, pool, seen, unseen)
        except Exception as error:  # whatever goes wrong, there is an order to fall back on
            degraded.append(_degradation(MODELS[options.strategy], error))
            order = in_fused_order(pool)
        response = await off_loop(size_of(request), lambda: finish(pool, order, options))
        response.degraded.extend(degraded)
        return response

    async def _scored(
        self,
        request: reranker_service_pb2.RerankRequest,
        pool: Pool,
        seen: Sequence[int],
        unseen: Sequence[int],
    ) -> Order:
        """Those that the model scores in its order, and those that it does not see."""
        options = request.options
        name = MODELS[options.strategy]
        scorer = self._scorers.get(options.strategy)
        if scorer is None:
            raise FailedPreconditionError(
                "STRATEGY_NOT_CONFIGURED", f"the reranker is not set up for the strategy {name}"
            )
        texts = texts_of(pool, request.chunks)
        rows = [row for row in seen if row in texts]
        scores: Sequence[float] = ()
        if rows:
            async with deadline_within(self._seconds()):
                scores = await scorer.score(
                    request.query.strip(), [texts[row] for row in rows], options.model or None
                )
        if len(scores) != len(rows) or not all(map(math.isfinite, scores)):
            raise InternalError("SCORES_UNUSABLE", "the model's scores are incomplete or no numbers")
        values = np.array(scores, np.float64)
        # Of equal scores the better fused one stays first, which is what the model was given first.
        return Order(np.array(rows, np.int64), values, {name: (values, 1.0)}, unseen).sorted()

    def _seconds(self) -> float:
        left = remaining_seconds()
        return self._timeout_seconds if left is None else min(self._timeout_seconds, left * SCORING_SHARE)


def _degradation(strategy: str, error: Exception) -> passage_pb2.Degradation:
    """What a client may know of a failure; what was not expected is logged and shows nothing of itself."""
    if isinstance(error, DeadlineExceededError):
        reason, message = "RERANKER_LATE", f"the strategy {strategy} did not answer in time"
    elif isinstance(error, GroundlineError):
        reason, message = error.reason, error.message
    else:
        reason, message = "INTERNAL", f"the strategy {strategy} failed"
    if reason == "INTERNAL":
        _log.error("strategy_failed", strategy=strategy, exc_info=error)
    else:
        _log.warning("strategy_failed", strategy=strategy, reason=reason)
    return passage_pb2.Degradation(
        component=passage_pb2.COMPONENT_RERANKER,
        reason=reason_value(reason),
        message=f"{message}; passages are in the fused order",
    )
