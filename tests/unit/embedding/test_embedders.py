"""The models that run in one process."""

import pytest
from groundline_embedding import Embedders
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_embedding.settings import DEFAULT_MODEL
from groundline_tests.embedding import FakeEmbedder


def test_a_model_is_found_by_its_name_and_the_length_of_its_vectors() -> None:
    first, second = FakeEmbedder("first"), FakeEmbedder("second", 64)
    embedders = Embedders([first, second])
    assert embedders.default is first
    assert embedders.of("second") is second
    assert embedders.of("second", 64) is second
    assert embedders.of("second", 256) is None
    assert embedders.of("third") is None


@pytest.mark.parametrize(
    "models", [["acme/own", MULTILINGUAL_MODEL], [DEFAULT_MODEL], [DEFAULT_MODEL, "acme/own"]]
)
def test_the_default_stays_where_it_may_know_the_language_or_none_knows_more(models: list[str]) -> None:
    embedders = Embedders([FakeEmbedder(model) for model in models])
    assert embedders.for_language("german") is embedders.default


def test_english_alone_gives_way_to_a_model_of_many_languages() -> None:
    many = FakeEmbedder(MULTILINGUAL_MODEL)
    embedders = Embedders([FakeEmbedder(DEFAULT_MODEL), FakeEmbedder("acme/own"), many])
    assert embedders.for_language("german") is many
    assert embedders.for_language("english") is embedders.for_language("simple") is embedders.default
