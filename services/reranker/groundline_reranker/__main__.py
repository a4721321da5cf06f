"""Entry point of the reranker."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
from groundline.v1 import options_pb2, reranker_service_pb2_grpc
from groundline_runtime.channels import service_channel
from groundline_runtime.serving.server import Application, run
from groundline_validation import validate

from groundline_reranker.adapters.cross_encoder import CrossEncoderScorer
from groundline_reranker.adapters.generator import SERVICE as GENERATOR
from groundline_reranker.adapters.generator import JudgeScorer
from groundline_reranker.ports import Scorer
from groundline_reranker.service import RankingService
from groundline_reranker.servicer import SERVICE, RerankerServicer
from groundline_reranker.settings import RerankerSettings

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def wire(settings: RerankerSettings) -> AsyncIterator[Application]:
    """Provide the service. A model that is unavailable degrades requests, not readiness."""
    async with AsyncExitStack() as stack:
        servicer = RerankerServicer(
            RankingService(
                await _scorers(settings, stack),
                timeout_seconds=settings.strategy_timeout_seconds,
            )
        )
        yield Application(
            services={
                SERVICE: lambda server: reranker_service_pb2_grpc.add_RerankerServiceServicer_to_server(
                    servicer, server
                )
            },
            validate=validate,
            computes=True,
        )


async def _scorers(
    settings: RerankerSettings, stack: AsyncExitStack
) -> dict[options_pb2.RerankStrategy.ValueType, Scorer]:
    encoder = CrossEncoderScorer(
        settings.cross_encoder_model,
        settings.cross_encoder_dir,
        cache_dir=settings.cross_encoder_cache_dir,
        threads=settings.cross_encoder_threads,
        batch_size=settings.cross_encoder_batch_size,
    )
    stack.push_async_callback(encoder.close)
    if (missing := encoder.missing()) is not None:
        # Only a warning if somebody seems to want it.
        is_wanted = any(name.startswith("cross_encoder_") for name in settings.model_fields_set)
        log = _log.warning if is_wanted else _log.info
        log("cross_encoder_missing", model=settings.cross_encoder_model, why=missing)
    scorers: dict[options_pb2.RerankStrategy.ValueType, Scorer] = {
        options_pb2.RERANK_STRATEGY_CROSS_ENCODER: encoder
    }
    if settings.api_format is not None:
        # Loaded only if used: an HTTP client takes some 15 MiB.
        from groundline_reranker.adapters.api import FORMATS, ApiScorer

        api = ApiScorer(
            FORMATS[settings.api_format],
            settings.api_key,
            base_url=settings.api_base_url,
            model=settings.api_model,
            usd_per_million_units=settings.api_usd_per_million_units,
            batch_size=settings.api_batch_size,
        )
        stack.push_async_callback(api.close)
        scorers[options_pb2.RERANK_STRATEGY_API] = api
    if settings.generator_target is not None:
        channel = await stack.enter_async_context(
            service_channel(settings, settings.generator_target, GENERATOR)
        )
        scorers[options_pb2.RERANK_STRATEGY_LLM] = JudgeScorer(channel, batch_size=settings.llm_batch_size)
    return scorers


def main() -> None:
    run(RerankerSettings, wire)


if __name__ == "__main__":
    main()
