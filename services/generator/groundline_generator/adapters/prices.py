"""Prices of model calls: those of the operator, else those that providers publish, by genai-prices."""

from collections.abc import Mapping

from groundline.v1 import chat_pb2
from groundline_runtime.charges import published_cost

from groundline_generator.settings import ModelPrice


class Prices:
    """List prices of one provider's models.

    Contracts, tiers and taxes are not known: own prices are for what differs.
    """

    def __init__(self, own: Mapping[str, ModelPrice], *, provider: str, base_url: str | None = None) -> None:
        """Take own prices by model, and the provider as `published_cost` does."""
        self._own = own
        self._provider = provider
        self._base_url = base_url

    def cost(self, model: str, usage: chat_pb2.Usage) -> float | None:
        """Return the price of a call in US dollars; None if the model's price is not known."""
        if (price := self._own.get(model)) is not None:
            return price.of(usage)
        return published_cost(
            model,
            provider=self._provider,
            base_url=self._base_url,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
        )
