"""Indexes of the same texts by each engine, and the same searches of them."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import batched
from typing import Any, Final

import asyncpg
import numpy as np
from groundline_lexical import (
    Connection,
    LexicalIndex,
    LexicalIndexError,
    detect_lexical_index,
    lexical_text,
)
from groundline_lexical.detection import BACKENDS

from groundline_benchmarks.measuring.databases import Databases
from groundline_benchmarks.measuring.load import Figures, measure_load, measure_serially
from groundline_benchmarks.measuring.running import MeasurementError, Report
from groundline_benchmarks.measuring.texts import texts
from groundline_benchmarks.retrieval.corpus import queries

CLIENTS: Final = 4
LIMIT: Final = 50
_QUERIES: Final = 200
_LOAD_SECONDS: Final = 5.0
_INSERTED_AT_ONCE: Final = 50
"""Rows per transaction, as a document's chunks are written."""

_SEED: Final = 20_261
_TABLE: Final = "chunks_p1"
_LANGUAGE: Final = "english"
_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "max_parallel_workers_per_gather": "0",
    "random_page_cost": "1.1",
    "jit": "off",
}


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """Figures of an index in one state."""

    p50_ms: float
    p95_ms: float
    per_second: float
    """Searches per second of CLIENTS connections together."""
    rows_per_second: float
    """Rows per second that were inserted with the index, or that it was built from."""
    mib: float


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Figures of one engine."""

    name: str
    version: str
    live: IndexFigures
    """Figures of the index as inserts have left it."""
    built: IndexFigures


async def measure_engines(databases: Databases, chunks: int, report: Report) -> list[EngineFigures]:
    """Measure every engine that the server offers in a supported version.

    Raises MeasurementError if it offers no such engine.
    """
    generator = np.random.default_rng(_SEED)
    rows = [
        (number, lexical_text(text, context="", title=f"Text {number}", uri=""))
        for number, text in enumerate(texts(generator, chunks), 1)
    ]
    figures = []
    for name in BACKENDS:
        try:
            async with _indexed_by(databases, name) as (pool, index, version):
                report(f"measuring {name} {version}")
                figures.append(await _measure(pool, index, version, rows, report))
        except LexicalIndexError as error:
            report(f"leaving {name} out: {error}")
    if not figures:
        raise MeasurementError("the server offers no lexical index that is supported")
    return figures


@asynccontextmanager
async def _indexed_by(
    databases: Databases, backend: str
) -> AsyncIterator[tuple["asyncpg.Pool[Any]", LexicalIndex, str]]:
    async with (
        databases() as url,
        asyncpg.create_pool(url, min_size=1, max_size=CLIENTS, server_settings=_SETTINGS) as pool,
    ):
        async with pool.acquire() as connection:
            index = await detect_lexical_index(connection, backend)
            await index.create_extension(connection)
            version = await connection.fetchval(
                "SELECT extversion FROM pg_extension WHERE extname = $1", backend
            )
        yield pool, index, version


async def _measure(
    pool: "asyncpg.Pool[Any]",
    index: LexicalIndex,
    version: str,
    rows: Sequence[tuple[int, str]],
    report: Report,
) -> EngineFigures:
    async with pool.acquire() as connection:
        await connection.execute(
            f"CREATE TABLE {_TABLE} (chunk_id bigint PRIMARY KEY, lexical_text text NOT NULL)"
        )
        await index.create_index(connection, _TABLE, _LANGUAGE)
        report(f"inserting {len(rows)} chunks")
        begun = time.perf_counter()
        for batch in batched(rows, _INSERTED_AT_ONCE):
            await connection.copy_records_to_table(_TABLE, records=batch)
        seconds = time.perf_counter() - begun
        await connection.execute(f"ANALYZE {_TABLE}")
    live = await _searched(pool, index, len(rows) / seconds, report)
    async with pool.acquire() as connection:
        await connection.execute(f"DROP INDEX {_TABLE}_bm25")
        report("building the index anew")
        begun = time.perf_counter()
        await index.create_index(connection, _TABLE, _LANGUAGE)
        seconds = time.perf_counter() - begun
    built = await _searched(pool, index, len(rows) / seconds, report)
    return EngineFigures(index.name, version, live, built)


async def _searched(
    pool: "asyncpg.Pool[Any]", index: LexicalIndex, rows_per_second: float, report: Report
) -> IndexFigures:
    report("searching")
    statement = index.search_sql(_TABLE, _LANGUAGE, limit=LIMIT)
    settings = index.search_settings(LIMIT)

    async def search(query: str) -> None:
        async with pool.acquire() as connection:
            prepared = index.prepare_query(query, _LANGUAGE)
            if not settings:
                await connection.fetch(statement, prepared)
                return
            async with connection.transaction(readonly=True):
                await _set(connection, index)
                await connection.fetch(statement, prepared)

    asked = queries(_QUERIES)
    figures = (await measure_serially({"search": search}, asked))["search"]
    await measure_load(figures, search, asked, {}, clients=CLIENTS, seconds=_LOAD_SECONDS)
    async with pool.acquire() as connection:
        size = await connection.fetchval("SELECT pg_relation_size($1::text::regclass)", f"{_TABLE}_bm25")
    return _figures(figures, rows_per_second, size)


async def _set(connection: Connection, index: LexicalIndex) -> None:
    for name, value in index.search_settings(LIMIT).items():
        await connection.execute("SELECT set_config($1, $2, true)", name, value)


def _figures(figures: Figures, rows_per_second: float, size: int) -> IndexFigures:
    return IndexFigures(
        round(figures.p50, 2),
        round(figures.p95, 2),
        round(figures.per_second, 1),
        round(rows_per_second),
        round(size / 2**20, 1),
    )
