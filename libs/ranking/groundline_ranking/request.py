"""Ranks the candidates of a request, as far as that takes no model."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2

from groundline_ranking.candidates import Candidates, candidates_of
from groundline_ranking.ranking import (
    Order,
    Pool,
    by_weights,
    finish,
    in_fused_order,
    pool_of,
    top_k_of,
    wanted_chunks,
)
from groundline_ranking.weighted import Texts, reads_texts

__all__ = ["INLINE_CANDIDATES", "MODELS", "off_loop", "pooled", "rank", "size_of", "texts_of", "window_of"]

INLINE_CANDIDATES = 1000
"""Up to this many are ranked in about 5 ms, which an event loop can bear; more go to a thread."""

READ_CANDIDATES = 50
"""How many of the best fused candidates are read where words count; top_k where that is more."""

MODELS: Mapping[options_pb2.RerankStrategy.ValueType, str] = {
    options_pb2.RERANK_STRATEGY_CROSS_ENCODER: "cross_encoder",
    options_pb2.RERANK_STRATEGY_API: "api",
    options_pb2.RERANK_STRATEGY_LLM: "llm",
}
"""Strategies that ask a model, by the name of the component that its score becomes in explanations."""


async def rank(
    request: reranker_service_pb2.RerankRequest, candidates: Candidates | None = None
) -> reranker_service_pb2.RerankResponse:
    """Fuse, remove near-duplicates, order, drop what scores too low, keep the first top_k.

    For the strategies `none` and `weighted`. Where words count and the request has no texts, the response is
    `wanted`: the chunks to send with it. `candidates`: the request's, where the caller has them as columns.
    """

    def ranked() -> reranker_service_pb2.RerankResponse:
        return _ranked(request, candidates_of(request.candidate_sets) if candidates is None else candidates)

    if _weighs_words(request.options) and request.has_chunks:
        return await asyncio.to_thread(ranked)
    return await off_loop(size_of(request) if candidates is None else len(candidates), ranked)


async def pooled(request: reranker_service_pb2.RerankRequest) -> Pool:
    """All candidates of a request in one fused list, without near-duplicates."""
    return await off_loop(
        size_of(request), lambda: pool_of(candidates_of(request.candidate_sets), request.options)
    )


def window_of(
    pool: Pool, options: options_pb2.RerankOptions, maximum: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Rows that a strategy reads, `maximum` of them or top_k where that is more, and the other rows."""
    window = max(top_k_of(options), maximum)
    return pool.rows[:window].tolist(), pool.rows[window:].tolist()


def texts_of(pool: Pool, chunks: Sequence[passage_pb2.Chunk]) -> Texts:
    """The chunks by row; what is no candidate is left out."""
    rows = {chunk_id: row for row, chunk_id in enumerate(pool.candidates.chunk_ids.tolist())}
    return {rows[int(chunk.chunk_id)]: chunk for chunk in chunks if int(chunk.chunk_id) in rows}


def size_of(request: reranker_service_pb2.RerankRequest) -> int:
    """How many candidates there are; one that several queries found counts for each."""
    return sum(len(each.features.chunk_ids) for each in request.candidate_sets)


async def off_loop[Result](size: int, work: Callable[[], Result]) -> Result:
    """What `work` returns, for so many candidates; done in a thread where it would hold the loop up."""
    return work() if size <= INLINE_CANDIDATES else await asyncio.to_thread(work)


def _weighs_words(options: options_pb2.RerankOptions) -> bool:
    return options.strategy == options_pb2.RERANK_STRATEGY_WEIGHTED and reads_texts(options)


def _ranked(
    request: reranker_service_pb2.RerankRequest, candidates: Candidates
) -> reranker_service_pb2.RerankResponse:
    options = request.options
    pool = pool_of(candidates, options)
    if options.strategy != options_pb2.RERANK_STRATEGY_WEIGHTED:
        return finish(pool, in_fused_order(pool), options)
    if not _weighs_words(options):
        return finish(pool, by_weights(pool, pool.rows, {}, "", options), options)
    seen, unseen = window_of(pool, options, READ_CANDIDATES)
    if seen and not request.has_chunks:
        return reranker_service_pb2.RerankResponse(wanted=wanted_chunks(pool, seen))
    texts = texts_of(pool, request.chunks)
    rows = np.array([row for row in seen if row in texts], np.int64)
    order = by_weights(pool, rows, texts, request.query.strip(), options)
    return finish(pool, Order(order.rows, order.scores, order.components, unseen), options)
