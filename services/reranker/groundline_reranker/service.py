"""Ranking of a request's candidates. groundline_ranking does everything but the models."""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import structlog
from groundline.v1 import options_pb2, passage_pb2
from groundline.v1 import reranker_service_pb2 as pb
from groundline_ranking import MODELS, ArmHits, Candidates, Hit, Ranked, Ranking, rank
from groundline_runtime.charges import metered, total
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    GroundlineError,
    InternalError,
)
from groundline_runtime.reasons import reason_value
from groundline_signatures import signature

from groundline_reranker.ports import Scorer

SCORING_SHARE: Final = 0.8
"""Share of the time left that a model may take: the caller still has to get the fused order if it is late."""

_log = structlog.get_logger(__name__)


class RankingService:
    """Use case of Rerank; `scorers` are the configured models."""

    def __init__(
        self,
        scorers: Mapping[options_pb2.RerankStrategy.ValueType, Scorer],
        *,
        timeout_seconds: float = 60.0,
    ) -> None:
        self._scorers = scorers
        self._timeout_seconds = timeout_seconds

    async def rank(self, request: pb.RerankRequest) -> pb.RerankResponse:
        """Fuse, remove near-duplicates, rerank, drop low scores, keep the first top_k.

        Any failure of a model leaves the fused order, and is named in `degraded`.
        """
        chunks = request.candidates

        async def read(wanted: Mapping[str, Sequence[int]]) -> Mapping[int, passage_pb2.Chunk]:
            rows = (row for rows in wanted.values() for row in rows)
            return {row: chunks[row] for row in rows if chunks[row].text}

        async def documents(wanted: Mapping[str, Sequence[int]]) -> Mapping[int, str]:
            rows = (row for rows in wanted.values() for row in rows)
            return {row: chunks[row].document_id for row in rows if chunks[row].document_id}

        async def score(seen: Sequence[passage_pb2.Chunk]) -> Sequence[float] | passage_pb2.Degradation:
            try:
                return await self._scores(request, seen)
            except Exception as error:  # whatever fails, the fused order is a fallback
                return _degradation(MODELS[request.options.strategy], error)

        candidates = await asyncio.to_thread(lambda: Candidates.of([list(_found(request))]))
        query = request.query.strip()
        with metered() as paid:
            ranking = await rank(
                candidates,
                query,
                request.options,
                read=read,
                score=score,
                documents=documents,
                window=len(candidates.hits),
            )
        response = _response(ranking, chunks)
        response.usage.CopyFrom(total(paid))
        return response

    async def _scores(
        self, request: pb.RerankRequest, chunks: Sequence[passage_pb2.Chunk]
    ) -> Sequence[float]:
        options = request.options
        scorer = self._scorers.get(options.strategy)
        if scorer is None:
            raise FailedPreconditionError(
                "STRATEGY_NOT_CONFIGURED",
                f"the reranker is not set up for the strategy {MODELS[options.strategy]}",
            )
        async with deadline_within(self._seconds()):
            scores = await scorer.score(request.query.strip(), chunks, options.model or None)
        if len(scores) != len(chunks) or not all(map(math.isfinite, scores)):
            raise InternalError("SCORES_UNUSABLE", "the model's scores are incomplete or no numbers")
        return scores

    def _seconds(self) -> float:
        left = remaining_seconds()
        return self._timeout_seconds if left is None else min(self._timeout_seconds, left * SCORING_SHARE)


def _found(request: pb.RerankRequest) -> Iterator[ArmHits]:
    """Yield the lists of a request, or one with all candidates in their order; a candidate's id is its
    index."""
    options = request.options
    compares = options.HasField("mmr_lambda") or (
        options.deduplication_threshold or not options.HasField("deduplication_threshold")
    )
    hits = {
        chunk.chunk_id: Hit(
            place,
            1 / (1 + place),
            chunk.collection_id,
            chunk.chunk_index,
            chunk.update_time.seconds,
            chunk.source_type,
            signature(chunk.text) if compares and chunk.text else b"",
        )
        for place, chunk in enumerate(request.candidates)
    }
    if not request.lists:
        yield ArmHits(pb.SEARCH_ARM_UNSPECIFIED, list(hits.values()))
    for ranked in request.lists:
        found = zip(ranked.chunk_ids, ranked.scores, strict=True)
        yield ArmHits(ranked.arm, [hits[chunk_id]._replace(score=score) for chunk_id, score in found])


def _response(ranking: Ranking, chunks: Sequence[passage_pb2.Chunk]) -> pb.RerankResponse:
    """Name the candidates as the request does."""
    for each in ranking.cut:
        each.chunk_id = chunks[int(each.chunk_id)].chunk_id
    return pb.RerankResponse(
        ranked=[_ranked(each, chunks) for each in ranking.ranked], cut=ranking.cut, degraded=ranking.degraded
    )


def _ranked(each: Ranked, chunks: Sequence[passage_pb2.Chunk]) -> pb.RankedChunk:
    return pb.RankedChunk(
        chunk_id=chunks[each.chunk_id].chunk_id,
        score=each.score,
        explanation=each.explanation,
        duplicates=[
            pb.DuplicateChunk(chunk_id=chunks[duplicate.chunk_id].chunk_id, similarity=duplicate.similarity)
            for duplicate in each.duplicates
        ],
    )


def _degradation(strategy: str, error: Exception) -> passage_pb2.Degradation:
    """Return what a client may know of a failure; an unexpected one is logged and shows nothing of itself."""
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
