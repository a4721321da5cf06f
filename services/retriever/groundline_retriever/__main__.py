"""Starts the retriever."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from groundline.v1 import retriever_service_pb2_grpc
from groundline_embedding import ModelError, create_embedder
from groundline_lexical import LexicalIndexError
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.server import Application, run

from groundline_retriever.adapters.postgres import open_chunk_store
from groundline_retriever.embeddings import QueryVectors
from groundline_retriever.service import RetrievalService
from groundline_retriever.servicer import SERVICE, RetrieverServicer
from groundline_retriever.settings import RetrieverSettings

__all__ = ["main", "wire"]


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
        ):
            await store.require_schema()
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
            service = RetrievalService(store, embedders, arm_timeout_share=settings.arm_timeout_share)
            servicer = RetrieverServicer(service)
            yield Application(
                services={
                    SERVICE: lambda server: retriever_service_pb2_grpc.add_RetrieverServiceServicer_to_server(
                        servicer, server
                    )
                },
                readiness={"database": store.require_schema, "lexical_index": store.require_sound_indexes},
            )
    except (LexicalIndexError, ModelError) as error:
        raise FailedPreconditionError("NOT_USABLE", str(error)) from None


def main() -> None:
    run(RetrieverSettings, wire)


if __name__ == "__main__":
    main()
