"""Search arms that read from standbys: real ones, which fall behind, hang, die and are promoted."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import asyncpg
import grpc
import pytest
from groundline.v1 import options_pb2, retriever_service_pb2_grpc
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings, migrate, position_text, register_vectors
from groundline_lexical import LexicalIndexError, detect_lexical_index
from groundline_lexical.pg_search import PgSearchIndex
from groundline_retriever.adapters.postgres.standbys import urls_of_hosts
from groundline_runtime.errors import FailedPreconditionError
from groundline_tests.lexical import lexical_server_settings
from groundline_tests.postgres import PostgresServer
from pydantic import SecretStr

TEXTS = [f"A replica that lost lease {number} stops serving reads." for number in range(20)]
NEW = "A lease that was written a moment ago."
HYBRID, SEMANTIC = options_pb2.RETRIEVAL_MODE_HYBRID, options_pb2.RETRIEVAL_MODE_SEMANTIC
NEVER = 3600.0
"""Seconds of lag that no test reaches."""


class Installation:
    """A primary with the collection `guides`, and two standbys."""

    def __init__(self, primary: PostgresServer, standbys: list[PostgresServer], corpus: Any) -> None:
        self.primary = primary
        self.standbys = standbys
        self.corpus = corpus

    @property
    def read_url(self) -> str:
        """Return the URL of both standbys, as libpq spells it."""
        parts = urlsplit(self.standbys[0].dsn)
        hosts = ",".join(parse_qs(urlsplit(one.dsn).query)["host"][0] for one in self.standbys)
        return parts._replace(query=urlencode({"host": hosts}, safe="/,")).geturl()

    async def replayed(self) -> None:
        for standby in self.standbys:
            await standby.replayed(self.primary)

    async def stop_replaying(self) -> None:
        for standby in self.standbys:
            await execute(standby, "SELECT pg_wal_replay_pause()")

    async def add(self) -> tuple[int, str]:
        """Add a chunk; return its id, and the position at which it exists."""
        [chunk_id] = await self.corpus.add("guides", [NEW])
        written = await self.corpus.connection.fetchval("SELECT (pg_current_wal_lsn() - '0/0')::bigint")
        return chunk_id, position_text(written)


async def execute(server: PostgresServer, statement: str) -> None:
    connection = await asyncpg.connect(server.dsn)
    await connection.execute(statement)
    await connection.close()


@pytest.fixture(params=[None], ids=["the engine of the server"])
async def installation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, corpus_on: Any
) -> AsyncIterator[Installation]:
    settings = await lexical_server_settings()
    async with PostgresServer(tmp_path_factory.mktemp("primary"), settings) as primary:
        connection = await asyncpg.connect(primary.dsn)
        try:
            index = await detect_lexical_index(connection, request.param)
        except LexicalIndexError as error:
            pytest.skip(str(error))
        await index.create_extension(connection)
        await migrate(DatabaseSettings(database_url=SecretStr(primary.dsn)), "ingestor")
        await register_vectors(connection)
        corpus = corpus_on(connection, index)
        await corpus.collection("guides", TEXTS)
        standbys = [await primary.standby(tmp_path_factory.mktemp("standby")) for _ in range(2)]
        yield Installation(primary, standbys, corpus)
        await connection.close()
        for standby in standbys:
            standby.resume()
            await standby.stop()


class Searches:
    """Searches on one channel, and keeps all that is found."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: retriever_service_pb2_grpc.RetrieverServiceAsyncStub = (
            retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        )

    async def __call__(
        self, mode: "options_pb2.RetrievalMode.ValueType" = SEMANTIC, *, min_position: str = ""
    ) -> pb.SearchResponse:
        request = pb.SearchRequest(
            query="lease of a replica",
            collection_ids=["guides"],
            options=options_pb2.SearchOptions(
                retrieval=options_pb2.RetrievalOptions(mode=mode, keyword_limit=100, semantic_limit=100),
                rerank=options_pb2.RerankOptions(top_k=100, deduplication_threshold=0),
            ),
            min_position=min_position,
        )
        return await self._stub.Search(request, timeout=20)

    async def found(self, arm: str = "semantic", **options: Any) -> set[int]:
        response = await self(HYBRID, **options)
        return {
            int(each.chunk.chunk_id)
            for each in response.passages
            if each.explanation.HasField(cast("Any", arm))
        }

    async def until(self, chunk_id: int, arm: str = "semantic", *, is_found: bool) -> None:
        """Search until one finds the chunk, or one, on a standby that lacks it, does not."""
        async with asyncio.timeout(30):
            while True:
                if (chunk_id in await self.found(arm)) is is_found:
                    return
                await asyncio.sleep(0.02)


@asynccontextmanager
async def searching(
    installation: Installation, serve_retriever: Any, *, max_lag_seconds: float = NEVER
) -> AsyncIterator[Searches]:
    """Provide the retriever with both standbys, which have everything that exists now."""
    await installation.replayed()
    async with (
        serve_retriever(
            installation.primary.dsn,
            installation.corpus.embedder,
            read_url=installation.read_url,
            max_lag_seconds=max_lag_seconds,
        ) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        searches = Searches(channel)
        await searches()
        await installation.replayed()
        yield searches


@pytest.mark.parametrize("installation", ["pg_search", "pg_textsearch"], indirect=True)
async def test_vectors_are_searched_on_a_standby_and_words_where_the_engine_can(
    installation: Installation, serve_retriever: Any
) -> None:
    async with searching(installation, serve_retriever) as searches:
        await installation.stop_replaying()
        chunk_id, _ = await installation.add()
        await searches.until(chunk_id, is_found=False)
        if installation.corpus.lexical.capabilities.answers_on_standby:
            await searches.until(chunk_id, "keyword", is_found=False)
        else:
            assert chunk_id in await searches.found("keyword")


async def test_who_says_what_was_written_finds_it(installation: Installation, serve_retriever: Any) -> None:
    async with searching(installation, serve_retriever) as searches:
        await installation.stop_replaying()
        chunk_id, position = await installation.add()
        await searches.until(chunk_id, is_found=False)
        assert chunk_id in await searches.found(min_position=position)


async def test_a_standby_that_is_further_behind_than_was_promised_is_not_read(
    installation: Installation, serve_retriever: Any
) -> None:
    async with searching(installation, serve_retriever, max_lag_seconds=0.5) as searches:
        await installation.stop_replaying()
        chunk_id, _ = await installation.add()
        await searches.until(chunk_id, is_found=True)
        # It stays so: no standby has the chunk.
        for _ in range(20):
            assert chunk_id in await searches.found()


async def test_a_collection_that_was_rebuilt_is_not_looked_for_where_it_is_not_yet(
    installation: Installation, serve_retriever: Any
) -> None:
    async with searching(installation, serve_retriever) as searches:
        await installation.stop_replaying()
        corpus = installation.corpus
        await corpus.collection("rebuilt", TEXTS)
        await corpus.connection.execute(
            """
            WITH other AS (SELECT partition_id FROM collections WHERE collection_id = 'rebuilt')
            UPDATE collections SET partition_id = (SELECT partition_id FROM other)
            WHERE collection_id = 'guides'
            """
        )
        for table in ("documents", "chunks"):
            await corpus.connection.execute(
                f"UPDATE {table} SET collection_id = 'guides' WHERE collection_id = 'rebuilt'"
            )
        assert len(await searches.found()) == len(TEXTS)


async def is_searched(standby: PostgresServer) -> None:
    """Wait until chunks are read there, for the first time since it was copied."""
    connection = await asyncpg.connect(standby.dsn)
    async with asyncio.timeout(60):
        while not await connection.fetchval(  # noqa: ASYNC110 (another process reads)
            "SELECT sum(seq_scan + idx_scan) FROM pg_stat_user_tables WHERE relname LIKE 'chunks_p%'"
        ):
            await asyncio.sleep(0.05)
    await connection.close()


async def test_standbys_that_are_lost_hang_or_are_promoted_and_brought_back_cost_no_search(
    installation: Installation, serve_retriever: Any
) -> None:
    first, second = installation.standbys
    async with searching(installation, serve_retriever, max_lag_seconds=2.0) as searches:
        answered = itertools.count()
        last = 0
        ending = asyncio.Event()

        async def search_on() -> None:
            nonlocal last
            while not ending.is_set():
                response = await searches(HYBRID)
                assert not response.degraded
                assert len(response.passages) == len(TEXTS)
                last = next(answered)

        async def more(count: int) -> None:
            wanted = last + count
            async with asyncio.timeout(120):
                while last < wanted:
                    assert not any(task.done() for task in tasks), [task for task in tasks if task.done()]
                    await asyncio.sleep(0.02)

        tasks = [asyncio.create_task(search_on()) for _ in range(4)]
        await more(50)
        await first.kill()
        await more(50)
        await first.start()
        await more(50)
        second.pause()
        await more(50)
        second.resume()
        await more(50)
        await execute(second, "SELECT pg_promote()")
        await more(50)
        await second.follow(installation.primary)
        await is_searched(second)
        await more(50)
        ending.set()
        await asyncio.gather(*tasks)


async def test_a_promoted_standby_shows_nothing_that_the_primary_does_not_have(
    installation: Installation, serve_retriever: Any, corpus_on: Any
) -> None:
    async with searching(installation, serve_retriever) as searches:
        for standby in installation.standbys:
            await execute(standby, "SELECT pg_promote()")
            connection = await asyncpg.connect(standby.dsn)
            await register_vectors(connection)
            await connection.execute("DELETE FROM chunks")
            await connection.close()
        for _ in range(20):
            assert len(await searches.found()) == len(TEXTS)


async def test_the_service_starts_and_answers_without_any_standby(
    installation: Installation, serve_retriever: Any
) -> None:
    async with (
        serve_retriever(
            installation.primary.dsn,
            installation.corpus.embedder,
            read_url="postgresql://postgres@127.0.0.1:1,127.0.0.1:2/postgres",
        ) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        assert len((await Searches(channel)(HYBRID)).passages) == len(TEXTS)


async def test_an_address_without_hosts_ends_the_start_without_repeating_it(
    database_url: str, serve_retriever: Any, corpus_on: Any
) -> None:
    embedder = corpus_on(None, PgSearchIndex()).embedder
    with pytest.raises(FailedPreconditionError) as caught:
        async with serve_retriever(
            database_url, embedder, read_url="postgresql:///groundline?password=secret"
        ):
            pass
    assert caught.value.reason == "DATABASE_URL_INVALID"
    assert "secret" not in str(caught.value)


BASE = "postgresql://me:a%40b@primary:5432/x?sslmode=require"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://one:5432,two",
            {
                "one:5432": "postgresql://me:a%40b@one:5432/x?sslmode=require",
                "two": "postgresql://me:a%40b@two/x?sslmode=require",
            },
        ),
        ("postgresql://you@one/y?sslmode=disable", {"one": "postgresql://you@one/y?sslmode=disable"}),
        (
            "postgresql://you@/y?host=/run/one,/run/two&port=5433",
            {
                "/run/one": "postgresql://you@/y?sslmode=require&host=/run/one&port=5433",
                "/run/two": "postgresql://you@/y?sslmode=require&host=/run/two&port=5433",
            },
        ),
        ("postgresql://[::1]:5432", {"[::1]:5432": "postgresql://me:a%40b@[::1]:5432/x?sslmode=require"}),
    ],
)
def test_several_hosts_are_spelled_as_libpq_spells_them(url: str, expected: dict[str, str]) -> None:
    assert urls_of_hosts(url, BASE) == expected


@pytest.mark.parametrize("url", ["postgresql:///x", "postgresql://me@/x?host=a,b&port=1,2,3", "x"])
def test_a_url_that_names_no_hosts_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="host"):
        urls_of_hosts(url, BASE)
