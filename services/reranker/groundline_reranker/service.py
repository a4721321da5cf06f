"""Puts candidates in order: fuse, deduplicate, rerank, diversify, cut."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import structlog
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    GroundlineError,
    InternalError,
)
from groundline_runtime.reasons import reason_value

from groundline_reranker.domain.candidates import candidates_of
from groundline_reranker.domain.ranking import (
    Order,
    Pool,
    by_weights,
    finish,
    in_fused_order,
    pool_of,
    top_k_of,
    wanted_chunks,
)
from groundline_reranker.domain.weighted import Texts, reads_texts
from groundline_reranker.ports import Scorer

__all__ = ["RankingService"]

INLINE_CANDIDATES = 1000
"""Up to this many are ranked in about 5 ms, which the event loop can bear; more go to a thread."""

SCORING_SHARE = 0.8
"""Part of the time left that a model may take: the caller still has to get the fused order if it is late."""

_NAMES: Mapping[int, str] = {
    options_pb2.RERANK_STRATEGY_CROSS_ENCODER: "cross_encoder",
    options_pb2.RERANK_STRATEGY_API: "api",
    options_pb2.RERANK_STRATEGY_LLM: "llm",
}
"""Of the strategies that ask a model, as the component that its score becomes in explanations."""

_log = structlog.get_logger(__name__)


class RankingService:
    """`scorers` are the models that are set up; `scored_candidates`, how many of the best a strategy reads.

    It reads top_k at least, and what it does not read is cut.
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

        Where the strategy needs texts that the request does not have, the response says which. A strategy
        that fails or is late leaves the fused order, and is named in `degraded`.
        """
        options = request.options
        size = sum(len(each.features.chunk_ids) for each in request.candidate_sets)
        pool = await _off_loop(size, lambda: pool_of(candidates_of(request.candidate_sets), options))
        if not self._reads_texts(options):
            order = await _off_loop(size, lambda: _without_texts(pool, options))
            return await _off_loop(size, lambda: finish(pool, order, options))
        window = max(top_k_of(options), self._scored_candidates)
        seen, unseen = pool.rows[:window].tolist(), pool.rows[window:].tolist()
        if seen and not request.has_chunks:
            return reranker_service_pb2.RerankResponse(wanted=wanted_chunks(pool, seen))
        texts = _texts(pool, request.chunks)
        seen = [row for row in seen if row in texts]
        degraded: list[passage_pb2.Degradation] = []
        try:
            order = await self._with_texts(request, pool, seen, unseen, texts)
        except Exception as error:  # whatever goes wrong, there is an order to fall back on
            degraded.append(_degradation(_NAMES[options.strategy], error))
            order = in_fused_order(pool)
        response = await _off_loop(size, lambda: finish(pool, order, options))
        response.degraded.extend(degraded)
        return response

    def _reads_texts(self, options: options_pb2.RerankOptions) -> bool:
        if options.strategy == options_pb2.RERANK_STRATEGY_WEIGHTED:
            return reads_texts(options)
        return options.strategy in _NAMES

    async def _with_texts(
        self,
        request: reranker_service_pb2.RerankRequest,
        pool: Pool,
        seen: Sequence[int],
        unseen: Sequence[int],
        texts: Texts,
    ) -> Order:
        """Those that the strategy reads in its order, and those that it does not read."""
        rows, options, query = np.array(seen, np.int64), request.options, request.query.strip()
        if options.strategy == options_pb2.RERANK_STRATEGY_WEIGHTED:
            order = await asyncio.to_thread(by_weights, pool, rows, texts, query, options)
            return Order(order.rows, order.scores, order.components, unseen)
        name = _NAMES[options.strategy]
        scorer = self._scorers.get(options.strategy)
        if scorer is None:
            raise FailedPreconditionError(
                "STRATEGY_NOT_CONFIGURED", f"the reranker is not set up for the strategy {name}"
            )
        scores: Sequence[float] = ()
        if seen:
            async with deadline_within(self._seconds()):
                scores = await scorer.score(query, [texts[row] for row in seen], options.model or None)
        if len(scores) != len(seen) or not all(map(math.isfinite, scores)):
            raise InternalError("SCORES_UNUSABLE", "the model's scores are incomplete or no numbers")
        values = np.array(scores, np.float64)
        # Of equal scores the better fused one stays first, which is what the model was given first.
        return Order(rows, values, {name: (values, 1.0)}, unseen).sorted()

    def _seconds(self) -> float:
        left = remaining_seconds()
        return self._timeout_seconds if left is None else min(self._timeout_seconds, left * SCORING_SHARE)


def _without_texts(pool: Pool, options: options_pb2.RerankOptions) -> Order:
    if options.strategy == options_pb2.RERANK_STRATEGY_WEIGHTED:
        return by_weights(pool, pool.rows, {}, "", options)
    return in_fused_order(pool)


def _texts(pool: Pool, chunks: Sequence[passage_pb2.Chunk]) -> Texts:
    rows = {chunk_id: row for row, chunk_id in enumerate(pool.candidates.chunk_ids.tolist())}
    return {rows[int(chunk.chunk_id)]: chunk for chunk in chunks if int(chunk.chunk_id) in rows}


async def _off_loop[Result](size: int, work: Callable[[], Result]) -> Result:
    return work() if size <= INLINE_CANDIDATES else await asyncio.to_thread(work)


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
