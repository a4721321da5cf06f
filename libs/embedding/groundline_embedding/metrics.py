"""Metrics of hosted embedding models."""

from typing import Final

from groundline_runtime.metrics.declaring import Counter

EMBEDDED_TOKENS: Final = Counter(
    "groundline.embedding.tokens",
    "Tokens that hosted embedding models read.",
    unit="{token}",
    labels=("gen_ai.request.model",),
)
