"""Prices of model calls: those of the operator, else those that providers publish, by genai-prices."""

from collections.abc import Mapping

from groundline.v1 import chat_pb2

from groundline_generator.settings import ModelPrice

__all__ = ["Prices"]


class Prices:
    """List prices of one provider's models, as of the installed version of genai-prices; nothing is fetched.

    Contracts, tiers and taxes are not known: own prices are for what differs.
    """

    def __init__(self, own: Mapping[str, ModelPrice], *, provider: str, base_url: str | None = None) -> None:
        """Take own prices by model. `provider`: its id in genai-prices; with `base_url` it is the provider at
        that address, if one is known there: a model of the same name elsewhere has another price."""
        self._own = own
        self._provider = provider
        self._base_url = base_url

    def cost(self, model: str, usage: chat_pb2.Usage) -> float | None:
        """Return the price of a call in US dollars; None if the model's price is not known."""
        if (price := self._own.get(model)) is not None:
            return price.of(usage)
        # Takes 40 MB, which only those pay that call a model.
        from genai_prices import Usage, calc_price

        used = Usage(
            input_tokens=usage.prompt_tokens,
            cache_read_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
        )
        try:
            priced = (
                calc_price(used, model, provider_id=self._provider)
                if self._base_url is None
                else calc_price(used, model, provider_api_url=self._base_url)
            )
        except (LookupError, ValueError):
            return None
        return float(priced.total_price)
