"""Runs the ingestor, or migrates the database."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from groundline.v1 import ingestor_service_pb2_grpc
from groundline_database import (
    Pool,
    keep_session,
    listening,
    open_pool,
    page_token_key,
    register_vectors,
    require_schema,
    stored_embedding_models,
)
from groundline_database.commands import serve_or_migrate
from groundline_embedding import Embedder, ModelError, create_embedder, require_agreement
from groundline_lexical import LexicalIndex, LexicalIndexError, detect_lexical_index
from groundline_runtime.channels import open_channel
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.paging import PageTokens
from groundline_runtime.server import Application
from groundline_weaviate import open_weaviate

from groundline_ingestor import index_command
from groundline_ingestor.adapters.contextualizing import (
    GENERATOR_SERVICE,
    GrpcContextWriter,
    PostgresContextCache,
)
from groundline_ingestor.adapters.crawling import HttpCrawler
from groundline_ingestor.adapters.extraction.extractor import DocumentExtractor
from groundline_ingestor.adapters.extraction.ocr import find_ocr_data
from groundline_ingestor.adapters.extraction.readers.common import ReaderLimits
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.adapters.fetching import CrawlLimits
from groundline_ingestor.adapters.postgres_collections import PostgresCollections
from groundline_ingestor.adapters.postgres_crawls import PostgresCrawls
from groundline_ingestor.adapters.postgres_documents import PostgresDocuments
from groundline_ingestor.adapters.postgres_embeddings import PostgresEmbeddingCache
from groundline_ingestor.adapters.postgres_index_feed import PostgresIndexFeed
from groundline_ingestor.adapters.postgres_jobs import PostgresJobs
from groundline_ingestor.adapters.postgres_lexical_indexes import PostgresLexicalIndexes
from groundline_ingestor.adapters.postgres_queue import PostgresQueue
from groundline_ingestor.adapters.postgres_quotas import PostgresQuotas
from groundline_ingestor.adapters.postgres_reindex import PostgresReindex
from groundline_ingestor.adapters.postgres_seen_pages import PostgresSeenPages
from groundline_ingestor.adapters.postgres_sources import PostgresSources
from groundline_ingestor.adapters.postgres_vector_indexes import PostgresVectorIndexes
from groundline_ingestor.adapters.postgres_webhooks import PostgresWebhooks
from groundline_ingestor.adapters.sources.connectors import SourceConnectors
from groundline_ingestor.adapters.splitting import DocumentSplitter
from groundline_ingestor.adapters.weaviate_index import WeaviateIndex
from groundline_ingestor.adapters.webhooks import HttpWebhookSender
from groundline_ingestor.domain.quotas import Limits
from groundline_ingestor.migrate import SCHEMA, migrate
from groundline_ingestor.ports import (
    CollectionRepository,
    ContextCache,
    ContextWriter,
    CrawlRepository,
    DocumentRepository,
    EmbeddingCache,
    JobRepository,
    LexicalIndexes,
    QuotaRepository,
    ReindexRepository,
    SeenPages,
    SourceRepository,
    VectorIndexes,
    WebhookOutbox,
    WorkQueue,
)
from groundline_ingestor.service.collections import CollectionService
from groundline_ingestor.service.contextualization import Contextualization
from groundline_ingestor.service.crawls import Crawling
from groundline_ingestor.service.documents import DocumentService
from groundline_ingestor.service.embedding import RememberingEmbedder
from groundline_ingestor.service.embeddings import EmbeddingService
from groundline_ingestor.service.feeding import Feeding
from groundline_ingestor.service.ingestion import IngestionService
from groundline_ingestor.service.jobs import JobService
from groundline_ingestor.service.options import WorkerOptions
from groundline_ingestor.service.preparation import DocumentLimits, Preparation
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.reindex import ReindexService
from groundline_ingestor.service.source_runs import SourceRuns
from groundline_ingestor.service.sources import SourceService
from groundline_ingestor.service.webhooks import Webhooks
from groundline_ingestor.service.worker import Worker
from groundline_ingestor.servicer import SERVICE_NAME, IngestorServicer
from groundline_ingestor.settings import IngestorSettings, MigrationSettings

__all__ = ["Stores", "assemble", "main", "open_sandbox", "stores_on", "wire", "working"]


@asynccontextmanager
async def wire(settings: IngestorSettings) -> AsyncIterator[Application]:
    """The service on its database and embedding model. Raises FailedPreconditionError, UnavailableError."""
    with _clear_errors():
        async with (
            open_pool(settings, init=register_vectors, reset=keep_session) as pool,
            create_embedder(settings.embedding) as embedder,
            open_sandbox(settings) as sandbox,
            open_generator(settings) as generator,
        ):
            await require_schema(pool, SCHEMA)
            async with pool.acquire() as connection:
                if settings.other_embedding is None:
                    running = [(embedder.model, embedder.dimensions)]
                    require_agreement(running, await stored_embedding_models(connection))
                lexical = await detect_lexical_index(connection, settings.lexical_backend)
            stores = stores_on(
                pool,
                lexical,
                spool_directory=settings.spool_directory,
                vector_index_memory_bytes=settings.vector_index_memory_bytes,
            )
            page_tokens = PageTokens(await page_token_key(pool, "ingestor"))
            servicer, worker = assemble(settings, stores, embedder, sandbox, page_tokens, generator)

            async def database_is_usable() -> None:
                await require_schema(pool, SCHEMA)

            # The model needs no check: without it the port does not open.
            async with working(worker, settings), feeding_index(pool, settings):
                yield Application(
                    services={
                        SERVICE_NAME: lambda server: (
                            ingestor_service_pb2_grpc.add_IngestorServiceServicer_to_server(servicer, server)
                        )
                    },
                    readiness={"database": database_is_usable},
                )


@dataclass(frozen=True)
class Stores:
    """What is behind the ports of storage."""

    collections: CollectionRepository
    documents: DocumentRepository
    jobs: JobRepository
    queue: WorkQueue
    crawls: CrawlRepository
    sources: SourceRepository
    seen_pages: Callable[[str], SeenPages]
    reindex: ReindexRepository
    lexical_indexes: LexicalIndexes
    vector_indexes: VectorIndexes
    embeddings: EmbeddingCache
    contexts: ContextCache
    quotas: QuotaRepository
    webhooks: WebhookOutbox


def stores_on(
    pool: Pool,
    lexical: LexicalIndex,
    *,
    spool_directory: Path | None = None,
    vector_index_memory_bytes: int = 0,
) -> Stores:
    """All of them in PostgreSQL; what is too large for memory is put into a directory."""
    return Stores(
        PostgresCollections(pool, lexical),
        PostgresDocuments(pool, lexical),
        PostgresJobs(pool),
        PostgresQueue(pool, spool_directory=spool_directory),
        PostgresCrawls(pool),
        PostgresSources(pool),
        partial(PostgresSeenPages, pool),
        PostgresReindex(pool, lexical, spool_directory=spool_directory),
        PostgresLexicalIndexes(pool, lexical),
        PostgresVectorIndexes(pool, maximum_bytes=vector_index_memory_bytes),
        PostgresEmbeddingCache(pool),
        PostgresContextCache(pool),
        PostgresQuotas(pool),
        PostgresWebhooks(pool),
    )


def assemble(
    settings: IngestorSettings,
    stores: Stores,
    embedder: Embedder,
    sandbox: Sandbox,
    page_tokens: PageTokens,
    generator: ContextWriter | None = None,
) -> tuple[IngestorServicer, Worker]:
    """The servicer over given stores and models, and the worker that does what it takes in."""
    limits = DocumentLimits(settings.max_document_bytes, settings.max_chunks_per_document)
    splitter = DocumentSplitter(embedder.count_tokens)
    extractor = DocumentExtractor(sandbox, max_whole_bytes=settings.max_whole_document_bytes)
    preparation = Preparation(extractor, splitter, limits, settings.spool_directory)
    contextualization = Contextualization(
        generator, stores.contexts, embedder.count_tokens, calls=settings.generator_calls
    )
    remembering = RememberingEmbedder(
        embedder,
        stores.embeddings if settings.embedding_cache_days else None,
        remembered=settings.embedding_cache_entries,
    )
    options = WorkerOptions(
        workers=settings.workers,
        crawls=settings.crawls,
        spool_directory=settings.spool_directory,
        lease_seconds=settings.lease_seconds,
        max_attempts=settings.max_attempts,
        reindex_grace_seconds=settings.reindex_grace_seconds,
        payload_seconds=settings.payload_days * 86400,
        cache_seconds=settings.embedding_cache_days * 86400,
    )
    quotas = Quotas(
        stores.quotas,
        Limits(
            collections=settings.max_collections_per_caller,
            jobs=settings.max_jobs_per_caller,
            documents=settings.max_documents_per_collection,
            bytes=settings.max_bytes_per_collection,
            sources=settings.max_sources_per_collection,
        ),
    )
    crawler = HttpCrawler(sandbox, CrawlLimits(user_agent=settings.crawl_user_agent))
    connectors = SourceConnectors(
        crawler,
        stores.seen_pages,
        sandbox,
        user_agent=settings.crawl_user_agent,
        directories=settings.source_directories,
        secrets_directory=settings.secrets_directory,
        max_document_bytes=settings.max_document_bytes,
        spool_directory=settings.spool_directory,
    )
    worker = Worker(
        stores.queue,
        stores.collections,
        stores.documents,
        stores.reindex,
        stores.lexical_indexes,
        stores.vector_indexes,
        remembering,
        stores.embeddings,
        preparation,
        contextualization,
        quotas,
        options,
        crawls=stores.crawls,
        crawling=Crawling(
            stores.crawls,
            crawler,
            quotas,
            allow_private_addresses=settings.crawl_private_addresses,
        ),
        sources=stores.sources,
        run_source=SourceRuns(
            stores.sources,
            stores.collections,
            connectors,
            quotas,
            allow_private_addresses=settings.crawl_private_addresses,
        ).run,
        tell_webhooks=Webhooks(
            stores.webhooks,
            HttpWebhookSender(
                settings.secrets_directory, allow_private_addresses=settings.crawl_private_addresses
            ),
        ).tell,
    )
    collections, jobs = stores.collections, stores.jobs
    servicer = IngestorServicer(
        CollectionService(collections, embedder, quotas, page_tokens),
        DocumentService(collections, stores.documents, quotas, page_tokens),
        IngestionService(
            collections,
            jobs,
            stores.crawls,
            embedder,
            preparation,
            contextualization,
            quotas,
            on_enqueued=worker.wake,
        ),
        JobService(collections, jobs, page_tokens, on_enqueued=worker.wake),
        SourceService(
            collections, jobs, stores.sources, connectors, quotas, page_tokens, on_enqueued=worker.wake
        ),
        ReindexService(collections, jobs, stores.reindex, embedder, on_enqueued=worker.wake),
        EmbeddingService(embedder),
        max_documents=settings.max_documents_per_request,
    )
    return servicer, worker


@asynccontextmanager
async def working(worker: Worker, settings: IngestorSettings) -> AsyncIterator[None]:
    """The worker at work, told of work by the database; what it holds at the end goes back to the queue."""
    if not settings.workers:
        yield
        return
    task = asyncio.create_task(worker.run())
    try:
        async with listening(settings, "groundline_items", worker.wake):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def feeding_index(pool: Pool, settings: IngestorSettings) -> AsyncIterator[None]:
    """The distributed index fed, where there is one and this process has workers."""
    if settings.weaviate is None or not settings.workers:
        yield
        return
    async with open_weaviate(settings.weaviate) as weaviate:
        feeding = Feeding(PostgresIndexFeed(pool), WeaviateIndex(weaviate))
        task = asyncio.create_task(feeding.run())
        try:
            async with listening(settings, "groundline_search_index", feeding.wake):
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def open_generator(settings: IngestorSettings) -> AsyncIterator[ContextWriter | None]:
    """What writes contexts, where there is one."""
    if settings.generator_target is None:
        yield None
        return
    async with open_channel(
        settings.generator_target,
        service=GENERATOR_SERVICE,
        default_timeout_seconds=settings.generator_timeout_seconds,
    ) as channel:
        yield GrpcContextWriter(channel)


@asynccontextmanager
async def open_sandbox(settings: IngestorSettings) -> AsyncIterator[Sandbox]:
    """Where risky formats are read; a process is started when the first such file comes."""
    limits = ReaderLimits(
        max_pages=settings.max_pages,
        max_unpacked_bytes=settings.max_unpacked_bytes,
        max_image_pixels=settings.max_image_pixels,
        memory_bytes=settings.reader_memory_bytes,
        seconds=settings.reader_timeout_seconds,
        ocr_data=find_ocr_data(settings.ocr_data),
        ocr_languages=settings.ocr_languages,
    )
    with Sandbox(
        limits, processes=settings.reader_processes, spool_directory=settings.spool_directory
    ) as sandbox:
        yield sandbox


def main(argv: Sequence[str] | None = None) -> None:
    """`groundline-ingestor [serve|migrate] [--settings FILE]`, or `groundline-ingestor index ACTION …`."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["index"]:
        index_command.main(given[1:])
        return
    serve_or_migrate(IngestorSettings, wire, MigrationSettings, migrate, given, epilog=index_command.HINT)


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
