"""Settings of the reranker."""

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from groundline_runtime.settings import Seconds, ServiceSettings
from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict


class RerankerSettings(ServiceSettings):
    """Models of the strategies; fusion, deduplication and weights are set by request and collection."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_RERANKER_")

    strategy_timeout_seconds: Seconds = 10.0
    """Maximum time for a model, after which the fused order holds; never more than 80 % of what is left."""

    cross_encoder_model: Annotated[str, Field(min_length=1)] = "Xenova/ms-marco-MiniLM-L-6-v2"
    """Cross-encoder as fastembed names it, downloaded when first used; a mere name with cross_encoder_dir."""

    cross_encoder_dir: Path | None = None
    """Directory with the cross-encoder's files: model.onnx, tokenizer.json and its configuration."""

    cross_encoder_cache_dir: Path | None = None
    """Directory of downloaded cross-encoders. Unset: fastembed's own."""

    cross_encoder_threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """Processor cores that the cross-encoder uses. Unset: all."""

    cross_encoder_batch_size: Annotated[int, Field(ge=1, le=256)] = 8
    """Passages scored at once; a request that is over stops after the batch under way."""

    api_format: Literal["cohere", "jina", "voyage"] | None = None
    """Wire format of the rerank API, which also gives its address and model. Unset: no `api` strategy."""

    api_base_url: str | None = None
    """Address before /rerank of another server of that format; https, or http on the loopback interface."""

    api_key: SecretStr | None = None
    """Key of the rerank API."""

    api_model: str | None = None
    """Model of the rerank API. Unset: the provider's usual one."""

    api_usd_per_million_units: Annotated[float, Field(ge=0)] | None = None
    """Price in US dollars of a million of what the rerank API's provider bills: tokens (Jina, Voyage), or
    searches (Cohere); 0 for a server of your own. Unset: what reranking costs is not known."""

    api_batch_size: Annotated[int, Field(ge=1, le=1000)] = 100
    """Passages in one request to the rerank API."""

    generator_target: str | None = None
    """Address of the generator, which judges for the `llm` strategy. Unset: no `llm` strategy."""

    llm_batch_size: Annotated[int, Field(ge=1, le=100)] = 10
    """Passages judged in one model call."""

    @model_validator(mode="after")
    def _api_can_be_called(self) -> Self:
        if self.api_usd_per_million_units is not None and self.api_format is None:
            raise ValueError("api_usd_per_million_units needs api_format")
        if self.api_base_url is None:
            return self
        try:
            parts = urlsplit(self.api_base_url)
        except ValueError:
            raise ValueError("api_base_url is not a URL") from None
        secure = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
        if not parts.hostname or not secure:
            raise ValueError("api_base_url must be an https URL, or http on the loopback interface")
        if self.api_format is None:
            raise ValueError("api_base_url needs api_format")
        return self


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
