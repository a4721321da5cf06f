"""Settings of the ingestor."""

from typing import Annotated

from groundline_database import DatabaseSettings
from groundline_indexing.settings import IndexingSettings
from groundline_runtime.quotas import BudgetSettings
from groundline_runtime.settings import Seconds, ServiceSettings
from groundline_weaviate import WeaviateSettings
from pydantic import Field
from pydantic_settings import SettingsConfigDict


class MigrationSettings(ServiceSettings, DatabaseSettings):
    """Settings of `migrate`."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_INGESTOR_")

    lexical_backend: str | None = None
    """Backend of BM25, such as pg_search. Unset: the one whose extension the server has."""


class IndexSettings(ServiceSettings, DatabaseSettings):
    """Settings of `index`."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_INGESTOR_")

    weaviate: WeaviateSettings
    """Settings of the distributed index, the same as the ingestors'."""


class IngestorSettings(BudgetSettings, IndexingSettings):
    """Settings of the service."""

    pool_max_size: Annotated[int, Field(ge=2, le=1000)] = 10
    """Maximum connections."""

    weaviate: WeaviateSettings | None = None
    """Settings of the distributed index that workers fill. Unset: no such index."""

    max_documents_per_request: Annotated[int, Field(ge=1, le=1000)] = 1000
    """Maximum documents in one request."""

    max_collections_per_caller: Annotated[int, Field(ge=1)] = 1000
    """Maximum collections that a caller, known by its first principal, creates."""

    max_jobs_per_caller: Annotated[int, Field(ge=1)] = 1000
    """Maximum unfinished jobs of a caller."""

    max_sources_per_collection: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Maximum sources of a collection."""

    generator_target: str | None = None
    """Address of the generator, host:port or dns:///host:port. Unset: collections whose contexts a language
    model writes accept no documents, and pictures are not described."""

    generator_timeout_seconds: Seconds = 180.0
    """Maximum time of one call of the generator; it writes the contexts of some 20 chunks."""

    generator_calls: Annotated[int, Field(ge=1, le=100)] = 4
    """Maximum calls of the generator at a time."""

    collector_target: str | None = None
    """Address of the collector, host:port or dns:///host:port. Unset: crawls and runs of sources fail, and
    webhooks are told nothing."""

    max_message_bytes: Annotated[int, Field(ge=1024, le=1024**3)] = 80 * 1024**2
    """Maximum request and response, in bytes; larger documents come by UploadDocument."""

    default_timeout_seconds: Seconds = 900.0
    """Deadline of a request whose caller set none, and maximum time to watch a job."""

    workers: Annotated[int, Field(ge=0, le=32)] = 2
    """Lines of work for jobs, each with 20 documents at a time, 16 of one client. 0: this process only
    answers requests, and other replicas do the jobs."""

    crawls: Annotated[int, Field(ge=0, le=100)] = 8
    """Maximum web sites that this process crawls and sources that it runs at a time, if it has workers; one
    client has half of what the others leave. 0: it leaves them to other replicas."""

    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """Time without a sign of life from a worker after which another takes its documents over."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """Maximum attempts at a document before it fails, if a dependency is out of reach or its worker was lost
    while it was tried alone. A lost database and a full disk do not count."""

    embedding_cache_days: Annotated[float, Field(ge=0, le=3650)] = 30.0
    """Days that vectors are kept for repeated texts. 0: not at all."""

    embedding_cache_entries: Annotated[int, Field(ge=0, le=10_000_000)] = 10_000
    """Maximum vectors that the process keeps in memory before the database's cache."""

    payload_days: Annotated[float, Field(gt=0, le=3650)] = 7.0
    """Days for which a document that failed or was cancelled can be retried."""
