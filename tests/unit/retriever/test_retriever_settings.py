"""Settings of the retriever."""

import pytest
from groundline_retriever.settings import RetrieverSettings
from groundline_runtime.settings import SettingsError, load_settings

URL = "postgresql://groundline:s3cret@db/groundline"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROUNDLINE_DATABASE_URL", raising=False)


def test_a_database_is_needed() -> None:
    with pytest.raises(SettingsError, match="GROUNDLINE_RETRIEVER_DATABASE_URL"):
        load_settings(RetrieverSettings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POOL_MIN_SIZE", "17"),
        ("POOL_MAX_SIZE", "1"),
        ("LEXICAL_BACKEND", "lucene"),
        ("QUERY_CACHE_SIZE", "-1"),
        ("ARM_TIMEOUT_SECONDS", "0"),
        ("SEARCH_INDEX", "lucene"),
        ("WEAVIATE__GRPC_TARGET", "weaviate:50051"),
    ],
)
def test_a_wrong_setting_is_refused_without_showing_the_database(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("GROUNDLINE_DATABASE_URL", URL)
    monkeypatch.setenv("GROUNDLINE_RETRIEVER_RERANKER_TARGET", "reranker:50051")
    monkeypatch.setenv(f"GROUNDLINE_RETRIEVER_{name}", value)
    with pytest.raises(SettingsError) as caught:
        load_settings(RetrieverSettings)
    assert "s3cret" not in str(caught.value)


def test_weaviate_is_searched_only_where_it_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_DATABASE_URL", URL)
    monkeypatch.setenv("GROUNDLINE_RETRIEVER_RERANKER_TARGET", "reranker:50051")
    monkeypatch.setenv("GROUNDLINE_RETRIEVER_SEARCH_INDEX", "weaviate")
    with pytest.raises(SettingsError, match="weaviate__grpc_target"):
        load_settings(RetrieverSettings)
    monkeypatch.setenv("GROUNDLINE_WEAVIATE__GRPC_TARGET", "weaviate:50051")
    monkeypatch.setenv("GROUNDLINE_WEAVIATE__HTTP_URL", "http://weaviate:8080")
    monkeypatch.setenv("GROUNDLINE_WEAVIATE__API_KEY", "s3cret")
    settings = load_settings(RetrieverSettings)
    assert settings.weaviate is not None
    assert settings.weaviate.grpc_target == "weaviate:50051"
    assert "s3cret" not in repr(settings)


def test_the_embedding_model_is_set_for_all_services_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_DATABASE_URL", URL)
    monkeypatch.setenv("GROUNDLINE_RETRIEVER_RERANKER_TARGET", "reranker:50051")
    monkeypatch.setenv("GROUNDLINE_EMBEDDING__MODEL", "acme/model")
    settings = load_settings(RetrieverSettings)
    assert settings.embedding.model == "acme/model"
    assert settings.database_url.get_secret_value() == URL
    assert URL not in repr(settings)
