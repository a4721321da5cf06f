"""Settings of the making and storing of chunks: the ingestor's, which an import reads as well."""

from pathlib import Path
from typing import Annotated

from groundline_database import DatabaseSettings
from groundline_embedding import EmbeddingSettings
from groundline_runtime.settings import Seconds, ServiceSettings
from pydantic import Field
from pydantic_settings import SettingsConfigDict


class IndexingSettings(ServiceSettings, DatabaseSettings):
    """Settings of database and model, and limits of documents and of the processes that read them."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_INGESTOR_")

    lexical_backend: str | None = None
    """Backend of BM25, such as pg_search. Unset: the one whose extension the server has."""

    embedding: EmbeddingSettings = EmbeddingSettings()
    """Embedding model; the retriever must have the same. Fields as GROUNDLINE_EMBEDDING__MODEL and so on."""

    other_embedding: EmbeddingSettings | None = None
    """A second model for collections that name it, such as those that move from one to the other. The
    retriever takes the same."""

    max_documents_per_collection: Annotated[int, Field(ge=1)] = 1_000_000
    """Maximum documents of a collection."""

    max_bytes_per_collection: Annotated[int, Field(ge=1)] = 100 * 1024**3
    """Maximum bytes of a collection's documents, as handed in."""

    max_document_bytes: Annotated[int, Field(ge=1, le=2 * 1024**3 - 1)] = 512 * 1024**2
    """Maximum size of a document; a larger one fails, the others of its request do not."""

    max_whole_document_bytes: Annotated[int, Field(ge=1, le=1024**3)] = 64 * 1024**2
    """Maximum size of a document of a format that is read in memory: all but plain text, Markdown, source
    code, CSV, JSON, HTML and DOCX."""

    spool_directory: Path | None = None
    """Directory of long documents while they are worked on, about five times their size on disk. Unset: the
    system's directory for temporary files."""

    max_chunks_per_document: Annotated[int, Field(ge=1, le=10_000_000)] = 400_000
    """Maximum chunks of a document; one with more fails."""

    reader_processes: Annotated[int, Field(ge=1, le=64)] = 3
    """Processes that read formats other than plain text, Markdown and source code; one is started when it is
    first needed. One client's files take all but one of them, if there are several."""

    reader_timeout_seconds: Seconds = 120.0
    """Maximum processor time for reading one such file; a small one has less: 20 seconds, and one for each
    20,000 bytes. A large one has a second more for each 4 MB, and for each 250,000 characters read of it. By
    the clock it may take five times as long, as it does on a crowded machine."""

    reader_memory_bytes: Annotated[int, Field(ge=256 * 1024**2, le=64 * 1024**3)] = 2 * 1024**3
    """Maximum address space of such a process; a file that takes more fails."""

    max_pages: Annotated[int, Field(ge=1, le=1_000_000)] = 5000
    """Maximum pages of a PDF and frames of an image; a document with more fails."""

    max_unpacked_bytes: Annotated[int, Field(ge=1024**2, le=4 * 1024**3)] = 1024**3
    """Maximum bytes that a ZIP file or a part of a PDF may unpack to, and maximum characters of a text."""

    max_image_pixels: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100_000_000
    """Maximum pixels of an image."""

    ocr_data: Path | None = None
    """Folder of tesseract's language data (eng.traineddata and the like). Unset: the system's folder. Without
    any, images fail with OCR_NOT_AVAILABLE."""

    ocr_languages: Annotated[str, Field(pattern=r"^[A-Za-z_/]+(\+[A-Za-z_/]+)*$")] = "eng"
    """Languages of images, as tesseract names them, such as eng+deu; each needs its data installed."""

    vector_index_memory_bytes: Annotated[int, Field(ge=0, le=1024**4)] = 2 * 1024**3
    """Maximum memory of PostgreSQL to build one index of vectors, which takes no more than its rows need:
    1,000 bytes and two for each dimension, so 1.8 GB for a million of 384. A graph that outgrows it is
    finished several times more slowly. A larger maintenance_work_mem of the server takes precedence."""

    reindex_grace_seconds: Annotated[float, Field(ge=0, le=86400)] = 60.0
    """Time that a replaced index stays for searches that have begun."""
