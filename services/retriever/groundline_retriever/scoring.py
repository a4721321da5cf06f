"""Scores of a model, from the reranker."""

from collections.abc import Sequence
from typing import Final

from groundline.v1 import error_pb2, options_pb2, passage_pb2, reranker_service_pb2
from groundline_runtime.charges import charge
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import Code, GroundlineError, named_as_sent
from opentelemetry import trace

from groundline_retriever.ports import Reranker

RERANKING_SHARE: Final = 0.5
"""Share of a request's remaining time that a model may take; the texts still have to be read after it."""

IS_DOWN: Final = frozenset(
    {
        Code.UNAVAILABLE,
        Code.DEADLINE_EXCEEDED,
        Code.RESOURCE_EXHAUSTED,
        Code.INTERNAL,
        Code.UNKNOWN,
        Code.CANCELLED,
    }
)
"""Failures of a called service itself, for which there is a fallback; others mean a wrong request."""


class ModelScores:
    """Client of the reranker for scores of texts, within a time that leaves enough for the rest of the
    search."""

    def __init__(self, reranker: Reranker, *, timeout_seconds: float) -> None:
        self._reranker = reranker
        self._timeout_seconds = timeout_seconds

    async def of(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], options: options_pb2.RerankOptions
    ) -> Sequence[float] | passage_pb2.Degradation:
        """Return the score of each chunk by the model of the strategy, or why there are no scores."""
        request = reranker_service_pb2.RerankRequest(
            query=query,
            candidates=[
                passage_pb2.Chunk(
                    chunk_id=each.chunk_id, text=each.text, context=each.context, title=each.title
                )
                for each in chunks
            ],
            options=options_pb2.RerankOptions(
                strategy=options.strategy,
                model=options.model if options.HasField("model") else None,
                top_k=len(chunks),
                deduplication_threshold=0,
            ),
        )
        left = remaining_seconds()
        seconds = self._timeout_seconds
        try:
            with named_as_sent("rerank"):
                async with deadline_within(seconds if left is None else min(seconds, left * RERANKING_SHARE)):
                    response = await self._reranker.rerank(request)
        except GroundlineError as error:
            if error.code not in IS_DOWN:
                raise
            trace.get_current_span().set_attribute("error.type", error.reason)
            return _unavailable()
        charge(response.usage)
        if response.degraded:
            return response.degraded[0]
        scores = {each.chunk_id: each.score for each in response.ranked}
        if scores.keys() != {each.chunk_id for each in chunks}:
            return _unavailable()
        return [scores[each.chunk_id] for each in chunks]


def _unavailable() -> passage_pb2.Degradation:
    return passage_pb2.Degradation(
        component=passage_pb2.COMPONENT_RERANKER,
        reason=error_pb2.RERANKER_UNAVAILABLE,
        message="the reranker did not answer; passages are in the fused order",
    )
