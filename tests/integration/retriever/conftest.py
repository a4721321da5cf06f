"""The retriever on a real port before a corpus."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import grpc
import pytest
from groundline.v1 import options_pb2, reranker_service_pb2, retriever_service_pb2_grpc
from groundline_database import DatabaseSettings, register_vectors
from groundline_lexical import detect_lexical_index
from groundline_ranking import ArmHits
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.arms import Arms
from groundline_retriever.domain import Selection
from groundline_retriever.ports import QueryEmbedder
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_retriever.servicer import SERVICE, RetrieverServicer
from groundline_retriever.tables.planning import ModelPlans
from groundline_retriever.tables.service import TableService
from groundline_runtime.serving.server import Application
from groundline_runtime.settings import ServiceSettings
from groundline_tests.retriever.corpus import Corpus
from groundline_tests.retriever.library import BREAD, LEADER, LEASES, SECRET, Client
from groundline_tests.runtime import serve, spending_in
from groundline_validation import validate
from pydantic import SecretStr


@pytest.fixture(scope="session")
def corpus_on() -> Any:
    """The class `Corpus`, made by a test module for a database of its own."""
    return Corpus


@pytest.fixture(scope="module")
async def corpus(database_url: str) -> AsyncIterator[Corpus]:
    connection = await asyncpg.connect(database_url)
    await register_vectors(connection)
    yield Corpus(connection, await detect_lexical_index(connection))
    await connection.close()


@pytest.fixture(scope="module")
async def library(corpus: Any) -> None:
    """Collections for all (one with a hidden document), and one for group:board that user:clerk writes."""
    await corpus.collection("guides", [LEASES, LEADER, BREAD])
    await corpus.collection("board", [SECRET], readers=["group:board"], writers=["user:clerk"])
    await corpus.collection("drafts", [LEASES])
    await corpus.add("drafts", [SECRET], allowed_principals=["group:board"])
    await corpus.collection("empty")


@pytest.fixture
def retrieve(stub: Any, library: None) -> Client:
    return Client(stub)


class WordCounter:
    """A Reranker whose model counts how often a text says "lease"."""

    async def rerank(
        self, request: reranker_service_pb2.RerankRequest
    ) -> reranker_service_pb2.RerankResponse:
        return reranker_service_pb2.RerankResponse(
            ranked=[
                reranker_service_pb2.RankedChunk(
                    chunk_id=each.chunk_id, score=each.text.casefold().count("lease")
                )
                for each in request.candidates
            ]
        )


@asynccontextmanager
async def retriever(
    database_url: str,
    embedder: QueryEmbedder,
    *,
    arm_timeout_seconds: float = 8.0,
    max_size: int = 8,
    read_url: str | None = None,
    max_lag_seconds: float = 2.0,
    by_model: ModelPlans | None = None,
) -> AsyncIterator[str]:
    """Serve the retriever; yields its target."""
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=max_size)
    standbys = SecretStr(read_url) if read_url else None
    async with open_chunk_store(settings, read_url=standbys, max_lag_seconds=max_lag_seconds) as store:
        service = SearchService(
            store,
            Arms(store, [embedder], timeout_seconds=arm_timeout_seconds),
            ModelScores(WordCounter(), timeout_seconds=5),
            spending=spending_in(),
            scored_candidates=50,
        )
        servicer = RetrieverServicer(
            service, TableService(store.tables, store, service, spending_in(), by_model)
        )
        application = Application(
            services={
                SERVICE: lambda server: retriever_service_pb2_grpc.add_RetrieverServiceServicer_to_server(
                    servicer, server
                )
            },
            validate=validate,
            readiness={"database": store.require_schema, "lexical_index": store.require_keyword_search},
        )
        health = ServiceSettings.model_construct(health_interval_seconds=0.1)
        async with serve(application, health) as target:
            yield target


@pytest.fixture(scope="session")
def serve_retriever() -> Any:
    """The function `retriever` above, for test modules, which cannot import this one."""
    return retriever


@pytest.fixture(scope="module")
async def stub(
    database_url: str, corpus: Corpus
) -> AsyncIterator["retriever_service_pb2_grpc.RetrieverServiceAsyncStub"]:
    async with (
        retriever(database_url, corpus.embedder) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        yield retriever_service_pb2_grpc.RetrieverServiceStub(channel)


type SearchArms = Callable[..., Awaitable[Sequence[ArmHits]]]


@pytest.fixture(scope="module")
async def search_arms(database_url: str, corpus: Corpus) -> AsyncIterator[SearchArms]:
    """Return a function that searches with both arms, without ranking: search_arms(*collection_ids, query=,
    principals=, limit=)."""
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=8)
    async with open_chunk_store(settings) as store:
        arms = Arms(store, [corpus.embedder], timeout_seconds=20)

        async def search(
            *collection_ids: str,
            query: str = "lease of a replica",
            principals: Sequence[str] = (),
            limit: int = 500,
        ) -> Sequence[ArmHits]:
            collections = await store.collections(collection_ids, principals)
            options = options_pb2.RetrievalOptions(keyword_limit=limit, semantic_limit=limit)
            groups = arms.grouped(collections, options)
            found, degraded = await arms.search(query, groups, Selection(principals), {})
            assert not degraded
            return found

        yield search
