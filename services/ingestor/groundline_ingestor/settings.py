"""Settings of the ingestor."""

from pathlib import Path
from typing import Annotated

from groundline_database import DatabaseSettings
from groundline_embedding import EmbeddingSettings
from groundline_runtime.settings import Seconds, ServiceSettings
from groundline_weaviate import WeaviateSettings
from pydantic import Field
from pydantic_settings import SettingsConfigDict

__all__ = ["IndexSettings", "IngestorSettings", "MigrationSettings"]


class MigrationSettings(ServiceSettings, DatabaseSettings):
    """What `migrate` reads."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_INGESTOR_")

    lexical_backend: str | None = None
    """Backend of BM25, such as pg_search. Unset: the one whose extension the server has."""


class IndexSettings(ServiceSettings, DatabaseSettings):
    """What `index` reads."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_INGESTOR_")

    weaviate: WeaviateSettings
    """The distributed index, as the ingestors have it."""


class IngestorSettings(MigrationSettings):
    """What the service reads."""

    pool_max_size: Annotated[int, Field(ge=2, le=1000)] = 10
    """Maximum connections."""

    embedding: EmbeddingSettings = EmbeddingSettings()
    """The embedding model; the retriever must have the same. Fields as GROUNDLINE_EMBEDDING__MODEL and so
    on."""

    other_embedding: EmbeddingSettings | None = None
    """The model that collections are moved from, or to, which is not loaded: with it the ingestor starts even
    though no collection is of its own model. The retriever searches by both."""

    weaviate: WeaviateSettings | None = None
    """The distributed index that workers feed. Unset: none is fed."""

    max_documents_per_request: Annotated[int, Field(ge=1, le=1000)] = 1000
    """Maximum documents in one request."""

    max_collections_per_caller: Annotated[int, Field(ge=1)] = 1000
    """Maximum collections that a caller, known by its first principal, creates."""

    max_jobs_per_caller: Annotated[int, Field(ge=1)] = 1000
    """Maximum jobs of a caller that have not ended."""

    max_documents_per_collection: Annotated[int, Field(ge=1)] = 1_000_000
    """Maximum documents of a collection."""

    max_bytes_per_collection: Annotated[int, Field(ge=1)] = 100 * 1024**3
    """Maximum bytes of a collection's documents, as handed in."""

    max_sources_per_collection: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Maximum sources of a collection."""

    max_document_bytes: Annotated[int, Field(ge=1, le=2 * 1024**3 - 1)] = 512 * 1024**2
    """Largest document; a larger one fails, the others of its request do not."""

    max_whole_document_bytes: Annotated[int, Field(ge=1, le=1024**3)] = 64 * 1024**2
    """Largest document of a format that is read in memory: all but plain text, Markdown, source code, CSV,
    JSON, HTML and DOCX."""

    spool_directory: Path | None = None
    """Where long documents are put while they are worked on, about five times their size on disk. Unset:
    the system's place for temporary files."""

    max_chunks_per_document: Annotated[int, Field(ge=1, le=10_000_000)] = 400_000
    """Maximum chunks of a document; one with more fails."""

    reader_processes: Annotated[int, Field(ge=1, le=64)] = 3
    """Processes that read what is not plain text, Markdown or source code; one is started when it is first
    needed. One client's files take all but one of them, where there are several."""

    reader_timeout_seconds: Seconds = 120.0
    """Maximum time that reading one such file may take; a small one has less: 20 seconds, and one for each
    20,000 bytes. A large one has a second more for each 4 MB, and for each 250,000 characters read of it."""

    reader_memory_bytes: Annotated[int, Field(ge=256 * 1024**2, le=64 * 1024**3)] = 2 * 1024**3
    """Address space of such a process; a file that takes more fails."""

    max_pages: Annotated[int, Field(ge=1, le=1_000_000)] = 5000
    """Maximum pages of a PDF and frames of an image; a document with more fails."""

    max_unpacked_bytes: Annotated[int, Field(ge=1024**2, le=4 * 1024**3)] = 1024**3
    """Most bytes that a ZIP file or a part of a PDF may unpack to, and most characters of a text."""

    max_image_pixels: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100_000_000
    """Maximum pixels of an image."""

    ocr_data: Path | None = None
    """Folder of tesseract's language data (eng.traineddata and the like). Unset: where the system keeps it.
    Without any, images fail with OCR_NOT_AVAILABLE."""

    ocr_languages: Annotated[str, Field(pattern=r"^[A-Za-z_/]+(\+[A-Za-z_/]+)*$")] = "eng"
    """Languages of images, as tesseract names them, such as eng+deu; each needs its data installed."""

    generator_target: str | None = None
    """Address of the generator, host:port or dns:///host:port. Unset: collections whose contexts a language
    model writes take no documents."""

    generator_timeout_seconds: Seconds = 180.0
    """Time that one call of the generator may take; it writes the contexts of some 20 chunks."""

    generator_calls: Annotated[int, Field(ge=1, le=100)] = 4
    """Maximum calls of the generator at a time."""

    max_message_bytes: Annotated[int, Field(ge=1024, le=1024**3)] = 80 * 1024**2
    """Largest request accepted and response sent, in bytes; what is larger comes by UploadDocument."""

    default_timeout_seconds: Seconds = 900.0
    """Deadline of a request whose caller set none; so long a job can be watched."""

    workers: Annotated[int, Field(ge=0, le=32)] = 2
    """Lines of work for jobs, each with 20 documents at a time, 16 of one client. 0: this process only
    answers requests, and other replicas do the jobs."""

    crawls: Annotated[int, Field(ge=0, le=100)] = 2
    """Web sites that this process crawls and sources that it runs at a time, where it has workers. 0: it
    leaves them to other replicas."""

    crawl_private_addresses: bool = False
    """Whether collections may allow their crawls, sources and webhooks private, loopback, link-local and
    other addresses that are not the internet's. Whoever may write such a collection reaches what this process
    reaches."""

    source_directories: tuple[Path, ...] = ()
    """Directories that sources may read, with all below them, as a JSON list of absolute paths. Whoever
    administers a collection may bring them in. Empty: no source reads a directory."""

    secrets_directory: Path | None = None
    """Folder of the secrets that sources and webhooks name: the file COLLECTION/NAME holds the one that those
    of that collection may use. Unset: there are none."""

    crawl_user_agent: Annotated[str, Field(pattern=r"^[A-Za-z0-9][ -~]{0,199}$")] = "groundline"
    """What crawls call themselves to web servers and look for in robots.txt."""

    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """After so long without a sign of life from a worker, another takes its documents over."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """How often a document is begun before it fails, where what it needs is out of reach or its worker was
    lost while it was tried alone. A lost database and a full disk do not count."""

    embedding_cache_days: Annotated[float, Field(ge=0, le=3650)] = 30.0
    """How long vectors are kept for texts that come again. 0: not at all."""

    embedding_cache_entries: Annotated[int, Field(ge=0, le=10_000_000)] = 10_000
    """Vectors that the process keeps in memory before the database's cache."""

    payload_days: Annotated[float, Field(gt=0, le=3650)] = 7.0
    """How long a document that failed or was cancelled can be retried."""

    vector_index_memory_bytes: Annotated[int, Field(ge=0, le=1024**4)] = 2 * 1024**3
    """Maximum memory that PostgreSQL may take to build one index of vectors, which takes no more than its
    rows need: 1,000 bytes and two for each dimension, so 1.8 GB for a million of 384. A graph that outgrows
    it is finished several times more slowly. Where the server's maintenance_work_mem is more, that holds."""

    reindex_grace_seconds: Annotated[float, Field(ge=0, le=86400)] = 60.0
    """How long a replaced index stays for searches that have begun."""
