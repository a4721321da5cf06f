"""Starts the retriever."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
from groundline.v1 import retriever_service_pb2_grpc
from groundline_embedding import ModelError, create_embedder
from groundline_lexical import LexicalIndexError
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.health import ReadinessCheck
from groundline_runtime.server import Application, run

from groundline_retriever.adapters.postgres import PostgresChunkStore, open_chunk_store
from groundline_retriever.adapters.weaviate import open_weaviate_search
from groundline_retriever.embeddings import QueryVectors
from groundline_retriever.ports import SearchIndex
from groundline_retriever.service import RetrievalService
from groundline_retriever.servicer import SERVICE, RetrieverServicer
from groundline_retriever.settings import RetrieverSettings

__all__ = ["main", "wire"]

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def wire(settings: RetrieverSettings) -> AsyncIterator[Application]:
    """The service on its database and embedding model.

    Raises FailedPreconditionError where a model, the schema or the lexical index cannot be used.
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
        ):
            await store.require_schema()
            _log.info("search_index", name=settings.search_index)
            readiness: dict[str, ReadinessCheck] = {"database": store.require_schema}
            if index is store:
                readiness["lexical_index"] = store.require_sound_indexes
            embedders = [
                QueryVectors(
                    await models.enter_async_context(create_embedder(chosen)),
                    settings.query_cache_size,
                    ttl_seconds=settings.query_cache_ttl_seconds,
                )
                for chosen in (settings.embedding, settings.other_embedding)
                if chosen is not None
            ]
            await store.require_models([(each.model, each.dimensions) for each in embedders])
            service = RetrievalService(store, index, embedders, arm_timeout_share=settings.arm_timeout_share)
            servicer = RetrieverServicer(service)
            yield Application(
                services={
                    SERVICE: lambda server: retriever_service_pb2_grpc.add_RetrieverServiceServicer_to_server(
                        servicer, server
                    )
                },
                readiness=readiness,
            )
    except (LexicalIndexError, ModelError) as error:
        raise FailedPreconditionError("NOT_USABLE", str(error)) from None


@asynccontextmanager
async def _search_index(settings: RetrieverSettings, store: PostgresChunkStore) -> AsyncIterator[SearchIndex]:
    """The index that is set: that of the store, or Weaviate."""
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
