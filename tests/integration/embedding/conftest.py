from pathlib import Path

import pytest
from groundline_embedding import EmbeddingSettings, prepare_model
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL


@pytest.fixture(scope="session")
def minilm_settings(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingSettings:
    return EmbeddingSettings(cache_dir=tmp_path_factory.mktemp("models"), threads=2)


@pytest.fixture(scope="session")
def minilm_directory(minilm_settings: EmbeddingSettings) -> Path:
    """all-MiniLM-L6-v2, built from the installed wheel."""
    return prepare_model(minilm_settings)


@pytest.fixture(scope="session")
def e5_settings(minilm_settings: EmbeddingSettings) -> EmbeddingSettings:
    return minilm_settings.model_copy(update={"model": MULTILINGUAL_MODEL})
