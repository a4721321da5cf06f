"""Entry point of the generator."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final

from groundline.v1 import generator_service_pb2_grpc
from groundline_runtime.serving.server import Application, run
from groundline_validation import validate
from pydantic import SecretStr

from groundline_generator.adapters.extractive import ExtractiveModel
from groundline_generator.adapters.prices import Prices
from groundline_generator.adapters.reading import load_reader
from groundline_generator.domain.calls import ModelChoice
from groundline_generator.domain.prompting import load_templates
from groundline_generator.ports import ChatModel
from groundline_generator.service.answers.answering import AnswerService
from groundline_generator.service.answers.correcting import ModelCorrector
from groundline_generator.service.breaker import Breaker
from groundline_generator.service.claims.cascade import ClaimCascade
from groundline_generator.service.contextualizing import Contextualizer
from groundline_generator.service.describing import PictureDescriber
from groundline_generator.service.guarded_model import GuardedModel
from groundline_generator.service.judging import ModelJudge
from groundline_generator.service.planning import TablePlanner
from groundline_generator.service.prompted_model import PromptedModel
from groundline_generator.service.quota import Limiter
from groundline_generator.service.rewriting import FallbackRewriter, ModelRewriter, RuleRewriter
from groundline_generator.service.sufficiency import FallbackSufficiency, ModelSufficiency, RuleSufficiency
from groundline_generator.servicer import SERVICE, GeneratorServicer, UseCases
from groundline_generator.settings import GeneratorSettings

_EXTRACTIVE_MIN_RELEVANCE: Final = 0.38
_MODEL_MIN_RELEVANCE: Final = 0.2
"""Default minimum relevance for a model; low, since a model finds answers that share few words with their
question."""


@asynccontextmanager
async def wire(settings: GeneratorSettings) -> AsyncIterator[Application]:
    """Provide the service with its provider. A provider that is down fails calls, not readiness."""
    async with _use_cases(settings) as use_cases:
        servicer = GeneratorServicer(use_cases)
        yield Application(
            services={
                SERVICE: lambda server: generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(
                    servicer, server
                )
            },
            validate=validate,
            # Calls of a provider have a limit and a queue of their own, by its settings.
            bounds_itself=not _is_extractive(settings) or settings.judge_model is not None,
        )


def _is_extractive(settings: GeneratorSettings) -> bool:
    return settings.provider == "extractive" or settings.model is None


@asynccontextmanager
async def _use_cases(settings: GeneratorSettings) -> AsyncIterator[UseCases]:
    reader = load_reader(settings.reader_directory)
    async with _own_judge(settings) as own_judge:
        if settings.provider == "extractive" or settings.model is None:
            model = ExtractiveModel(
                min_relevance=_or(settings.min_relevance, _EXTRACTIVE_MIN_RELEVANCE),
                max_sentences=settings.max_sentences,
                answerability=reader.answerability,
            )
            claims = ClaimCascade(reader=reader.claims, judge=own_judge)
            yield UseCases(AnswerService(model), RuleRewriter(), RuleSufficiency(), claims)
            return
        async with _provider(settings) as provider:
            chat = _guarded(provider, provider.provider, settings, _prices(settings))
            models = ModelChoice(settings.model, settings.further_models)
            judge = ModelJudge(chat, models, settings.context_tokens)
            claims = ClaimCascade(models, reader.claims, own_judge or judge)
            yield UseCases(
                AnswerService(
                    _prompted(settings, chat, models),
                    claims if settings.judge_answers else None,
                    ModelCorrector(chat, models, settings.context_tokens),
                ),
                FallbackRewriter(ModelRewriter(chat, models)),
                FallbackSufficiency(ModelSufficiency(chat, models)),
                claims,
                models,
                judge,
                Contextualizer(chat, models, settings.document_tokens),
                PictureDescriber(chat, models),
                TablePlanner(chat, models),
            )


def _prompted(settings: GeneratorSettings, chat: ChatModel, models: ModelChoice) -> PromptedModel:
    return PromptedModel(
        chat=chat,
        models=models,
        templates=load_templates(settings.prompt_template_directory),
        template=settings.prompt_template,
        context_tokens=settings.context_tokens,
        min_relevance=_or(settings.min_relevance, _MODEL_MIN_RELEVANCE),
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
    )


def _guarded(provider: ChatModel, name: str, settings: GeneratorSettings, prices: Prices) -> GuardedModel:
    limiter = Limiter(
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        max_concurrent=settings.max_concurrent_calls,
        max_waiting=settings.max_queued_calls,
    )
    return GuardedModel(
        provider,
        limiter,
        Breaker(provider=name, max_waiting=settings.max_queued_calls),
        max_attempts=settings.provider_max_attempts,
        max_wait_seconds=settings.provider_max_wait_seconds,
        cost_of=prices.cost,
    )


@asynccontextmanager
async def _own_judge(settings: GeneratorSettings) -> AsyncIterator[ModelJudge | None]:
    """Connect the judge that is not the model of answers, if one is named."""
    if settings.judge_model is None:
        yield None
        return
    async with _openai(settings, settings.judge_base_url, settings.judge_api_key) as provider:
        prices = Prices(settings.prices, provider="openai", base_url=settings.judge_base_url)
        chat = _guarded(provider, "judge", settings, prices)
        yield ModelJudge(chat, ModelChoice(settings.judge_model), settings.context_tokens)


def _prices(settings: GeneratorSettings) -> Prices:
    provider = "google" if settings.provider == "gemini" else settings.provider
    return Prices(settings.prices, provider=provider, base_url=settings.provider_base_url)


def _provider(settings: GeneratorSettings) -> AbstractAsyncContextManager[ChatModel]:
    """Import and connect the provider. SDKs are imported only if used, so that the process stays small."""
    if settings.provider == "gemini":
        from groundline_generator.adapters.gemini import GeminiModel

        return aclosing(
            GeminiModel(
                api_key=settings.provider_api_key,
                vertex_project=settings.vertex_project,
                vertex_location=settings.vertex_location,
                base_url=settings.provider_base_url,
                silence_seconds=settings.provider_silence_seconds,
                cache_min_tokens=settings.cache_min_tokens,
            )
        )
    return _openai(settings, settings.provider_base_url, settings.provider_api_key)


def _openai(
    settings: GeneratorSettings, base_url: str | None, api_key: SecretStr | None
) -> AbstractAsyncContextManager[ChatModel]:
    from groundline_generator.adapters.openai import OpenAIModel

    silence_seconds = settings.provider_silence_seconds
    return aclosing(OpenAIModel(base_url=base_url, api_key=api_key, silence_seconds=silence_seconds))


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def main() -> None:
    run(GeneratorSettings, wire)


if __name__ == "__main__":
    main()
