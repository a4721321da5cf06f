"""Entry point of the retriever."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog
from groundline.v1 import retriever_service_pb2_grpc
from groundline.v1.generator_service_pb2_grpc import GeneratorServiceStub
from groundline_embedding import Embedder, ModelError, create_embedders, require_agreement
from groundline_lexical import LexicalIndexError
from groundline_runtime.channels import service_channel
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.quotas import Budgets, QuotaWarnings, Spending
from groundline_runtime.serving.health import ReadinessCheck
from groundline_runtime.serving.server import Application, run
from groundline_runtime.status import UnaryCall
from groundline_validation import validate

from groundline_retriever.adapters.postgres.store import PostgresChunkStore, open_chunk_store
from groundline_retriever.adapters.reranker import SERVICE as RERANKER
from groundline_retriever.adapters.reranker import GrpcReranker
from groundline_retriever.adapters.weaviate import open_weaviate_search
from groundline_retriever.arms import Arms
from groundline_retriever.embeddings import QueryVectors
from groundline_retriever.ports import SearchIndex
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_retriever.servicer import SERVICE, RetrieverServicer
from groundline_retriever.settings import RetrieverSettings
from groundline_retriever.tables.planning import ModelPlans
from groundline_retriever.tables.service import TableService

GENERATOR: Final = "groundline.v1.GeneratorService"

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def wire(settings: RetrieverSettings) -> AsyncIterator[Application]:
    """Provide the service on its database and embedding model.

    Raises FailedPreconditionError if a model, the schema or the lexical index cannot be used.
    """
    try:
        async with (
            AsyncExitStack() as models,
            open_chunk_store(
                settings,
                settings.lexical_backend,
                read_url=settings.read_database_url,
                max_lag_seconds=settings.max_standby_lag_seconds,
            ) as store,
            _search_index(settings, store) as index,
            service_channel(settings, settings.reranker_target, RERANKER) as to_reranker,
            _model_plans(settings) as by_model,
            _spending(settings, store) as spending,
        ):
            await store.require_schema()
            _log.info("search_index", name=settings.search_index)
            readiness: dict[str, ReadinessCheck] = {"database": store.require_schema}
            if index is store:
                readiness["lexical_index"] = store.require_keyword_search
            stored = await store.embedding_models()
            running = await models.enter_async_context(
                create_embedders(
                    settings.embedding, settings.other_embedding, needed={model for model, _ in stored}
                )
            )
            require_agreement([(each.model, each.dimensions) for each in running], stored)
            embedders = [_remembering(embedder, settings) for embedder in running]
            service = SearchService(
                store,
                Arms(index, embedders, timeout_seconds=settings.arm_timeout_seconds),
                ModelScores(GrpcReranker(to_reranker), timeout_seconds=settings.rerank_timeout_seconds),
                spending=spending,
                scored_candidates=settings.scored_candidates,
                trace_texts=settings.trace_texts,
            )
            tables = TableService(store.tables, store, service, spending, by_model)
            servicer = RetrieverServicer(service, tables)
            yield Application(
                services={
                    SERVICE: lambda server: retriever_service_pb2_grpc.add_RetrieverServiceServicer_to_server(
                        servicer, server
                    )
                },
                validate=validate,
                readiness=readiness,
                computes=True,
            )
    except (LexicalIndexError, ModelError) as error:
        raise FailedPreconditionError("NOT_USABLE", str(error)) from None


def _remembering(embedder: Embedder, settings: RetrieverSettings) -> QueryVectors:
    return QueryVectors(embedder, settings.query_cache_size, ttl_seconds=settings.query_cache_ttl_seconds)


@asynccontextmanager
async def _model_plans(settings: RetrieverSettings) -> AsyncIterator[ModelPlans | None]:
    """Provide the generator's plans of tables, if its address is known."""
    if settings.generator_target is None:
        yield None
        return
    async with service_channel(settings, settings.generator_target, GENERATOR) as channel:
        ask = UnaryCall(GeneratorServiceStub(channel).PlanTable, "the generator")
        yield ModelPlans(ask, timeout_seconds=settings.planning_timeout_seconds)


@asynccontextmanager
async def _spending(settings: RetrieverSettings, store: PostgresChunkStore) -> AsyncIterator[Spending]:
    """Provide the ledger of what searches cost; it is complete at the end."""
    spending = Spending(
        store.ledger(Budgets.of(settings)), QuotaWarnings(settings.quota_warning_share), "searches"
    )
    try:
        yield spending
    finally:
        await spending.settle()


@asynccontextmanager
async def _search_index(settings: RetrieverSettings, store: PostgresChunkStore) -> AsyncIterator[SearchIndex]:
    """Provide the configured index: the store's, or Weaviate."""
    if settings.search_index == "postgres" or settings.weaviate is None:
        yield store
        return
    async with open_weaviate_search(
        settings.weaviate, store, max_lag_seconds=settings.max_index_lag_seconds
    ) as index:
        yield index


def main() -> None:
    run(RetrieverSettings, wire)


if __name__ == "__main__":
    main()
