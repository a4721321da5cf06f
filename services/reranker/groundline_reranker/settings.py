"""Settings of the reranker."""

from groundline_runtime.settings import ServiceSettings
from pydantic_settings import SettingsConfigDict

__all__ = ["RerankerSettings"]


class RerankerSettings(ServiceSettings):
    """Nothing beyond what every service has: fusion and folding are set by request and collection."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_RERANKER_")
