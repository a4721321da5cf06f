"""Puts candidates in order: fuse, fold, rerank, diversify, cut."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    GroundlineError,
    InternalError,
)

from groundline_reranker.domain import (
    Candidate,
    Component,
    Degradation,
    Options,
    Passage,
    Ranking,
    Strategy,
)
from groundline_reranker.ports import Scorer
from groundline_reranker.ranking import Fused, finish, fuse_and_fold

__all__ = ["RankingService"]

INLINE_CANDIDATES = 250
"""Up to this many are ranked in about 5 ms, which the event loop can bear; more go to a thread."""

SCORING_SHARE = 0.8
"""Part of the time left that a model may take: the caller still has to get the fused order if it is late."""

_log = structlog.get_logger(__name__)


class RankingService:
    """`scorers` are the models that are set up; `scored_candidates`, how many of the best one is shown.

    It is shown top_k at least, and what it does not see is cut.
    """

    def __init__(
        self,
        scorers: Mapping[Strategy, Scorer],
        *,
        scored_candidates: int = 50,
        timeout_seconds: float = 60.0,
    ) -> None:
        self._scorers = scorers
        self._scored_candidates = scored_candidates
        self._timeout_seconds = timeout_seconds

    async def rank(
        self, query: str, candidate_sets: Sequence[Sequence[Candidate]], options: Options
    ) -> Ranking:
        """Fuse, fold near-duplicates, rerank, drop what scores too low, keep the first top_k.

        A strategy that fails or is late leaves the fused order, and is named in `degraded`.
        """
        size = sum(map(len, candidate_sets))
        fused = await _off_loop(size, fuse_and_fold, candidate_sets, options)
        degraded: tuple[Degradation, ...] = ()
        ranked: Sequence[Passage] = fused.kept
        unseen: Sequence[Passage] = ()
        if options.strategy in (Strategy.CROSS_ENCODER, Strategy.API, Strategy.LLM):
            try:
                ranked, unseen = await self._scored(query, fused, options)
            except Exception as error:  # whatever goes wrong, there is an order to fall back on
                degraded = (_degradation(options.strategy, error),)
        ranking = await _off_loop(size, finish, query, fused, ranked, unseen, options)
        return Ranking(ranking.passages, ranking.cut, degraded)

    async def _scored(
        self, query: str, fused: Fused, options: Options
    ) -> tuple[Sequence[Passage], Sequence[Passage]]:
        """Those that the model saw in its order, and those that it did not see."""
        scorer = self._scorers.get(options.strategy)
        if scorer is None:
            raise FailedPreconditionError(
                "STRATEGY_NOT_CONFIGURED",
                f"the reranker is not set up for the strategy {options.strategy.value}",
            )
        window = max(options.top_k, self._scored_candidates)
        seen = fused.kept[:window]
        if not seen:
            return (), ()
        async with deadline_within(self._seconds()):
            scores = await scorer.score(
                query, [fused.candidates[passage.chunk_id] for passage in seen], options.model
            )
        if len(scores) != len(seen) or not all(map(math.isfinite, scores)):
            raise InternalError("SCORES_UNUSABLE", "the model's scores are incomplete or no numbers")
        name = options.strategy.value
        ranked = [
            replace(passage, components=(Component(name, score, 1.0),), final_score=score)
            for passage, score in zip(seen, scores, strict=True)
        ]
        # Of equal scores the better fused one, which is what the model was given first.
        ranked.sort(key=lambda passage: -passage.final_score)
        return ranked, fused.kept[window:]

    def _seconds(self) -> float:
        left = remaining_seconds()
        return self._timeout_seconds if left is None else min(self._timeout_seconds, left * SCORING_SHARE)


async def _off_loop[*Arguments, Result](size: int, function, *arguments):  # type: ignore[no-untyped-def]
    return (
        function(*arguments) if size <= INLINE_CANDIDATES else await asyncio.to_thread(function, *arguments)
    )


def _degradation(strategy: Strategy, error: Exception) -> Degradation:
    """What a client may know of a failure; what was not expected is logged and shows nothing of itself."""
    if isinstance(error, DeadlineExceededError):
        reason, message = "RERANKER_LATE", f"the strategy {strategy.value} did not answer in time"
    elif isinstance(error, GroundlineError):
        reason, message = error.reason, error.message
    else:
        _log.error("strategy_failed", strategy=strategy.value, exc_info=error)
        return Degradation(
            "reranker", "INTERNAL", f"the strategy {strategy.value} failed; passages are in the fused order"
        )
    _log.warning("strategy_failed", strategy=strategy.value, reason=reason)
    return Degradation("reranker", reason, f"{message}; passages are in the fused order")
