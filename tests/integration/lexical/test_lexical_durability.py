"""BM25 indexes after their server is killed, and on a standby; on servers of the tests' own."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest
from groundline_lexical import Connection, LexicalIndex
from groundline_lexical.detection import BACKENDS
from groundline_tests.lexical import SEARCH_SETTINGS, URL_VARIABLE, lexical_server_settings, offered_index
from groundline_tests.postgres import PostgresServer

pytestmark = [
    pytest.mark.filterwarnings("default:LEXICAL BACKEND NOT TESTED:pytest.PytestWarning"),
    pytest.mark.skipif(URL_VARIABLE in os.environ, reason="a server that is given is not to be killed"),
]

WRITERS = 4
ROWS_BEFORE_THE_END = 400
ROUNDS = 3


@pytest.fixture
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    directory = tmp_path_factory.mktemp("durability")
    async with PostgresServer(directory, await lexical_server_settings()) as server:
        yield server


@pytest.fixture(params=BACKENDS)
async def index(request: pytest.FixtureRequest, server: PostgresServer) -> LexicalIndex:
    """The backend, with a table `rows` in a database that outlives the server's ends."""
    index = await offered_index(server.dsn, request.param)
    connection = await connect(server)
    await index.create_extension(connection)
    await connection.execute("CREATE TABLE rows (chunk_id bigint PRIMARY KEY, lexical_text text NOT NULL)")
    await index.create_index(connection, "rows", "simple")
    await connection.close()
    return index


async def connect(server: PostgresServer) -> "asyncpg.Connection[asyncpg.Record]":
    return await asyncpg.connect(server.dsn, server_settings=SEARCH_SETTINGS)


def words(number: int) -> str:
    """Return a text with a word that no other has."""
    return f"row {hex_word(number)} of the lease register"


def hex_word(number: int) -> str:
    return f"w{number:07x}"


async def write(server: PostgresServer, numbers: Sequence[int], acknowledged: set[int]) -> None:
    """Write rows in transactions of a few, until done or the server is gone."""
    try:
        connection = await connect(server)
        for start in range(0, len(numbers), 4):
            batch = numbers[start : start + 4]
            texts = [words(number) for number in batch]
            await connection.execute(
                "INSERT INTO rows SELECT * FROM unnest($1::bigint[], $2::text[])", batch, texts
            )
            acknowledged.update(batch)
        await connection.close()
    except (
        OSError,
        asyncpg.PostgresConnectionError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # a connection that is lost between two of its own steps
    ):
        return


async def found(connection: Connection, index: LexicalIndex, word: str, limit: int | None) -> set[int]:
    async with connection.transaction():
        for name, value in index.search_settings(limit).items():
            await connection.execute("SELECT set_config($1, $2, true)", name, value)
        sql = index.search_sql("rows", "simple", limit=limit)
        rows = await connection.fetch(sql, index.prepare_query(word, "simple"))
    return {row["chunk_id"] for row in rows}


async def test_every_acknowledged_row_is_found_after_the_server_was_killed_at_once_or_after_a_rebuild(
    server: PostgresServer, index: LexicalIndex
) -> None:
    acknowledged: set[int] = set()
    for round_number in range(1, ROUNDS + 1):
        before = len(acknowledged)
        first = round_number * 1_000_000
        writers = [
            asyncio.create_task(
                write(server, range(first + writer, first + 1_000_000, WRITERS), acknowledged)
            )
            for writer in range(WRITERS)
        ]
        while len(acknowledged) < before + ROWS_BEFORE_THE_END:
            assert not any(writer.done() for writer in writers)
            await asyncio.sleep(0.01)
        await server.kill()
        await asyncio.gather(*writers)
        await server.start()

        connection = await connect(server)
        if not index.capabilities.survives_unclean_stop:
            await index.rebuild(connection, "rows")
        stored = {row["chunk_id"] for row in await connection.fetch("SELECT chunk_id FROM rows")}
        assert acknowledged <= stored
        assert await found(connection, index, "register", None) == stored
        for number in (min(acknowledged), *sorted(acknowledged)[-50:]):
            # All that match: a word of which a backend indexes parts is not alone among the best.
            assert number in await found(connection, index, hex_word(number), None)
        assert await index.probe(connection, "rows")
        assert await index.missing_rows(connection, "rows") in (0, None)
        await connection.execute("DELETE FROM rows WHERE chunk_id % 7 = 0")
        acknowledged = {number for number in acknowledged if number % 7}
        assert await found(connection, index, "register", None) == {n for n in stored if n % 7}
        await connection.close()


async def test_a_standby_finds_what_was_written_before_and_since_where_the_backend_says_so(
    server: PostgresServer, index: LexicalIndex, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await write(server, range(200), set())
    standby = await server.standby(tmp_path_factory.mktemp("standby"))
    try:
        await write(server, range(200, 400), set())
        primary = await connect(server)
        await primary.execute("DELETE FROM rows WHERE chunk_id < 10")
        await standby.replayed(server)
        copy = await connect(standby)
        assert await copy.fetchval("SELECT count(*) FROM rows") == 390
        if index.capabilities.answers_on_standby:
            assert await found(copy, index, "register", None) == set(range(10, 400))
            for number in (10, 199, 200, 399):
                word = hex_word(number)
                assert await found(copy, index, word, 5) == await found(primary, index, word, 5)
        elif index.name == "pg_search":
            with pytest.raises(asyncpg.PostgresError, match="standby"):
                await found(copy, index, "register", None)
        await copy.close()
        await primary.close()
    finally:
        await standby.stop()
