"""Benchmarks on a server at hand, with whatever keyword engine it has."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from groundline_benchmarks.command import bench
from groundline_benchmarks.measuring.databases import databases_on
from groundline_benchmarks.measuring.running import MeasurementError
from groundline_benchmarks.retrieval.cases import Case
from groundline_benchmarks.retrieval.floor import open_floor
from groundline_database import DatabaseSettings, migrate, register_vectors
from groundline_lexical.detection import BACKENDS
from groundline_tests.lexical import allow_lossy, lexical_server_settings, offered_index
from groundline_tests.postgres import PostgresServer
from groundline_tests.retriever.corpus import Corpus
from pgvector import HalfVector
from pydantic import SecretStr

# A backend that is skipped is to be seen, not to fail.
pytestmark = pytest.mark.filterwarnings("default:LEXICAL BACKEND NOT TESTED:pytest.PytestWarning")

WITHOUT_A_DATABASE = {"capacity", "extract"}


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    async with PostgresServer(tmp_path_factory.mktemp("at-hand"), await lexical_server_settings()) as server:
        yield server


@pytest.mark.parametrize("name", sorted({*bench.list_commands(None)} - WITHOUT_A_DATABASE))  # type: ignore[arg-type]
def test_each_that_needs_a_database_takes_one_at_hand(name: str) -> None:
    command = bench.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert "--database-url" in [option for parameter in command.params for option in parameter.opts]


async def test_what_is_made_on_a_server_at_hand_is_gone_afterwards(server: PostgresServer) -> None:
    admin = await asyncpg.connect(server.dsn)
    before = await admin.fetch("SELECT datname FROM pg_database ORDER BY 1")
    async with databases_on(server.dsn)() as one, databases_on(server.dsn)() as other:
        connections = [await asyncpg.connect(url) for url in (one, other)]
        assert len({await each.fetchval("SELECT current_database()") for each in connections}) == 2
    assert await admin.fetch("SELECT datname FROM pg_database ORDER BY 1") == before
    await admin.close()


async def test_a_server_that_is_not_there_ends_the_measurement_with_a_reason() -> None:
    with pytest.raises(MeasurementError, match="--database-url"):
        async with databases_on("postgresql://127.0.0.1:1/none")():
            pass


@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_floor_of_a_filtered_search_finds_the_same_on_every_engine(
    server: PostgresServer, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_lossy(monkeypatch)
    lexical = await offered_index(server.dsn, backend)
    async with databases_on(server.dsn)() as url:
        connection = await asyncpg.connect(url)
        await lexical.create_extension(connection)
        await migrate(DatabaseSettings(database_url=SecretStr(url)), "ingestor")
        await register_vectors(connection)
        corpus = Corpus(connection, lexical)
        await corpus.collection("guides")
        for number in range(20):
            texts = [f"Lease {number} of a replica."]
            await corpus.add("guides", texts, metadata={"of_10": number % 10})
        wanted = await connection.fetch("SELECT chunk_id FROM chunks WHERE metadata ->> 'of_10' = '7'")
        await connection.close()
        async with open_floor(url, "guides", {"lease": HalfVector([0.0])}) as floor:
            found = await floor.ranked(Case("filtered", "keyword", 10), "lease")
    assert sorted(found) == sorted(row["chunk_id"] for row in wanted)
