"""Runs the ingestor, or migrates the database."""

import argparse
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from groundline.v1 import ingestor_service_pb2_grpc
from groundline_embedding import Embedder, ModelError, create_embedder
from groundline_lexical import LexicalIndexError, detect_lexical_index
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.postgres import require_schema_version
from groundline_runtime.server import Application, run, run_command

from groundline_ingestor.adapters.extraction.extractor import DocumentExtractor
from groundline_ingestor.adapters.extraction.readers.common import Limits as ReaderLimits
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.adapters.postgres import open_database
from groundline_ingestor.adapters.postgres_collections import PostgresCollections
from groundline_ingestor.adapters.postgres_documents import PostgresDocuments
from groundline_ingestor.adapters.postgres_jobs import PostgresJobs
from groundline_ingestor.adapters.splitting import DocumentSplitter
from groundline_ingestor.migrate import SCHEMA_VERSION, migrate
from groundline_ingestor.ports import CollectionRepository, DocumentRepository, JobRepository
from groundline_ingestor.service.collections import CollectionService
from groundline_ingestor.service.documents import DocumentService
from groundline_ingestor.service.ingestion import IngestionService
from groundline_ingestor.service.jobs import JobService
from groundline_ingestor.service.preparation import Limits, Preparation
from groundline_ingestor.servicer import SERVICE_NAME, IngestorServicer
from groundline_ingestor.settings import IngestorSettings, MigrationSettings

__all__ = ["assemble", "main", "wire"]


@asynccontextmanager
async def wire(settings: IngestorSettings) -> AsyncIterator[Application]:
    """The service on its database and embedding model. Raises FailedPreconditionError, UnavailableError."""
    with _clear_errors():
        async with (
            open_database(settings.database_url, max_size=settings.pool_max_size) as pool,
            create_embedder(settings.embedding) as embedder,
            open_sandbox(settings) as sandbox,
        ):
            await require_schema_version(pool, SCHEMA_VERSION)
            async with pool.acquire() as connection:
                lexical = await detect_lexical_index(connection, settings.lexical_backend)
            servicer = assemble(
                settings,
                PostgresCollections(pool, lexical),
                PostgresDocuments(pool),
                PostgresJobs(pool),
                embedder,
                sandbox,
            )

            async def database_is_usable() -> None:
                await require_schema_version(pool, SCHEMA_VERSION)

            # The model needs no check: without it the port does not open.
            yield Application(
                services={
                    SERVICE_NAME: lambda server: (
                        ingestor_service_pb2_grpc.add_IngestorServiceServicer_to_server(servicer, server)
                    )
                },
                readiness={"database": database_is_usable},
            )


def assemble(
    settings: IngestorSettings,
    collections: CollectionRepository,
    documents: DocumentRepository,
    jobs: JobRepository,
    embedder: Embedder,
    sandbox: Sandbox,
) -> IngestorServicer:
    """The servicer over given stores and model."""
    limits = Limits(settings.max_document_bytes, settings.max_chunks_per_document)
    splitter = DocumentSplitter(embedder.count_tokens)
    preparation = Preparation(DocumentExtractor(sandbox), splitter, limits)
    return IngestorServicer(
        CollectionService(collections, embedder),
        DocumentService(collections, documents),
        IngestionService(collections, documents, jobs, embedder, preparation),
        JobService(collections, jobs),
        max_documents=settings.max_documents_per_request,
    )


@asynccontextmanager
async def open_sandbox(settings: IngestorSettings) -> AsyncIterator[Sandbox]:
    """Where risky formats are read; a process is started when the first such file comes."""
    limits = ReaderLimits(
        max_pages=settings.max_pages,
        max_unpacked_bytes=settings.max_unpacked_bytes,
        max_image_pixels=settings.max_image_pixels,
        memory_bytes=settings.reader_memory_bytes,
        seconds=settings.reader_timeout_seconds,
        ocr_command=shutil.which(settings.ocr_command) or "",
        ocr_languages=settings.ocr_languages,
    )
    with Sandbox(limits, processes=settings.reader_processes) as sandbox:
        yield sandbox


def main(argv: Sequence[str] | None = None) -> None:
    """`groundline-ingestor [serve|migrate] [--settings FILE]`."""
    parser = argparse.ArgumentParser(prog="groundline-ingestor", description=__doc__)
    parser.add_argument(
        "command",
        nargs="?",
        choices=("serve", "migrate"),
        default="serve",
        help="serve (the default), or bring the database's schema up to date and end",
    )
    parser.add_argument("--settings", metavar="FILE", help="read settings from a dotenv file")
    options = parser.parse_args(argv)
    rest = ["--settings", options.settings] if options.settings else []
    if options.command == "migrate":
        run_command(MigrationSettings, _migrate, rest)
    else:
        run(IngestorSettings, wire, rest)


async def _migrate(settings: MigrationSettings) -> None:
    await migrate(settings.database_url, settings.lexical_backend)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except LexicalIndexError as error:
        raise FailedPreconditionError("LEXICAL_INDEX_UNAVAILABLE", str(error)) from error
    except ModelError as error:
        raise FailedPreconditionError("EMBEDDING_MODEL_UNAVAILABLE", str(error)) from error


if __name__ == "__main__":
    main()
