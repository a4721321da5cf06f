"""Prices of model calls."""

import pytest
from groundline.v1 import chat_pb2
from groundline_generator.adapters.prices import Prices
from groundline_generator.settings import GeneratorSettings, ModelPrice
from groundline_runtime.charges import charged, total, usage_of
from groundline_runtime.errors import UnavailableError

USED = chat_pb2.Usage(prompt_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)


def test_a_published_price_counts_what_came_from_the_cache_for_less() -> None:
    prices = Prices({}, provider="google")
    uncached = chat_pb2.Usage(prompt_tokens=1_000_000, output_tokens=100_000)
    cost, full = prices.cost("gemini-2.5-flash", USED), prices.cost("gemini-2.5-flash", uncached)
    assert cost is not None
    assert full is not None
    assert 0 < cost < full


@pytest.mark.parametrize(
    ("model", "base_url"),
    [("no-such-model", None), ("gpt-4o", "http://localhost:11434/v1"), ("qwen3:8b", "http://vllm:8000/v1")],
)
def test_a_model_without_a_price_costs_nothing_that_is_known(model: str, base_url: str | None) -> None:
    assert Prices({}, provider="openai", base_url=base_url).cost(model, USED) is None


def test_a_provider_is_known_by_its_address() -> None:
    addressed = Prices({}, provider="openai", base_url="https://api.openai.com/v1")
    cost = addressed.cost("gpt-4o", USED)
    assert cost is not None
    assert cost == Prices({}, provider="openai").cost("gpt-4o", USED)


def test_own_prices_are_for_a_million_tokens_and_come_first() -> None:
    own = {"gpt-4o": ModelPrice(input_usd=2, output_usd=10), "free": ModelPrice(input_usd=0, output_usd=0)}
    prices = Prices(own, provider="openai")
    assert prices.cost("gpt-4o", USED) == pytest.approx(2 + 1)
    assert prices.cost("free", USED) == 0
    cheaper = ModelPrice(input_usd=2, cached_usd=0.5, output_usd=10)
    assert cheaper.of(USED) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 1)


def test_own_prices_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_GENERATOR_PRICES", '{"qwen3": {"input_usd": 0.2, "output_usd": 0.6}}')
    assert GeneratorSettings().prices == {"qwen3": ModelPrice(input_usd=0.2, output_usd=0.6)}


def test_the_cost_of_several_calls_is_known_only_if_that_of_each_is() -> None:
    priced = chat_pb2.Usage(prompt_tokens=10, cost_usd=0.25)
    free = chat_pb2.Usage(prompt_tokens=10, cost_usd=0)
    assert total([priced, priced, chat_pb2.Usage()]).cost_usd == 0.5
    assert total([free]).HasField("cost_usd")
    assert not total([priced, chat_pb2.Usage(output_tokens=1)]).HasField("cost_usd")
    assert not total([]).HasField("cost_usd")


def test_what_a_failed_call_cost_is_in_its_error() -> None:
    paid = [chat_pb2.Usage(prompt_tokens=10, output_tokens=2, cost_usd=0.000523)]
    with pytest.raises(UnavailableError) as caught, charged(paid):
        raise UnavailableError("PROVIDER_UNAVAILABLE", "down")
    assert usage_of(caught.value) == paid[0]
