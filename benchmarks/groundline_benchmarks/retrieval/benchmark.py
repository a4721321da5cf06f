"""Measures retrieval: the database alone, the retriever's gRPC port, the gateway, side by side in one run."""

import asyncio
import itertools
import json
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import grpc
import numpy as np
import psutil
from groundline.v1 import options_pb2, retriever_service_pb2, retriever_service_pb2_grpc
from groundline_cli.client import GatewayClient, JsonObject
from groundline_cli.stack.stack import ReadyInfo
from groundline_database import register_vectors
from groundline_embedding import EmbeddingSettings, create_embedder
from groundline_ingestor.adapters.postgres_vector_indexes import builds_held_off, vector_index_on
from groundline_lexical import Connection, LexicalIndex, detect_lexical_index, lexical_text
from groundline_retriever.adapters.postgres import SERVER_SETTINGS
from pgvector import HalfVector

from groundline_benchmarks.measuring.processes import peak_rss_mib

__all__ = ["CLIENTS", "Case", "Figures", "Result", "Ways", "load", "measure", "open_ways", "size_mib"]

CLIENTS = 8
LIMIT = 50
"""Candidates of each arm, the suite's default."""

CHUNK_WORDS = 150
VOCABULARY = 20_000
STOP_WORDS = 100
"""The most frequent words, which no query has, as a language's stop words are not searched."""

QUERY_WORDS = 6
DIMENSIONS = 384
BUCKETS = 100
"""Of the metadata's `bucket`: a filter on it keeps one in so many."""

_TEXTS = """
    SELECT chunk_id, original_text FROM {table}
    WHERE partition_id = {partition_id:d} AND chunk_id = ANY ($1::bigint[])
"""
_SEMANTIC = """
    SELECT chunk_id, 1 - (embedding::halfvec(384) <=> $1) FROM {table} {where}
    ORDER BY embedding::halfvec(384) <=> $1 LIMIT {limit}
"""

# pg_search refuses the condition beside its own, so all that match are ranked and looked at.
_FILTERED_KEYWORD = """
    SELECT chunk_id, score FROM ({ranked}) AS ranked
    WHERE selected ORDER BY score DESC, chunk_id LIMIT {limit}
"""
_FILTER = {"bucket": 7}
_FILTER_SQL = "(metadata -> 'bucket') = '7'"
_MODES = {
    "keyword": options_pb2.RETRIEVAL_MODE_KEYWORD,
    "semantic": options_pb2.RETRIEVAL_MODE_SEMANTIC,
    "hybrid": options_pb2.RETRIEVAL_MODE_HYBRID,
}

_INDEXES = """
    SELECT am.amname, pg_get_indexdef(i.indexrelid), i.indexrelid::regclass::text
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
    WHERE i.indrelid = $1::text::regclass AND am.amname IN ('bm25', 'hnsw') AND i.indisvalid
"""
_WORK_MEMORY_MIB = 512
_WORK_MEMORY_CHUNKS_PER_MIB = 500
"""A graph of vectors that outgrows maintenance_work_mem is built several times slower; one takes 1.3 KiB."""

_BATCH = 1000
_SEED = 20_260

_COLUMNS = (
    "partition_id", "document_id", "chunk_index", "original_text", "context_annotation", "lexical_text",
    "embedding", "start_offset", "end_offset", "content_hash", "source_type", "metadata",
    "allowed_principals", "update_time",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What is searched for: a mode, with or without the filter."""

    name: str
    mode: str
    filtered: bool = False


CASES = (
    Case("keyword", "keyword"),
    Case("semantic", "semantic"),
    Case("hybrid", "hybrid"),
    Case("hybrid, 1% filter", "hybrid", filtered=True),
)


@dataclass
class Figures:
    """Of one way and case: milliseconds of each serial search, and searches per second of all clients."""

    serial_ms: list[float] = field(default_factory=list)
    per_second: float = 0.0

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.serial_ms, share))


@dataclass(frozen=True)
class Result:
    """Of one number of chunks."""

    chunks: int
    load_seconds: float
    figures: Mapping[tuple[str, str], Figures]
    """By way and name of the case."""
    retriever_rss_mib: float
    """The most that the process has taken since it started."""
    loaded_mib: float
    """Size of the partition with its indexes."""


type Search = Callable[[Case, str], Awaitable[int]]
"""Returns how many hits there were."""


@dataclass(frozen=True)
class Ways:
    """How a search is asked for, by name, and the queries whose vectors are known to all of them."""

    searches: Mapping[str, Search]
    queries: Sequence[str]
    retriever: psutil.Process


def words() -> list[str]:
    """Words by falling frequency; letters only, and none that stemming would make another's."""
    consonants, vowels = "bdfgklmnprtv", "aou"
    syllables = ["".join(pair) for pair in itertools.product(consonants, vowels)]
    return ["".join(parts) for parts in itertools.islice(itertools.product(syllables, repeat=3), VOCABULARY)]


def texts(generator: np.random.Generator, count: int) -> Iterator[str]:
    """Texts whose words follow Zipf's law."""
    vocabulary = np.array(words())
    chances = 1 / np.arange(1, VOCABULARY + 1)
    chances /= chances.sum()
    for _ in range(count):
        yield " ".join(generator.choice(vocabulary, CHUNK_WORDS, p=chances))


def queries(count: int) -> list[str]:
    """Queries of words as frequent as in the texts, without the most frequent ones."""
    picker = random.Random(_SEED)  # noqa: S311 (a benchmark's data)
    vocabulary = words()[STOP_WORDS:]
    chances = [1 / (rank + STOP_WORDS) for rank in range(len(vocabulary))]
    return [" ".join(picker.choices(vocabulary, chances, k=QUERY_WORDS)) for _ in range(count)]


async def load(client: GatewayClient, database_url: str, collection: str, count: int) -> float:
    """Create a collection, write chunks into its partition, build both indexes; returns the seconds.

    What an earlier run has loaded is taken as it is: 0 seconds. Raises RuntimeError where the collection is
    there with another number of chunks.
    """
    started = time.perf_counter()
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        await register_vectors(connection)
        if await connection.fetchval("SELECT true FROM collections WHERE collection_id = $1", collection):
            found = await _loaded(connection, collection)
            if found != count:
                raise RuntimeError(
                    f"{collection} has {found} indexed chunks, not {count}: remove the data directory"
                )
            return 0.0
        await client.create_collection({"collectionId": collection, "name": f"Benchmark of {count} chunks"})
        memory = max(_WORK_MEMORY_MIB, count // _WORK_MEMORY_CHUNKS_PER_MIB)
        await connection.execute(f"SET maintenance_work_mem = '{memory}MB'")
        await _fill(connection, collection, count)
    finally:
        await connection.close()
    return time.perf_counter() - started


async def _fill(connection: "asyncpg.Connection[Any]", collection: str, count: int) -> None:
    partition_id = await _partition(connection, collection)
    table = f"chunks_p{partition_id}"
    definitions = {method: ddl for method, ddl, _ in await connection.fetch(_INDEXES, table)}
    # A partition may be without its HNSW index until it has some thousand chunks.
    definitions.setdefault("hnsw", f"CREATE INDEX {table}_embedding {vector_index_on(table, DIMENSIONS)}")
    for _, _, name in await connection.fetch(_INDEXES, table):
        await connection.execute(f"DROP INDEX {name}")
    # Else the ingestor would build the index of vectors while they are loaded.
    async with builds_held_off(connection, [partition_id]):
        generator = np.random.default_rng(_SEED)
        numbered = enumerate(texts(generator, count))
        while batch := list(itertools.islice(numbered, _BATCH)):
            await _write(connection, collection, partition_id, batch, generator)
        for definition in definitions.values():
            await connection.execute(definition)
    await connection.execute(f"VACUUM ANALYZE {table}")
    await connection.execute("ANALYZE documents")


async def _loaded(connection: "asyncpg.Connection[Any]", collection: str) -> int:
    """How many chunks there are; 0 where an index is missing: the load was broken off."""
    table = f"chunks_p{await _partition(connection, collection)}"
    methods = {method for method, _, _ in await connection.fetch(_INDEXES, table)}
    if methods != {"bm25", "hnsw"}:
        return 0
    found: int = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 (our own name)
    return found


async def size_mib(database_url: str, collection: str) -> float:
    """Of the collection's partition, indexes included."""
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        table = f"chunks_p{await _partition(connection, collection)}"
        size: int = await connection.fetchval("SELECT pg_total_relation_size($1::text::regclass)", table)
    finally:
        await connection.close()
    return size / 2**20


async def _partition(connection: Connection, collection: str) -> int:
    partition_id = await connection.fetchval(
        "SELECT partition_id FROM collections WHERE collection_id = $1", collection
    )
    return int(partition_id)


async def _write(
    connection: "asyncpg.Connection[Any]",
    collection: str,
    partition_id: int,
    batch: Sequence[tuple[int, str]],
    generator: np.random.Generator,
) -> None:
    """One document for each chunk."""
    now = await connection.fetchval("SELECT now()")
    vectors = generator.standard_normal((len(batch), DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    documents: list[tuple[object, ...]] = []
    chunks: list[tuple[object, ...]] = []
    for (number, text), vector in zip(batch, vectors, strict=True):
        document_id, uri = UUID(int=(partition_id << 64) + number), f"bench/{number}.txt"
        metadata = json.dumps({"bucket": number % BUCKETS, "source": "benchmark"})
        documents.append(
            (document_id, collection, uri, "file", f"Text {number}", "text/plain", b"", b"", len(text),
             metadata, "ready", 1)
        )  # fmt: skip
        lexical = lexical_text(text, context="", title=f"Text {number}", uri=uri)
        chunks.append(
            (partition_id, document_id, 0, text, "", lexical, HalfVector(vector), 0, len(text), b"", "file",
             metadata, [], now)
        )  # fmt: skip
    await connection.copy_records_to_table(
        "documents",
        records=documents,
        columns=(
            "document_id", "collection_id", "uri", "source_type", "title", "mime_type", "content_hash",
            "ingestion_hash", "size_bytes", "metadata", "state", "chunk_count",
        ),
    )  # fmt: skip
    await connection.copy_records_to_table("chunks", records=chunks, columns=_COLUMNS)


@asynccontextmanager
async def open_ways(
    info: ReadyInfo, client: GatewayClient, collection: str, query_count: int
) -> AsyncIterator[Ways]:
    """The floor, the retriever's port and the gateway."""
    asked = queries(query_count)
    async with create_embedder(EmbeddingSettings()) as embedder:
        vectors = {query: HalfVector(await embedder.embed_query(query)) for query in asked}
    async with (
        asyncpg.create_pool(
            info.database_url,
            min_size=2 * CLIENTS,
            max_size=2 * CLIENTS,
            init=register_vectors,
            reset=_nothing,
            server_settings=dict(SERVER_SETTINGS),
        ) as pool,
        grpc.aio.insecure_channel(info.services["retriever"]) as channel,
    ):
        floor = await _Floor.open(pool, collection, vectors)
        stub: Any = retriever_service_pb2_grpc.RetrieverServiceStub(channel)

        async def over_grpc(case: Case, query: str) -> int:
            request = retriever_service_pb2.RetrieveRequest(
                query=query,
                collection_ids=[collection],
                options=options_pb2.RetrievalOptions(mode=_MODES[case.mode]),
            )
            if case.filtered:
                request.filter.update(_FILTER)
            response = await stub.Retrieve(request, timeout=60)
            _require_whole(response.degraded)
            return len(response.candidates)

        async def over_http(case: Case, query: str) -> int:
            request = _request(case, query, collection)
            request["options"] = {"retrieval": request["options"]}
            response = await client.search(request)
            _require_whole(response.get("degraded"))
            return len(response["passages"])

        searches: dict[str, Search] = {
            "floor": floor.search,
            "floor, with texts": floor.search_and_fetch,
            "gRPC": over_grpc,
            "POST /api/search": over_http,
        }
        yield Ways(searches, asked, psutil.Process(info.pids["retriever"]))


async def _nothing(connection: "asyncpg.Connection[Any]") -> None:
    """The connections' settings are never changed."""


def _request(case: Case, query: str, collection: str) -> JsonObject:
    request: JsonObject = {
        "query": query,
        "collectionIds": [collection],
        "options": {"mode": f"RETRIEVAL_MODE_{case.mode.upper()}"},
    }
    if case.filtered:
        request["filter"] = _FILTER
    return request


def _require_whole(degraded: object) -> None:
    if degraded:
        raise RuntimeError(f"a search was degraded, its time says nothing: {degraded}")


class _Floor:
    """The arms' two statements by asyncpg alone, at the same time, and their reciprocal ranks added up."""

    def __init__(
        self,
        pool: "asyncpg.Pool[Any]",
        partition_id: int,
        lexical: LexicalIndex,
        vectors: Mapping[str, HalfVector],
    ) -> None:
        self._pool, self._lexical, self._vectors = pool, lexical, vectors
        self._table = table = f"chunks_p{partition_id}"
        everything = lexical.search_sql(table, limit=None, columns=f"{_FILTER_SQL} AS selected")
        self._keyword = {
            False: lexical.search_sql(table, limit=LIMIT),
            True: _FILTERED_KEYWORD.format(ranked=everything, limit=LIMIT),
        }
        self._texts = _TEXTS.format(table=table, partition_id=partition_id)

    @classmethod
    async def open(
        cls, pool: "asyncpg.Pool[Any]", collection: str, vectors: Mapping[str, HalfVector]
    ) -> "_Floor":
        async with pool.acquire() as connection:
            lexical = await detect_lexical_index(connection)
            return cls(pool, await _partition(connection, collection), lexical, vectors)

    async def search(self, case: Case, query: str) -> int:
        return len(await self._ranked(case, query))

    async def search_and_fetch(self, case: Case, query: str) -> int:
        """As a caller needs it, with the texts of both arms' hits."""
        found = await self._ranked(case, query)
        return len(await self._pool.fetch(self._texts, found))

    async def _ranked(self, case: Case, query: str) -> list[int]:
        arms = []
        if case.mode != "semantic":
            arms.append(self._keyword_arm(case, query))
        if case.mode != "keyword":
            arms.append(self._semantic_arm(case, query))
        scores: dict[int, float] = defaultdict(float)
        for hits in await asyncio.gather(*arms):
            for rank, (chunk_id, _) in enumerate(hits, 1):
                scores[chunk_id] += 1 / (60 + rank)
        return sorted(scores, key=lambda chunk_id: -scores[chunk_id])

    async def _keyword_arm(self, case: Case, query: str) -> Sequence[Any]:
        # Collections are in English unless their settings say otherwise.
        prepared = self._lexical.prepare_query(query, "english")
        return await self._pool.fetch(self._keyword[case.filtered], prepared)

    async def _semantic_arm(self, case: Case, query: str) -> Sequence[Any]:
        where = f"WHERE {_FILTER_SQL}" if case.filtered else ""
        statement = _SEMANTIC.format(table=self._table, where=where, limit=LIMIT)
        return await self._pool.fetch(statement, self._vectors[query])


async def measure(
    ways: Ways,
    chunks: int,
    load_seconds: float,
    loaded_mib: float,
    *,
    seconds: float,
    report: Callable[[str], None],
) -> Result:
    """Every way and case: serially, the ways in turn so that noise meets all, then by several clients."""
    figures: dict[tuple[str, str], Figures] = defaultdict(Figures)
    for case in CASES:
        report(f"{chunks} chunks: {case.name}")
        for search in ways.searches.values():
            for query in ways.queries:  # warms caches up, that of query vectors too
                await search(case, query)
        for query in ways.queries:
            for name, search in ways.searches.items():
                begun = time.perf_counter()
                await search(case, query)
                figures[name, case.name].serial_ms.append((time.perf_counter() - begun) * 1000)
        for name, search in ways.searches.items():
            figures[name, case.name].per_second = await _throughput(search, case, ways.queries, seconds)
    return Result(chunks, load_seconds, figures, peak_rss_mib(ways.retriever), loaded_mib)


async def _throughput(search: Search, case: Case, asked: Sequence[str], seconds: float) -> float:
    begun = time.perf_counter()
    endless = itertools.cycle(asked)
    done = 0

    async def client() -> None:
        nonlocal done
        while time.perf_counter() < begun + seconds:
            await search(case, next(endless))
            done += 1

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return done / (time.perf_counter() - begun)
