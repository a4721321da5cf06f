"""Every bound of every keyword engine, passed: a search is short only where it says so.

An engine considers a number of matches, a list of keys, a share of the rows, and no more. What is asked for
here lies behind it: few chunks of a table in which every chunk matches.
"""

import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import grpc
import pytest
from google.protobuf import json_format
from groundline.v1 import options_pb2, retriever_service_pb2_grpc
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings, migrate, register_vectors
from groundline_lexical.detection import BACKENDS
from groundline_lexical.pg_textsearch import PgTextsearchIndex
from groundline_retriever.adapters.postgres import keyword, terms
from groundline_runtime.context import PRINCIPALS_KEY
from groundline_tests.lexical import allow_lossy, lexical_server_settings, offered_index
from groundline_tests.postgres import PostgresServer
from pydantic import SecretStr

# A backend that is skipped is to be seen, not to fail.
pytestmark = pytest.mark.filterwarnings("default:LEXICAL BACKEND NOT TESTED:pytest.PytestWarning")

MATCHES = int(os.environ.get("GROUNDLINE_TEST_MATCHES", "110000"))
"""Chunks that match equally: more than pg_textsearch's 100,000 and vchord_bm25's 65,535."""

FEW = 2_000
"""Chunks that are asked for, as many as a small collection has at most."""

WANTED = 50

# The seed's row again and again, as the ingestor writes a chunk for each.
_MULTIPLY = """
    INSERT INTO {table} ({columns}, chunk_index)
    SELECT {columns}, n FROM {table}, generate_series(1, $2) AS n WHERE chunk_id = $1
"""
_COLUMNS = """
    SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
    WHERE attrelid = 'chunks'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
        AND attname NOT IN ('chunk_id', 'chunk_index')
"""


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    async with PostgresServer(tmp_path_factory.mktemp("bounds"), await lexical_server_settings()) as server:
        yield server


@pytest.fixture(scope="module", params=BACKENDS)
async def target(
    request: pytest.FixtureRequest, server: PostgresServer, corpus_on: Any, serve_retriever: Any
) -> AsyncIterator[str]:
    """A retriever before two partitions of MATCHES chunks, each with FEW further chunks that match less.

    `guides` has one of its own, where the many are the board's; in the other `others` have the many, and
    `mine` has the few.
    """
    with pytest.MonkeyPatch.context() as patch:
        allow_lossy(patch)
        lexical = await offered_index(server.dsn, request.param)
        admin = await asyncpg.connect(server.dsn)
        await admin.execute(f"CREATE DATABASE {request.param}_bounds")
        await admin.close()
        dsn = server.dsn_of(f"{request.param}_bounds")
        if request.param == PgTextsearchIndex.name:
            # An operator's choice, as low as it goes for a search of WANTED chunks to pass it.
            await server_setting(dsn, "pg_textsearch.default_limit", "10")
        connection = await asyncpg.connect(dsn)
        await lexical.create_extension(connection)
        await migrate(DatabaseSettings(database_url=SecretStr(dsn)), "ingestor")
        await register_vectors(connection)
        corpus = corpus_on(connection, lexical)
        shares = lexical.capabilities.filters_collections
        await corpus.collection("guides")
        for name in ("others", "mine"):
            await corpus.collection(name, is_shared=shares)
        columns = await connection.fetchval(_COLUMNS)
        for many, few, readers in (("guides", "guides", ["group:board"]), ("others", "mine", [])):
            tables = {name: f"chunks_p{await corpus.partition(name)}" for name in (many, few)}
            for table in set(tables.values()):
                await connection.execute(f"DROP INDEX {table}_bm25; DROP INDEX {table}_hnsw")
            for name, text, count, rest in (
                (many, "A lease.", MATCHES, {"allowed_principals": readers}),
                (
                    few,
                    f"A lease {'of what is longer and matches less ' * 5}",
                    FEW,
                    {"metadata": {"kind": "rare"}},
                ),
            ):
                [seed] = await corpus.add(name, [text], **rest)
                multiply = _MULTIPLY.format(table=tables[name], columns=columns)
                await connection.execute(multiply, seed, count - 1)
            for name, table in {table: name for name, table in tables.items()}.items():
                await lexical.create_index(
                    connection, name, "english", is_shared=shares and table != "guides"
                )
                await connection.execute(f"VACUUM ANALYZE {name}")
        await connection.close()
        async with serve_retriever(dsn, corpus.embedder, arm_timeout_seconds=60) as target:
            yield target


async def server_setting(dsn: str, name: str, value: str) -> None:
    """Set a setting for what connects to the database from now on."""
    connection = await asyncpg.connect(dsn)
    database = await connection.fetchval("SELECT quote_ident(current_database())")
    await connection.execute(f"ALTER DATABASE {database} SET {name} = {value}")
    await connection.close()


CASES = pytest.mark.parametrize(
    ("collection", "principals", "condition"),
    [
        ("guides", "group:board", {"kind": "rare"}),
        ("guides", "user:eve", {}),
        ("guides", "user:eve", {"kind": "rare"}),
        ("mine", "user:eve", {}),
        ("mine", "user:eve", {"kind": "rare"}),
    ],
    ids=["a filter", "readable by few", "both", "a small collection", "a filter of it"],
)


@CASES
async def test_what_lies_behind_a_bound_of_the_engine_is_found_or_said_to_be_missing(
    target: str, collection: str, principals: str, condition: dict[str, str]
) -> None:
    await is_whole_or_says_so(target, collection, principals, condition)


@CASES
async def test_what_lies_behind_the_bounds_of_the_search_too_is_found_or_said_to_be_missing(
    target: str, collection: str, principals: str, condition: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "FEW_CHUNKS", FEW // 2)
    monkeypatch.setattr(keyword, "FEW_SELECTED", FEW // 4)
    monkeypatch.setattr(keyword, "MOST_SELECTED", FEW // 2)
    await is_whole_or_says_so(target, collection, principals, condition)


async def is_whole_or_says_so(
    target: str, collection: str, principals: str, condition: dict[str, str]
) -> None:
    request = pb.SearchRequest(
        query="lease",
        collection_ids=[collection],
        options=options_pb2.SearchOptions(
            retrieval=options_pb2.RetrievalOptions(
                mode=options_pb2.RETRIEVAL_MODE_KEYWORD, keyword_limit=WANTED
            ),
            rerank=options_pb2.RerankOptions(top_k=WANTED, deduplication_threshold=0),
        ),
    )
    json_format.ParseDict(condition, request.filter)
    async with grpc.aio.insecure_channel(target) as channel:
        stub = retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        found = await stub.Search(request, timeout=60, metadata=((PRINCIPALS_KEY, principals),))
    assert len(found.passages) == WANTED or found.degraded
