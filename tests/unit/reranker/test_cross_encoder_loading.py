"""Answers to requests for a cross-encoder that is not there."""

import asyncio
from typing import TYPE_CHECKING

import pytest
from groundline.v1 import error_pb2, options_pb2, passage_pb2
from groundline_reranker.adapters.cross_encoder import CrossEncoderScorer
from groundline_reranker.service import RankingService
from groundline_runtime.errors import UnavailableError
from groundline_tests.retriever.candidates import Found, request_of

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

CROSS_ENCODER = options_pb2.RERANK_STRATEGY_CROSS_ENCODER


class NeverLoaded(CrossEncoderScorer):
    """Its download neither ends nor fails."""

    def __init__(self) -> None:
        super().__init__("example/model", None, cache_dir=None, threads=None, batch_size=8)
        self.loads = 0

    async def _open(self) -> "TextCrossEncoder":
        self.loads += 1
        await asyncio.Event().wait()
        raise AssertionError("it is never set")


async def test_a_model_that_is_not_loaded_in_time_is_named_and_not_called_late() -> None:
    scorer = NeverLoaded()
    request = request_of(
        [Found(1, 10.0, None), Found(2, 5.0, None)],
        options=options_pb2.RerankOptions(strategy=CROSS_ENCODER),
    )
    service = RankingService({CROSS_ENCODER: scorer}, timeout_seconds=1)
    try:
        responses = await asyncio.gather(service.rank(request), service.rank(request))
    finally:
        await scorer.close()
    for response in responses:
        assert [each.chunk_id for each in response.ranked] == ["1", "2"]
        [degraded] = response.degraded
        assert (degraded.component, degraded.reason) == (
            passage_pb2.COMPONENT_RERANKER,
            error_pb2.MODEL_NOT_LOADED,
        )
        assert "example/model is not loaded yet" in degraded.message
    assert scorer.loads == 1


async def test_a_load_that_fails_ends_the_wait() -> None:
    class Broken(NeverLoaded):
        async def _open(self) -> "TextCrossEncoder":
            raise UnavailableError("MODEL_NOT_LOADED", "the cross-encoder cannot be loaded")

    scorer = Broken()
    try:
        with pytest.raises(UnavailableError, match="cannot be loaded"):
            await scorer.score("query", [passage_pb2.Chunk(text="a")], None)
    finally:
        await scorer.close()
