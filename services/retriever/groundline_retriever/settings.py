"""Settings of the retriever."""

from typing import Annotated, Literal, Self

from groundline_database import DatabaseSettings
from groundline_embedding import EmbeddingSettings
from groundline_runtime.settings import ServiceSettings
from groundline_weaviate import WeaviateSettings
from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

__all__ = ["RetrieverSettings"]


class RetrieverSettings(ServiceSettings, DatabaseSettings):
    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_RETRIEVER_")

    pool_min_size: Annotated[int, Field(ge=1, le=1000)] = 4
    """Connections that are kept open."""

    pool_max_size: Annotated[int, Field(ge=2, le=1000)] = 16
    """Maximum connections; a hybrid search takes two at the same time, up to eight of many collections."""

    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    """Embedding model; the same as the ingestor's."""

    other_embedding: EmbeddingSettings | None = None
    """A second model, searched beside the first while collections move from one to the other. The ingestor
    takes the same."""

    lexical_backend: Literal["pg_textsearch", "pg_search", "vchord_bm25"] | None = None
    """BM25 backend; unset, the one whose extension the database has."""

    read_database_url: SecretStr | None = None
    """Standbys of the database for search arms to read from, with several hosts as libpq spells them:
    postgresql://one,two. User, password and database that it does not name are those of `database_url`.
    Unset, all is read from `database_url`, as passages always are."""

    max_standby_lag_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 2.0
    """What was written longer ago is seen by every search: a standby that is further behind is not asked."""

    search_index: Literal["postgres", "weaviate"] = "postgres"
    """Where chunks are searched: in the database, or in Weaviate, which the ingestor then has to feed."""

    weaviate: WeaviateSettings | None = None
    """Where Weaviate is; needed with it."""

    max_index_lag_seconds: Annotated[float, Field(ge=0, le=3600)] = 2.0
    """What was written longer ago is found in Weaviate, or the answer says that the collection is behind."""

    query_cache_size: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    """Queries whose vectors are kept in memory (1.5 KiB each for 384 dimensions); 0 keeps none."""

    query_cache_ttl_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """How long a query's vector is kept."""

    arm_timeout_share: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Share of a request's time after which a search arm counts as late; what the other found is returned."""

    @model_validator(mode="after")
    def _weaviate_is_described(self) -> Self:
        # The other way round it is being filled, and not searched yet.
        if self.search_index == "weaviate" and self.weaviate is None:
            raise ValueError("search_index weaviate needs weaviate__grpc_target and weaviate__http_url")
        return self
