"""Faults of the retriever's database and model."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import grpc
import pytest
from groundline.v1 import error_pb2, options_pb2, passage_pb2, retriever_service_pb2_grpc
from groundline.v1 import retriever_service_pb2 as pb
from groundline_embedding.ports import Vectors
from groundline_runtime.errors import DeadlineExceededError, GroundlineError, UnavailableError
from groundline_runtime.status import from_rpc_error
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.retriever.health import health_becomes
from grpc_health.v1 import health_pb2

LEASES = "A replica that lost its lease stops serving reads."
SOCKET = ".s.PGSQL.5432"


class HangingEmbedder(FakeEmbedder):
    """Never answers."""

    async def embed_query(self, text: str) -> Vectors:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


class BrokenEmbedder(FakeEmbedder):
    async def embed_query(self, text: str) -> Vectors:
        raise RuntimeError("model at /secret/path is broken")


class Relay:
    """A socket before the real server's, which can be cut."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self._target = f"{parse_qs(urlsplit(dsn).query)['host'][0]}/{SOCKET}"
        self._path = directory / SOCKET
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.dsn = urlsplit(dsn)._replace(query=f"host={directory}").geturl()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self._path)

    async def cut(self) -> None:
        """Close the socket and every connection through it."""
        if self._server is None:
            return
        self._server.close()
        self._path.unlink(missing_ok=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        self._writers |= {writer, server_writer}
        for source, sink in ((reader, server_writer), (server_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()


@pytest.fixture(scope="module", autouse=True)
async def library(corpus: Any) -> None:
    await corpus.collection("guides", [LEASES])


@asynccontextmanager
async def calling(target: str) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(target) as channel:
        stub = retriever_service_pb2_grpc.RetrieverServiceStub(channel)

        async def retrieve(mode: str = "HYBRID", *, seconds: float = 20) -> pb.SearchResponse:
            options = options_pb2.RetrievalOptions(
                mode=options_pb2.RetrievalMode.Value(f"RETRIEVAL_MODE_{mode}")
            )
            request = pb.SearchRequest(query="lease", options=options_pb2.SearchOptions(retrieval=options))
            try:
                return await stub.Search(request, timeout=seconds)
            except grpc.aio.AioRpcError as error:
                raise from_rpc_error(error) from None

        yield retrieve


async def test_a_model_that_hangs_leaves_keyword_results(database_url: str, serve_retriever: Any) -> None:
    async with (
        serve_retriever(database_url, HangingEmbedder(), arm_timeout_seconds=2) as target,
        calling(target) as retrieve,
    ):
        found = await retrieve(seconds=20)
        assert len(found.passages) == 1
        assert [(each.component, each.reason) for each in found.degraded] == [
            (passage_pb2.COMPONENT_SEMANTIC_ARM, error_pb2.DEADLINE_EXCEEDED)
        ]
        with pytest.raises(DeadlineExceededError):
            await retrieve("SEMANTIC", seconds=3)


async def test_a_model_that_fails_leaves_the_keyword_results_and_shows_nothing_of_itself(
    database_url: str, serve_retriever: Any
) -> None:
    async with serve_retriever(database_url, BrokenEmbedder()) as target, calling(target) as retrieve:
        found = await retrieve()
        assert len(found.passages) == 1
        assert [(each.component, each.message) for each in found.degraded] == [
            (passage_pb2.COMPONENT_SEMANTIC_ARM, "semantic search failed")
        ]
        with pytest.raises(GroundlineError) as caught:
            await retrieve("SEMANTIC")
        assert "secret" not in caught.value.message


async def test_a_locked_table_ends_at_the_deadline_and_frees_the_connections(
    corpus: Any, database_url: str, serve_retriever: Any
) -> None:
    table = f"chunks_p{await corpus.partition('guides')}"
    locker = await asyncpg.connect(database_url)
    async with (
        serve_retriever(database_url, FakeEmbedder(), max_size=4) as target,
        calling(target) as retrieve,
    ):
        transaction = locker.transaction()
        await transaction.start()
        await locker.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        for _ in range(3):
            with pytest.raises(DeadlineExceededError):
                await retrieve(seconds=0.6)
        await transaction.rollback()
        await locker.close()
        assert len((await retrieve()).passages) == 1


async def test_a_database_that_goes_away_is_unavailable_and_found_again(
    database_url: str, serve_retriever: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    relay = Relay(database_url, tmp_path_factory.mktemp("relay"))
    await relay.open()
    async with serve_retriever(relay.dsn, FakeEmbedder()) as target, calling(target) as retrieve:
        assert len((await retrieve()).passages) == 1
        await health_becomes(target, health_pb2.HealthCheckResponse.SERVING)
        await relay.cut()
        for mode in ("HYBRID", "KEYWORD", "SEMANTIC"):
            with pytest.raises(UnavailableError) as caught:
                await retrieve(mode)
            assert caught.value.reason == "DATABASE_UNAVAILABLE"
            assert caught.value.retry_after_seconds
            for secret in ("relay", "postgresql:", "SELECT", SOCKET):
                assert secret not in caught.value.message
        await health_becomes(target, health_pb2.HealthCheckResponse.NOT_SERVING)
        await relay.open()
        assert len((await retrieve()).passages) == 1
        await health_becomes(target, health_pb2.HealthCheckResponse.SERVING)
    await relay.cut()
