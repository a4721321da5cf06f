"""Metrics of model calls: those of OpenTelemetry's conventions for generative AI, price and breaker."""

from typing import Final

from groundline_runtime.metrics.declaring import SECONDS, TOKENS, Counter, Gauge, Histogram

_CALL: Final = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")

CALL_DURATION: Final = Histogram(
    "gen_ai.client.operation.duration",
    "Duration of a model call, by model and error.",
    unit="s",
    buckets=SECONDS,
    labels=(*_CALL, "error.type"),
)
FIRST_CHUNK: Final = Histogram(
    "gen_ai.client.operation.time_to_first_chunk",
    "Time to a model's first text.",
    unit="s",
    buckets=SECONDS,
    labels=_CALL,
)
CALL_TOKENS: Final = Histogram(
    "gen_ai.client.token.usage",
    "Tokens of a model call, by direction.",
    unit="{token}",
    buckets=TOKENS,
    labels=(*_CALL, "gen_ai.token.type"),
)
CALL_COST: Final = Counter(
    "groundline.generator.cost",
    "Price of model calls, where it is known.",
    unit="{USD}",
    labels=_CALL,
)
PAUSED: Final = Gauge(
    "groundline.generator.paused",
    "Whether calls of the provider wait (1) since it failed repeatedly or asked for a pause.",
    labels=("gen_ai.provider.name",),
)
JUDGED_CLAIMS: Final = Counter(
    "groundline.generator.judged_claims",
    "Claims judged, by the last of rules, reader and model that was asked.",
    unit="{claim}",
    labels=("stage",),
)
