"""Searches after an unclean stop of the database, by which the backend may lose rows."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import grpc
import pytest
from groundline.v1 import error_pb2, options_pb2, passage_pb2, retriever_service_pb2_grpc
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings, migrate, open_pool, register_vectors
from groundline_indexing.lexical_indexes import LexicalIndexes
from groundline_lexical.pg_search import PgSearchIndex
from groundline_runtime.errors import UnavailableError
from groundline_runtime.status import from_rpc_error
from groundline_tests.postgres import PostgresServer
from groundline_tests.retriever.health import health_becomes
from grpc_health.v1 import health_pb2
from pydantic import SecretStr

TEXTS = [f"A replica that lost lease {number} stops serving reads." for number in range(50)]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def server(tmp_path_factory: pytest.TempPathFactory, corpus_on: Any) -> AsyncIterator[PostgresServer]:
    """Server with the collections guides and board, each in a partition of its own."""
    async with PostgresServer(tmp_path_factory.mktemp("unclean"), {}) as server:
        connection = await asyncpg.connect(server.dsn)
        await PgSearchIndex().create_extension(connection)
        await migrate(settings_of(server), "ingestor")
        await register_vectors(connection)
        corpus = corpus_on(connection, PgSearchIndex())
        for collection in ("guides", "board"):
            await corpus.collection(collection, TEXTS)
        await connection.close()
        yield server


def settings_of(server: PostgresServer) -> DatabaseSettings:
    return DatabaseSettings(database_url=SecretStr(server.dsn))


async def retrieve(
    target: str, mode: "options_pb2.RetrievalMode.ValueType", *collection_ids: str
) -> pb.SearchResponse:
    request = pb.SearchRequest(
        query="lease replica",
        collection_ids=collection_ids,
        options=options_pb2.SearchOptions(
            retrieval=options_pb2.RetrievalOptions(mode=mode, keyword_limit=50, semantic_limit=50),
            rerank=options_pb2.RerankOptions(top_k=100, deduplication_threshold=0),
        ),
    )
    async with grpc.aio.insecure_channel(target) as channel:
        try:
            return await retriever_service_pb2_grpc.RetrieverServiceStub(channel).Search(request, timeout=20)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None


async def test_no_search_after_kill_9_lacks_chunks_without_saying_so_until_all_is_rebuilt(
    server: PostgresServer, serve_retriever: Any, corpus_on: Any
) -> None:
    embedder = corpus_on(None, PgSearchIndex()).embedder
    keyword, hybrid = options_pb2.RETRIEVAL_MODE_KEYWORD, options_pb2.RETRIEVAL_MODE_HYBRID
    async with serve_retriever(server.dsn, embedder) as target:
        whole = await retrieve(target, keyword, "guides", "board")
        assert len(whole.passages) == 2 * len(TEXTS)
        assert not whole.degraded

        await server.kill()
        await server.start()
        with pytest.raises(UnavailableError) as caught:
            await retrieve(target, keyword, "guides")
        assert caught.value.reason == "LEXICAL_INDEX_UNSOUND"
        found = await retrieve(target, hybrid, "guides", "board")
        assert not any(each.explanation.HasField("keyword") for each in found.passages)
        assert found.passages
        assert [(each.component, each.reason) for each in found.degraded] == [
            (passage_pb2.COMPONENT_KEYWORD_ARM, error_pb2.LEXICAL_INDEX_UNSOUND)
        ]
        # What is said in each answer takes no replica out of service.
        await health_becomes(target, SERVING)

        async with open_pool(settings_of(server)) as pool:
            assert len(await LexicalIndexes(pool, PgSearchIndex()).rebuild_due()) == 2
        whole = await retrieve(target, keyword, "guides", "board")
        assert len(whole.passages) == 2 * len(TEXTS)
        assert not whole.degraded


async def test_one_partition_at_a_time_comes_back_while_the_others_are_named(
    server: PostgresServer, serve_retriever: Any, corpus_on: Any
) -> None:
    connection = await asyncpg.connect(server.dsn)
    await connection.execute(
        """
        UPDATE chunk_partitions SET lexical_built_after = NULL
        WHERE partition_id = (SELECT partition_id FROM collections WHERE collection_id = 'board')
        """
    )
    await connection.close()
    embedder = corpus_on(None, PgSearchIndex()).embedder
    async with serve_retriever(server.dsn, embedder) as target:
        found = await retrieve(target, options_pb2.RETRIEVAL_MODE_KEYWORD)
        assert len(found.passages) == len(TEXTS)
        [degradation] = found.degraded
        assert "index of board is missing or may lack chunks" in degradation.message


async def test_a_backend_that_does_not_answer_on_a_standby_makes_the_service_not_ready_there(
    server: PostgresServer, serve_retriever: Any, corpus_on: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    embedder = corpus_on(None, PgSearchIndex()).embedder
    standby = await server.standby(tmp_path_factory.mktemp("standby"))
    async with serve_retriever(standby.dsn, embedder) as target:
        await health_becomes(target, NOT_SERVING)
        connection = await asyncpg.connect(standby.dsn)
        await connection.execute("SELECT pg_promote()")
        await connection.close()
        # Its index is as old as the copy.
        found = await retrieve(target, options_pb2.RETRIEVAL_MODE_HYBRID, "guides")
        assert [each.reason for each in found.degraded] == [error_pb2.LEXICAL_INDEX_UNSOUND]
        await health_becomes(target, SERVING)
    await standby.stop()
