"""Settings of the retriever."""

from typing import Annotated, Literal, Self

from groundline_database import DatabaseSettings
from groundline_embedding import EmbeddingSettings
from groundline_runtime.quotas import BudgetSettings
from groundline_runtime.settings import Seconds, ServiceSettings
from groundline_weaviate import WeaviateSettings
from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict


class RetrieverSettings(BudgetSettings, ServiceSettings, DatabaseSettings):
    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_RETRIEVER_")

    reranker_target: Annotated[str, Field(min_length=1)]
    """Address of the reranker, which asks models: host:port, or dns:///host:port for all its replicas."""

    generator_target: str | None = None
    """Address of the generator, whose language model plans questions to tables that rules cannot. Unset:
    rules alone."""

    pool_min_size: Annotated[int, Field(ge=1, le=1000)] = 4
    """Minimum connections that are kept open."""

    pool_max_size: Annotated[int, Field(ge=2, le=1000)] = 16
    """Maximum connections; a hybrid search takes two at the same time, up to eight of many collections."""

    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    """Embedding model; the same as the ingestor's."""

    other_embedding: EmbeddingSettings | None = None
    """A second model for collections that name it, such as those that move from one to the other. The
    ingestor takes the same."""

    lexical_backend: Literal["pg_textsearch", "pg_search", "vchord_bm25"] | None = None
    """BM25 backend; unset, the one whose extension the database has."""

    read_database_url: SecretStr | None = None
    """Standbys of the database for search arms to read from, with several hosts as libpq spells them:
    postgresql://one,two. User, password and database that it does not name come from `database_url`. Unset,
    all reads use `database_url`, as passages always do."""

    max_standby_lag_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 2.0
    """Maximum lag of a standby that searches read from; older changes are visible to every search."""

    search_index: Literal["postgres", "weaviate"] = "postgres"
    """Index that is searched: the database, or Weaviate, which the ingestor then has to fill."""

    weaviate: WeaviateSettings | None = None
    """Address and settings of Weaviate, required with it."""

    max_index_lag_seconds: Annotated[float, Field(ge=0, le=3600)] = 2.0
    """Maximum lag of Weaviate; older changes are found, or the answer says that the collection is behind."""

    query_cache_size: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    """Maximum queries whose vectors are kept in memory (1.5 KiB each for 384 dimensions); 0 keeps none."""

    query_cache_ttl_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """Time that a query's vector is kept."""

    arm_timeout_seconds: Seconds = 8.0
    """Maximum time for a search arm, after which what the other found is returned; never more than 40 % of
    what the request has left."""

    rerank_timeout_seconds: Seconds = 5.0
    """Maximum time for a model's scores, after which the fused order holds; never more than 50 % of what
    the request has left."""

    planning_timeout_seconds: Seconds = 10.0
    """Maximum time for a model's plan of a question to tables, after which the question is refused; never
    more than 70 % of what the request has left."""

    scored_candidates: Annotated[int, Field(ge=1, le=100)] = 50
    """Maximum passages that a strategy reads, a model's scores included: the best of the fused ones; top_k
    where that is more."""

    trace_texts: bool = False
    """Whether traces of searches hold the question and the passages' texts, for whoever reads traces."""

    @model_validator(mode="after")
    def _weaviate_is_described(self) -> Self:
        # The reverse is valid: it is being filled, and not searched yet.
        if self.search_index == "weaviate" and self.weaviate is None:
            raise ValueError("search_index weaviate needs weaviate__grpc_target and weaviate__http_url")
        return self
