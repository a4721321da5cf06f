"""Alerts of copies of the data, made to fire by their faults: a standby, and the distributed index."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from groundline_tests.lexical import lexical_server_settings
from groundline_tests.observability.watched import Watched, fires_and_resolves, firing, watched_suite
from groundline_tests.postgres import PostgresServer
from groundline_tests.weaviate.nodes import API_KEY, Cluster, weaviate_nodes

LATE_BYTES = 64 * 1024**2


@pytest.fixture(scope="module")
async def primary(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    async with PostgresServer(tmp_path_factory.mktemp("primary"), await lexical_server_settings()) as server:
        yield server


@pytest.fixture(scope="module")
async def standby(
    primary: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PostgresServer]:
    server = await primary.standby(tmp_path_factory.mktemp("standby"))
    yield server
    await server.stop()


@pytest.fixture(scope="module")
async def index(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with weaviate_nodes(1, tmp_path_factory.mktemp("index")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def copied(
    primary: PostgresServer, standby: PostgresServer, index: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Watched]:
    """A suite on a server with a standby, that feeds a node of the distributed index."""
    settings = index.settings()
    folder = tmp_path_factory.mktemp("copied")
    async with watched_suite(
        folder,
        GROUNDLINE_DATABASE_URL=primary.dsn,
        GROUNDLINE_RETRIEVER_READ_DATABASE_URL=standby.dsn,
        GROUNDLINE_INGESTOR_WEAVIATE__HTTP_URL=str(settings.http_url),
        GROUNDLINE_INGESTOR_WEAVIATE__GRPC_TARGET=settings.grpc_target,
        GROUNDLINE_INGESTOR_WEAVIATE__API_KEY=API_KEY,
    ) as watched:
        yield watched


async def execute(server: PostgresServer, statement: str, *arguments: Any) -> None:
    connection = await asyncpg.connect(server.dsn)
    try:
        await connection.execute(statement, *arguments)
    finally:
        await connection.close()


async def test_a_standby_that_falls_behind(
    copied: Watched, primary: PostgresServer, standby: PostgresServer
) -> None:
    # Nobody searches meanwhile: it is measured all the same.
    async with fires_and_resolves(copied, "GroundlineStandbyLate"):
        await execute(standby, "SELECT pg_wal_replay_pause()")
        try:
            megabyte = "SELECT pg_logical_emit_message(false, 'much', repeat('x', 1048576))"
            await execute(primary, f"{megabyte} FROM generate_series(1, $1)", 2 * LATE_BYTES // 1024**2)
            await firing(copied, "GroundlineStandbyLate")
        finally:
            await execute(standby, "SELECT pg_wal_replay_resume()")
        await standby.replayed(primary)


async def test_a_distributed_index_that_hangs(copied: Watched, index: Cluster, tmp_path: Path) -> None:
    (tmp_path / "late.md").write_text("# Late\n\nThis comes late.\n")
    async with fires_and_resolves(copied, "GroundlineSearchIndexLate"):
        [node] = index.nodes
        node.pause(paused=True)
        try:
            stored = await copied.stack.command("ingest", str(tmp_path), "--collection", "late")
            assert stored.code == 0, stored.err
            await firing(copied, "GroundlineSearchIndexLate")
        finally:
            node.pause(paused=False)


async def test_a_chunk_that_the_distributed_index_refuses(copied: Watched, primary: PostgresServer) -> None:
    async with fires_and_resolves(copied, "GroundlineSearchIndexRefuses"):
        # One of another length than the others of its class, which PostgreSQL takes for a vector.
        spoilt = "(SELECT min(chunk_id) FROM chunks)"
        await execute(primary, "CREATE TABLE sound AS SELECT * FROM chunks WHERE chunk_id = " + spoilt)
        await execute(primary, f"UPDATE chunks SET embedding = '[1, 2, 3]' WHERE chunk_id = {spoilt}")
        try:
            # The last of its attempts comes after two minutes.
            async with asyncio.timeout(60):
                while True:
                    connection = await asyncpg.connect(primary.dsn)
                    refused = await connection.execute(
                        "UPDATE search_index_changes SET attempts = 7 WHERE failure IS NOT NULL"
                    )
                    await connection.close()
                    if refused != "UPDATE 0":
                        break
                    await asyncio.sleep(0.5)
            await firing(copied, "GroundlineSearchIndexRefuses")
        finally:
            await execute(
                primary,
                "UPDATE chunks c SET embedding = s.embedding FROM sound s WHERE c.chunk_id = s.chunk_id",
            )
            await execute(primary, "DROP TABLE sound")
