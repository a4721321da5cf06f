from pathlib import Path

import pytest
from groundline_embedding import EmbeddingSettings
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"provider": "word2vec"}, "provider"),
        ({"model": ""}, "model"),
        ({"threads": 0}, "threads"),
        ({"batch_size": 0}, "batch_size"),
        ({"modle": "typo"}, "modle"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        EmbeddingSettings.model_validate(values)
    assert [problem["loc"] for problem in refused.value.errors()] == [(field,)]


def test_a_model_directory_without_the_name_of_its_model_is_refused() -> None:
    with pytest.raises(ValidationError, match="model_dir needs model"):
        EmbeddingSettings(model_dir=Path("models/mine"))


def test_what_only_an_api_has_is_refused_of_the_local_model() -> None:
    with pytest.raises(ValidationError, match="api_key, dimensions: of an API, and the provider is local"):
        EmbeddingSettings.model_validate({"api_key": "k", "dimensions": 5})


def test_a_model_directory_with_a_name_is_accepted() -> None:
    settings = EmbeddingSettings(model="acme/encoder", model_dir=Path("models/mine"))
    assert settings.model == "acme/encoder"


def test_without_settings_the_local_minilm_is_chosen() -> None:
    settings = EmbeddingSettings()
    assert settings.provider == "local"
    assert settings.model == "sentence-transformers/all-MiniLM-L6-v2"
    assert settings.cache_dir.parts[-2:] == ("groundline", "models")


def test_the_cache_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert EmbeddingSettings().cache_dir == tmp_path / "groundline" / "models"
