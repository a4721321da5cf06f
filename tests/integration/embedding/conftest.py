from pathlib import Path

import pytest
from groundline_embedding import EmbeddingSettings, prepare_model


@pytest.fixture(scope="session")
def minilm_settings(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingSettings:
    return EmbeddingSettings(cache_dir=tmp_path_factory.mktemp("models"), threads=2)


@pytest.fixture(scope="session")
def minilm_directory(minilm_settings: EmbeddingSettings) -> Path:
    """all-MiniLM-L6-v2, built from the installed wheel."""
    return prepare_model(minilm_settings)
