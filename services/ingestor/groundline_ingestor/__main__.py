"""Entry point of the ingestor, and the migration of its database."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

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
from groundline_embedding import Embedders, ModelError, create_embedders, require_agreement
from groundline_extraction.sandbox import Sandbox
from groundline_indexing.feed.feeding import Feeding
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.feed.weaviate import WeaviateIndex
from groundline_indexing.preparation import open_sandbox, preparation_by
from groundline_lexical import LexicalIndexError, detect_lexical_index
from groundline_runtime.channels import open_channel
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.paging import PageTokens
from groundline_runtime.quotas import Budgets, QuotaWarnings
from groundline_runtime.serving.server import Application
from groundline_validation import validate
from groundline_weaviate import open_weaviate

from groundline_ingestor import index_command
from groundline_ingestor.adapters.collector import COLLECTOR_SERVICE, GrpcCollector, NoCollector
from groundline_ingestor.adapters.contextualizing import (
    GENERATOR_SERVICE,
    GrpcTextWriter,
)
from groundline_ingestor.adapters.postgres.stores import Stores, stores_on
from groundline_ingestor.domain.quotas import Limits
from groundline_ingestor.migrate import SCHEMA, migrate
from groundline_ingestor.ports import Collector
from groundline_ingestor.service.collecting.crawls import Crawling
from groundline_ingestor.service.collecting.source_runs import SourceRuns
from groundline_ingestor.service.collecting.sources import SourceService
from groundline_ingestor.service.collections import CollectionService
from groundline_ingestor.service.documents import DocumentService
from groundline_ingestor.service.embeddings import EmbeddingService
from groundline_ingestor.service.erasures import ErasureService
from groundline_ingestor.service.holds import HoldService
from groundline_ingestor.service.ingestion import IngestionService
from groundline_ingestor.service.jobs import JobService
from groundline_ingestor.service.pages import PagePictures
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.reindex import ReindexService
from groundline_ingestor.service.revisions import RevisionService
from groundline_ingestor.service.webhooks import Webhooks
from groundline_ingestor.service.worker.embedding import RememberingEmbedder
from groundline_ingestor.service.worker.generator.asking import GeneratorCalls
from groundline_ingestor.service.worker.generator.contextualization import Contextualization
from groundline_ingestor.service.worker.generator.describing import PictureDescriptions
from groundline_ingestor.service.worker.stages import Stages
from groundline_ingestor.service.worker.worker import Worker
from groundline_ingestor.servicer import SERVICE_NAME, IngestorServicer
from groundline_ingestor.settings import IngestorSettings, MigrationSettings


@asynccontextmanager
async def wire(settings: IngestorSettings) -> AsyncIterator[Application]:
    """Provide the service on its database and embedding model. Raises FailedPreconditionError,
    UnavailableError."""
    with _clear_errors():
        async with (
            open_pool(settings, init=register_vectors, reset=keep_session) as pool,
            create_embedders(settings.embedding, settings.other_embedding) as embedders,
            open_sandbox(settings) as sandbox,
            open_collector(settings) as collector,
            open_generator(settings) as generator,
        ):
            await require_schema(pool, SCHEMA)
            async with pool.acquire() as connection:
                running = [(each.model, each.dimensions) for each in embedders]
                require_agreement(running, await stored_embedding_models(connection))
                lexical = await detect_lexical_index(connection, settings.lexical_backend)
            stores = stores_on(
                pool,
                lexical,
                spool_directory=settings.spool_directory,
                vector_index_memory_bytes=settings.vector_index_memory_bytes,
                budgets=Budgets.of(settings),
            )
            page_tokens = PageTokens(await page_token_key(pool, "ingestor"))
            servicer, worker = wire_on(
                settings, stores, embedders, sandbox, page_tokens, generator, collector
            )

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
                    validate=validate,
                    readiness={"database": database_is_usable},
                )


def wire_on(
    settings: IngestorSettings,
    stores: Stores,
    embedders: Embedders,
    sandbox: Sandbox,
    page_tokens: PageTokens,
    generator: GrpcTextWriter | None = None,
    collector: Collector | None = None,
) -> tuple[IngestorServicer, Worker]:
    """Return the servicer over given stores and models, and the worker that does what it takes in."""
    quotas = _quotas(settings, stores)
    stages = _stages(settings, stores, embedders, sandbox, generator)
    collector = collector or NoCollector()
    worker = _worker(settings, stores, stages, quotas, collector)
    collections, jobs = stores.collections, stores.jobs
    erasures = ErasureService(collections, stores.erasures, page_tokens)
    documents = DocumentService(
        collections,
        stores.documents,
        RevisionService(collections, stores.documents, stores.revisions, page_tokens),
        HoldService(collections, stores.holds, page_tokens),
        quotas,
        page_tokens,
        PagePictures(sandbox, stages.preparation.open_spool_file),
    )
    servicer = IngestorServicer(
        CollectionService(collections, embedders, quotas, erasures, page_tokens),
        documents,
        IngestionService(
            stores,
            stages,
            quotas,
            max_documents=settings.max_documents_per_request,
            on_enqueued=worker.wake,
        ),
        JobService(collections, jobs, page_tokens, on_enqueued=worker.wake),
        SourceService(
            collections, jobs, stores.sources, collector, quotas, page_tokens, on_enqueued=worker.wake
        ),
        ReindexService(
            collections,
            jobs,
            stores.reindex,
            stores.kept_indexes,
            embedders,
            grace_seconds=settings.reindex_grace_seconds,
            on_enqueued=worker.wake,
        ),
        EmbeddingService(embedders, quotas.spending),
    )
    return servicer, worker


def _quotas(settings: IngestorSettings, stores: Stores) -> Quotas:
    return Quotas(
        stores.quotas,
        Limits(
            collections=settings.max_collections_per_caller,
            jobs=settings.max_jobs_per_caller,
            documents=settings.max_documents_per_collection,
            bytes=settings.max_bytes_per_collection,
            sources=settings.max_sources_per_collection,
        ),
        QuotaWarnings(settings.quota_warning_share),
    )


def _stages(
    settings: IngestorSettings,
    stores: Stores,
    embedders: Embedders,
    sandbox: Sandbox,
    generator: GrpcTextWriter | None,
) -> Stages:
    calls = GeneratorCalls(settings.generator_calls)
    return Stages(
        preparation_by(settings, sandbox, embedders),
        PictureDescriptions(generator, stores.contexts, calls),
        # Lengths for a language model, which no embedding model counts exactly.
        Contextualization(
            generator,
            stores.contexts,
            embedders.default.count_tokens,
            calls,
        ),
        RememberingEmbedder(
            embedders,
            stores.embeddings if settings.embedding_cache_days else None,
            remembered=settings.embedding_cache_entries,
        ),
    )


def _worker(
    settings: IngestorSettings,
    stores: Stores,
    stages: Stages,
    quotas: Quotas,
    collector: Collector,
) -> Worker:
    return Worker(
        stores,
        stages,
        quotas,
        settings,
        crawling=Crawling(stores.crawls, collector, quotas),
        run_source=SourceRuns(stores, collector, quotas).run,
        tell_webhooks=Webhooks(stores.webhooks, collector).tell,
    )


@asynccontextmanager
async def working(worker: Worker, settings: IngestorSettings) -> AsyncIterator[None]:
    """Run the worker, woken by the database; its items go back to the queue at the end."""
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
    """Deliver changes to the distributed index, if one is configured and this process has workers."""
    if settings.weaviate is None or not settings.workers:
        yield
        return
    async with open_weaviate(settings.weaviate) as weaviate:
        feeding = Feeding(IndexFeed(pool), WeaviateIndex(weaviate))
        task = asyncio.create_task(feeding.run())
        try:
            async with listening(settings, "groundline_search_index", feeding.wake):
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def open_generator(settings: IngestorSettings) -> AsyncIterator[GrpcTextWriter | None]:
    """Provide what writes contexts and describes pictures, or None without a generator."""
    if settings.generator_target is None:
        yield None
        return
    async with open_channel(
        settings.generator_target,
        service=GENERATOR_SERVICE,
        default_timeout_seconds=settings.generator_timeout_seconds,
    ) as channel:
        yield GrpcTextWriter(channel)


@asynccontextmanager
async def open_collector(settings: IngestorSettings) -> AsyncIterator[Collector]:
    """Yield what reads sources and tells webhooks."""
    if settings.collector_target is None:
        yield NoCollector()
        return
    async with open_channel(settings.collector_target, service=COLLECTOR_SERVICE) as channel:
        yield GrpcCollector(
            channel,
            max_document_bytes=settings.max_document_bytes,
            spool_directory=settings.spool_directory,
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Run `groundline-ingestor [serve|migrate] [--settings FILE]`, or `groundline-ingestor index ACTION
    …`."""
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
