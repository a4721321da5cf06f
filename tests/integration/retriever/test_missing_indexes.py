"""Searches while a keyword index is missing or broken: its partition is left out and named, no service goes
down, and the ingestor's upkeep builds what is missing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import grpc
import pytest
from groundline.v1 import error_pb2, options_pb2, retriever_service_pb2_grpc
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings, migrate, open_pool, register_vectors
from groundline_indexing.lexical_indexes import LexicalIndexes
from groundline_lexical import Connection, LexicalIndex
from groundline_lexical.detection import BACKENDS
from groundline_lexical.pg_textsearch import PgTextsearchIndex
from groundline_tests.lexical import allow_lossy, lexical_server_settings, offered_index
from groundline_tests.postgres import PostgresServer
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr

# A backend that is skipped is to be seen, not to fail.
pytestmark = pytest.mark.filterwarnings("default:LEXICAL BACKEND NOT TESTED:pytest.PytestWarning")

TEXTS = [f"A replica that lost lease {number} stops serving reads." for number in range(5)]
KEYWORD = options_pb2.RETRIEVAL_MODE_KEYWORD
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Site:
    """A database with the collections guides and board, each in a partition of its own."""

    dsn: str
    connection: Connection
    lexical: LexicalIndex
    board: str
    """Table of the chunks of board."""

    async def rebuild_due(self) -> int:
        """Do the ingestor's upkeep of keyword indexes once; return the number of built ones."""
        async with open_pool(DatabaseSettings(database_url=SecretStr(self.dsn))) as pool:
            return len(await LexicalIndexes(pool, self.lexical).rebuild_due())


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    folder = tmp_path_factory.mktemp("missing-indexes")
    async with PostgresServer(folder, await lexical_server_settings()) as server:
        yield server


async def migrated_database(
    server: PostgresServer, name: str, lexical: LexicalIndex
) -> tuple[str, asyncpg.Connection]:
    superuser = await asyncpg.connect(server.dsn)
    await superuser.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await superuser.execute(f"CREATE DATABASE {name}")
    await superuser.close()
    dsn = server.dsn_of(name)
    connection = await asyncpg.connect(dsn)
    await lexical.create_extension(connection)
    await migrate(DatabaseSettings(database_url=SecretStr(dsn)), "ingestor")
    await register_vectors(connection)
    return dsn, connection


@pytest.fixture(params=BACKENDS)
async def site(
    request: pytest.FixtureRequest, server: PostgresServer, corpus_on: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    allow_lossy(monkeypatch)
    lexical = await offered_index(server.dsn, request.param)
    dsn, connection = await migrated_database(server, "suite", lexical)
    corpus = corpus_on(connection, lexical)
    for collection in ("guides", "board"):
        await corpus.collection(collection, TEXTS)
    yield Site(dsn, connection, lexical, f"chunks_p{await corpus.partition('board')}")
    await connection.close()


@pytest.fixture
async def target(site: Site, serve_retriever: Any, corpus_on: Any) -> AsyncIterator[str]:
    async with serve_retriever(site.dsn, corpus_on(None, site.lexical).embedder) as target:
        yield target


async def search(
    target: str, *collection_ids: str, mode: options_pb2.RetrievalMode.ValueType = KEYWORD
) -> pb.SearchResponse:
    request = pb.SearchRequest(
        query="lease replica",
        collection_ids=collection_ids,
        options=options_pb2.SearchOptions(
            retrieval=options_pb2.RetrievalOptions(mode=mode),
            rerank=options_pb2.RerankOptions(top_k=100, deduplication_threshold=0),
        ),
    )
    async with grpc.aio.insecure_channel(target) as channel:
        return await retriever_service_pb2_grpc.RetrieverServiceStub(channel).Search(request, timeout=20)


async def search_that_leaves_out(target: str, number: int) -> pb.SearchResponse:
    """Return the first search of both collections that leaves out a number of them."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = None
            try:
                found = await search(target, "guides", "board")
            except grpc.aio.AioRpcError:
                assert number > 0
            if found is not None and len(found.degraded) == number:
                return found
            await asyncio.sleep(0.1)


async def assert_serving(target: str) -> None:
    """Fail if a check of what is stored has taken the service out of use."""
    async with grpc.aio.insecure_channel(target) as channel:
        request = health_pb2.HealthCheckRequest(service="groundline.v1.RetrieverService")
        answer = await health_pb2_grpc.HealthStub(channel).Check(request)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_vectors_find_all_while_a_keyword_index_is_being_built(site: Site, target: str) -> None:
    await site.connection.execute(f"DROP INDEX {site.board}_bm25")
    async with site.connection.transaction(), asyncio.timeout(PATIENCE_SECONDS):
        # The build waits for this lock. A concurrent one has created the index by then, without a page.
        await site.connection.execute(f"LOCK TABLE {site.board} IN ROW EXCLUSIVE MODE")
        building = asyncio.create_task(site.rebuild_due())
        while not await site.connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        searching = asyncio.create_task(search(target, "board", mode=options_pb2.RETRIEVAL_MODE_SEMANTIC))
        await asyncio.wait([searching], timeout=0.3)
    assert await building == 1
    found = await searching
    assert (len(found.passages), list(found.degraded)) == (len(TEXTS), [])


async def test_a_dropped_index_is_named_until_it_is_built_and_none_goes_down(site: Site, target: str) -> None:
    assert len((await search(target, "guides", "board")).passages) == 2 * len(TEXTS)
    await site.connection.execute(f"DROP INDEX {site.board}_bm25")
    found = await search_that_leaves_out(target, 1)
    assert [each.reason for each in found.degraded] == [error_pb2.LEXICAL_INDEX_UNSOUND]
    assert "index of board is missing" in found.degraded[0].message
    assert len(found.passages) == len(TEXTS)
    await assert_serving(target)
    assert await site.rebuild_due() == 1
    assert len((await search(target, "guides", "board")).passages) == 2 * len(TEXTS), "at once"
    assert await site.rebuild_due() == 0


async def test_an_index_half_built_is_not_searched_and_is_built_anew(site: Site, target: str) -> None:
    await site.connection.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::text::regclass", f"{site.board}_bm25"
    )
    assert len((await search_that_leaves_out(target, 1)).passages) == len(TEXTS)
    assert await site.rebuild_due() == 1
    assert len((await search_that_leaves_out(target, 0)).passages) == 2 * len(TEXTS)


async def test_an_index_that_lacks_a_chunk_is_left_out_until_it_is_rebuilt(site: Site, target: str) -> None:
    ready = "UPDATE pg_index SET indisready = $2 WHERE indexrelid = $1::text::regclass"
    await site.connection.execute(ready, f"{site.board}_bm25", False)
    await site.connection.execute(
        f"""
        UPDATE {site.board} SET chunk_id = DEFAULT, lexical_text = 'lease replica'
        WHERE chunk_id = (SELECT max(chunk_id) FROM {site.board})
        """
    )
    await site.connection.execute(ready, f"{site.board}_bm25", True)
    found = await search_that_leaves_out(target, 1)
    assert {each.chunk.collection_id for each in found.passages} == {"guides"}
    await assert_serving(target)
    await site.lexical.rebuild(site.connection, site.board)
    assert len((await search_that_leaves_out(target, 0)).passages) == 2 * len(TEXTS)


async def test_an_engine_that_loses_nothing_in_an_unclean_stop_leaves_nothing_out_after_one(
    server: PostgresServer, serve_retriever: Any, corpus_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = await offered_index(server.dsn, PgTextsearchIndex.name)
    lexical = PgTextsearchIndex()
    monkeypatch.setattr(PgTextsearchIndex, "of_version", lambda version: lexical)
    dsn, connection = await migrated_database(server, "durable", lexical)
    corpus = corpus_on(connection, lexical)
    await corpus.collection("guides", TEXTS)
    if offered.capabilities.survives_unclean_stop:
        await connection.close()
        await server.kill()
        await server.start()
    else:  # the wheel's, which is only said to be such an engine
        await connection.execute("UPDATE chunk_partitions SET lexical_built_after = '2000-01-01'")
        await connection.close()
    async with serve_retriever(dsn, corpus.embedder) as target:
        found = await search(target, "guides")
    assert (len(found.passages), list(found.degraded)) == (len(TEXTS), [])
