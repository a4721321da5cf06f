"""Which backend a database is given."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_lexical import Connection, LexicalIndexError, detect_lexical_index


@pytest.fixture
async def connection(postgres: EmbeddedPostgres) -> AsyncIterator[Connection]:
    """To a database of the embedded server, which has pg_search and offers what else the wheel carries."""
    connection = await asyncpg.connect(await postgres.create_database("lexical_detection"))
    yield connection
    await connection.close()
    await postgres.drop_database("lexical_detection")


async def test_the_backend_that_is_installed_is_taken(connection: Connection) -> None:
    assert (await detect_lexical_index(connection)).name == "pg_search"


async def test_an_unknown_backend_is_refused_with_those_that_there_are(connection: Connection) -> None:
    with pytest.raises(LexicalIndexError, match="'lucene'; there are: pg_textsearch, pg_search, vchord_bm25"):
        await detect_lexical_index(connection, "lucene")


async def test_a_backend_that_the_server_lacks_is_refused(connection: Connection) -> None:
    with pytest.raises(LexicalIndexError, match="offers no lexical index; install an extension: vchord_bm25"):
        await detect_lexical_index(connection, "vchord_bm25")


async def test_a_version_that_may_lose_rows_is_refused_where_it_is_named_and_passed_over_where_not(
    postgres: EmbeddedPostgres,
) -> None:
    # No extension is created in it: the server offers pg_textsearch 0.6 and pg_search.
    connection = await asyncpg.connect(postgres.dsn.replace("/groundline?", "/template1?"))
    try:
        with pytest.raises(LexicalIndexError, match="silently loses rows"):
            await detect_lexical_index(connection, "pg_textsearch")
        assert (await detect_lexical_index(connection)).name == "pg_search"
    finally:
        await connection.close()
