"""Answers to requests for a cross-encoder that is not there."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from groundline.v1 import error_pb2, options_pb2, passage_pb2
from groundline_reranker.__main__ import wire
from groundline_reranker.adapters.cross_encoder import CrossEncoderScorer
from groundline_reranker.service import RankingService
from groundline_reranker.settings import RerankerSettings
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
        [Found(1, 10.0, None), Found(2, 5.0, None)], options=options_pb2.RerankOptions(strategy=CROSS_ENCODER)
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


async def said_at_start(**settings: Any) -> list[tuple[str, str]]:
    """Return level and reason of what the service says about its cross-encoder."""
    with structlog.testing.capture_logs() as logs:
        async with wire(RerankerSettings(**settings)):
            pass
    return [(each["log_level"], each["why"]) for each in logs if each["event"] == "cross_encoder_missing"]


async def test_a_directory_without_the_model_is_a_warning_at_start(tmp_path: Path) -> None:
    [(level, why)] = await said_at_start(cross_encoder_dir=tmp_path)
    assert level == "warning"
    assert "neither model.onnx" in why
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").touch()
    assert await said_at_start(cross_encoder_dir=tmp_path) == []


async def test_a_cache_without_the_model_is_a_warning_at_start(tmp_path: Path) -> None:
    settings = {"cross_encoder_model": "example/model", "cross_encoder_cache_dir": tmp_path}
    [(level, why)] = await said_at_start(**settings)
    assert level == "warning"
    assert "has to download" in why
    files = tmp_path / "models--example--model" / "snapshots" / "abc" / "onnx"
    files.mkdir(parents=True)
    (files / "model.onnx").touch()
    assert await said_at_start(**settings) == []


async def test_without_its_library_or_any_setting_it_is_said_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [(level, why)] = await said_at_start()
    assert (level, "no directory is set" in why) == ("info", True)
    monkeypatch.setattr("groundline_reranker.adapters.cross_encoder.find_spec", lambda _: None)
    [(level, why)] = await said_at_start()
    assert (level, "is not installed" in why) == ("info", True)
