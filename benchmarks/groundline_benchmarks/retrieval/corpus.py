"""Collections made from a fixed seed, and queries."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import asyncpg
import numpy as np
from groundline.v1 import options_pb2
from groundline_client import AsyncClient, JsonObject
from groundline_database import DatabaseSettings, register_vectors
from groundline_filters import parse
from groundline_indexing.builds import builds_held_off
from groundline_indexing.chunks import CHUNK_COLUMNS
from groundline_indexing.partitions import move_collection
from groundline_indexing.vector_indexes import vector_index_on
from groundline_lexical import TERMS, Connection, detect_lexical_index, lexical_text, stored_terms
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.domain import Parameters, Selection
from groundline_signatures import signature
from groundline_weaviate import Extent, Space, Weaviate, condition_of
from numpy.typing import NDArray
from pgvector import HalfVector, SparseVector
from pydantic import SecretStr

from groundline_benchmarks.measuring.running import MeasurementError
from groundline_benchmarks.measuring.texts import DIMENSIONS, texts, words

STOP_WORDS: Final = 100
"""Number of most frequent words, which no query has, as a language's stop words are not searched."""

QUERY_WORDS: Final = 6
FILTERS: Final = (10, 50, 100, 1000)
"""Chunks of which a filter on the metadata keeps one."""

RECALL_FILTERS: Final = {
    "all": None,
    "10% filter": 10,
    "2% filter": 50,
    "1% filter": 100,
    "0.1% filter": 1000,
}
RECALL_QUERIES: Final = 50
RECALL_CHUNKS: Final = 50
TOPICS: Final = 200
COPIED: Final = "copied"
"""Name of the seconds of writing, beside those of each index by its method."""

SMALL_COLLECTION_CHUNKS: Final = 20
LONE_COLLECTION: Final = "lone"
"""Collection of that size in a partition of its own, beside those that share one."""

_INDEXES: Final = """
    SELECT am.amname, pg_get_indexdef(i.indexrelid), i.indexrelid::regclass::text
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
    WHERE i.indrelid = $1::text::regclass AND am.amname IN ('bm25', 'hnsw') AND i.indisvalid
"""
_SIZES: Final = """
    SELECT 'rows' AS part, pg_table_size($1::text::regclass) AS bytes
    UNION ALL
    SELECT am.amname, sum(pg_relation_size(i.indexrelid))::bigint
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
    WHERE i.indrelid = $1::text::regclass GROUP BY am.amname
"""
_EXACT: Final = "SELECT chunk_id FROM {table} {where} ORDER BY {distance} LIMIT {limit:d}"
_NOTE: Final = "SELECT obj_description($1::text::regclass, 'pg_class')"
_WORK_MEMORY_MIB: Final = 512
_WORK_MEMORY_CHUNKS_PER_MIB: Final = 500
"""Chunks per MiB of maintenance_work_mem. A graph of vectors that outgrows it is built several times slower;
one vector takes 1.3 KiB."""

_BATCH: Final = 1000
# Services are also measured by callers without principals.
_PRINCIPALS: Final = ["*"]
_OPEN: Final = {"access": {"readers": ["*"]}}
_CONCURRENT_CREATIONS: Final = 8
_SEED: Final = 20_260

type _Row = tuple[str, int, str]
"""Collection, number and text of a chunk."""


def filter_of(one_in: int) -> JsonObject:
    """Return the filter as requests have it; `one_in` is one of FILTERS."""
    return {f"of_{one_in}": 7}


def filter_sql(one_in: int) -> str:
    """Return the condition as an index on the metadata answers it."""
    return f"metadata @> '{json.dumps(filter_of(one_in))}'"


def queries(count: int) -> list[str]:
    """Return queries of words as frequent as in the texts, without the most frequent ones."""
    picker = random.Random(_SEED)  # noqa: S311 (a benchmark's data)
    vocabulary = words()[STOP_WORDS:]
    chances = [1 / (rank + STOP_WORDS) for rank in range(len(vocabulary))]
    return [" ".join(picker.choices(vocabulary, chances, k=QUERY_WORDS)) for _ in range(count)]


def questions(count: int) -> list[str]:
    """Return the rarest words of a sentence of each of a collection's first texts, so that there is an
    answer."""
    ranks = {word: rank for rank, word in enumerate(words())}
    found = []
    for text in texts(np.random.default_rng(_SEED), count):
        sentence = text.lower().split(". ")[1].split()
        found.append(" ".join(sorted(sentence, key=ranks.__getitem__)[-QUERY_WORDS:]))
    return found


async def load_collection(
    client: AsyncClient, database_url: str, collection: str, count: int
) -> Mapping[str, float]:
    """Create a collection, write chunks into its partition, build both indexes; return the seconds of each.

    A collection of an earlier run is taken as it is, with the seconds that it took then. Raises
    MeasurementError if it has another number of chunks.
    """
    async with _connected(database_url) as connection:
        if await connection.fetchval("SELECT true FROM collections WHERE collection_id = $1", collection):
            found = await _indexed_chunks(connection, collection)
            if found != count:
                raise MeasurementError(
                    f"{collection} has {found} indexed chunks, not {count}: remove the data directory"
                )
            return await _noted_seconds(connection, await partition_of(connection, collection))
        await client.create_collection(collection, name=f"Benchmark of {count} chunks", settings=_OPEN)
        memory = max(_WORK_MEMORY_MIB, count // _WORK_MEMORY_CHUNKS_PER_MIB)
        await connection.execute(f"SET maintenance_work_mem = '{memory}MB'")
        async with connection.transaction():
            # These rows are too many for the partition that small collections share.
            await move_collection(connection, await detect_lexical_index(connection), collection)
        numbered = enumerate(texts(np.random.default_rng(_SEED), count))
        rows = ((collection, number, text) for number, text in numbered)
        return await _fill_and_index(connection, await partition_of(connection, collection), rows)


async def load_small_collections(
    client: AsyncClient, database_url: str, count: int
) -> tuple[list[str], float]:
    """Create `count` collections of SMALL_COLLECTION_CHUNKS chunks, which search vectors exactly, and
    LONE_COLLECTION; return their ids, and how many were created per second, 0 if they existed.

    Raises MeasurementError if an earlier run has loaded others into the same data directory.
    """
    names = [f"small-{number}" for number in range(count)]
    async with _connected(database_url) as connection:
        known = {row[0] for row in await connection.fetch("SELECT collection_id FROM collections")}
        if known:
            if known != {*names, LONE_COLLECTION}:
                raise MeasurementError("other collections are loaded: remove the data directory")
            return names, 0.0
        await client.create_collection(LONE_COLLECTION, settings=_OPEN)
        async with connection.transaction():
            await move_collection(connection, await detect_lexical_index(connection), LONE_COLLECTION)
        begun = time.perf_counter()
        waiting = iter(names)

        async def create() -> None:
            for name in waiting:
                await client.create_collection(name, settings=_OPEN)

        await asyncio.gather(*(create() for _ in range(_CONCURRENT_CREATIONS)))
        created_per_second = count / (time.perf_counter() - begun)
        # Small collections share one partition. The lone one has the texts of the first.
        for group in (names, [LONE_COLLECTION]):
            of_texts = np.random.default_rng(_SEED)
            rows = (
                (name, number, text)
                for name in group
                for number, text in enumerate(texts(of_texts, SMALL_COLLECTION_CHUNKS))
            )
            partition_id = await partition_of(connection, group[0])
            await _fill_and_index(connection, partition_id, rows, with_vector_index=group is names)
    return names, created_per_second


@asynccontextmanager
async def _connected(database_url: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        await register_vectors(connection)
        yield connection
    finally:
        await connection.close()


async def _fill_and_index(
    connection: "asyncpg.Connection[Any]",
    partition_id: int,
    rows: Iterable[_Row],
    *,
    with_vector_index: bool = True,
) -> Mapping[str, float]:
    """Write a partition's chunks, and build its indexes afterwards; return the seconds of each."""
    table = f"chunks_p{partition_id}"
    definitions = {method: ddl for method, ddl, _ in await connection.fetch(_INDEXES, table)}
    # A partition has no HNSW index until it has some thousand chunks.
    if with_vector_index:
        definitions.setdefault("hnsw", f"CREATE INDEX {table}_embedding {vector_index_on(table, DIMENSIONS)}")
    # Otherwise the ingestor would build them while the rows are loaded.
    async with builds_held_off(connection, [partition_id]):
        for _, _, name in await connection.fetch(_INDEXES, table):
            await connection.execute(f"DROP INDEX {name}")
        of_vectors = np.random.default_rng(_SEED)
        begun = time.perf_counter()
        for batch in itertools.batched(rows, _BATCH):
            await _write(connection, partition_id, batch, of_vectors)
        seconds = {COPIED: time.perf_counter() - begun}
        for method, definition in definitions.items():
            begun = time.perf_counter()
            await connection.execute(definition)
            seconds[method] = time.perf_counter() - begun
    await connection.execute(f"VACUUM ANALYZE {table}")
    await connection.execute("ANALYZE documents")
    # For later runs on the same data; only letters, digits and braces.
    await connection.execute(f"COMMENT ON TABLE {table} IS '{json.dumps(seconds)}'")
    return seconds


async def _noted_seconds(connection: "asyncpg.Connection[Any]", partition_id: int) -> Mapping[str, float]:
    """Return the result of _fill_and_index that an earlier run recorded, or an empty mapping."""
    noted = await connection.fetchval(_NOTE, f"chunks_p{partition_id}")
    return {} if noted is None else json.loads(noted)


async def _indexed_chunks(connection: "asyncpg.Connection[Any]", collection: str) -> int:
    """Count the chunks; 0 if an index is missing, because the load was broken off."""
    table = f"chunks_p{await partition_of(connection, collection)}"
    methods = {method for method, _, _ in await connection.fetch(_INDEXES, table)}
    if methods != {"bm25", "hnsw"}:
        return 0
    found: int = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 (our own name)
    return found


async def sizes_mib(database_url: str, collection: str) -> Mapping[str, float]:
    """Return the sizes of the rows of the collection's partition, and of its indexes by their method."""
    async with _connected(database_url) as connection:
        table = f"chunks_p{await partition_of(connection, collection)}"
        rows = await connection.fetch(_SIZES, table)
    return {row["part"]: row["bytes"] / 2**20 for row in rows}


async def recall(
    database_url: str, collection: str, one_in: int | None, weaviate: Weaviate | None = None
) -> float:
    """Return the share of the nearest chunks that the vector index finds, with the retriever's settings, for
    vectors that are near to some chunks, as questions are. With `weaviate`, measure its proposals instead."""
    where = f"WHERE {filter_sql(one_in)}" if one_in is not None else ""
    tree = parse(filter_of(one_in)) if one_in is not None else None
    queries = clustered(np.random.default_rng(_SEED + 1), RECALL_QUERIES)
    parameters = Parameters.of(options_pb2.RetrievalOptions())
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_min_size=1)
    found = expected = 0
    async with _connected(database_url) as connection, open_chunk_store(settings) as store:
        [indexed] = await store.collections([collection], _PRINCIPALS)
        space = Space(indexed.embedding_model, indexed.dimensions, indexed.is_quantized)
        condition = condition_of(Extent([indexed.partition_id]), [], tree)
        distance = f"((embedding::halfvec({DIMENSIONS})) <=> $1::halfvec({DIMENSIONS})) + 0"
        exact = _EXACT.format(
            table=f"chunks_p{indexed.partition_id}", where=where, distance=distance, limit=RECALL_CHUNKS
        )
        for query in queries:
            nearest = {row[0] for row in await connection.fetch(exact, HalfVector(query))}
            if weaviate is None:
                lists = await store.semantic(
                    [indexed],
                    query,
                    limit=RECALL_CHUNKS,
                    ef_search=parameters.ef_search,
                    iterative_scan=parameters.iterative_scan,
                    selection=Selection(_PRINCIPALS, tree),
                )
                proposed = {hit.chunk_id for hits in lists.lists for hit in hits}
            else:
                proposals = await weaviate.semantic(space, query, condition, limit=RECALL_CHUNKS)
                proposed = {proposal.chunk_id for proposal in proposals}
            found += len(nearest & proposed)
            expected += len(nearest)
    return found / expected


def clustered(generator: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Return unit vectors about some topics, of shape (count, DIMENSIONS); the topics are always the same."""
    topics = np.random.default_rng(_SEED).standard_normal((TOPICS, DIMENSIONS), np.float32)
    vectors = topics[generator.integers(TOPICS, size=count)]
    vectors += generator.standard_normal((count, DIMENSIONS), np.float32) * 0.7
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


async def partition_of(connection: Connection, collection: str) -> int:
    """Return the number in the name of the collection's table of chunks."""
    partition_id = await connection.fetchval(
        "SELECT partition_id FROM collections WHERE collection_id = $1", collection
    )
    return int(partition_id)


async def _write(
    connection: "asyncpg.Connection[Any]",
    partition_id: int,
    rows: Sequence[_Row],
    generator: np.random.Generator,
) -> None:
    """Write one document for each chunk."""
    now = await connection.fetchval("SELECT now()")
    vectors = clustered(generator, len(rows))
    documents: list[tuple[object, ...]] = []
    chunks: list[list[object]] = []
    for (collection, number, text), vector in zip(rows, vectors, strict=True):
        uri = f"bench/{number}.txt"
        document_id = uuid5(NAMESPACE_URL, f"{collection}/{uri}")
        metadata = json.dumps({f"of_{one_in}": number % one_in for one_in in FILTERS})
        documents.append(
            (document_id, collection, uri, "file", f"Text {number}", "text/plain", b"", b"", len(text),
             metadata, "ready", 1)
        )  # fmt: skip
        lexical = lexical_text(text, context="", title=f"Text {number}", uri=uri)
        chunk = {
            "partition_id": partition_id, "collection_id": collection, "document_id": document_id,
            "chunk_index": 0, "original_text": text, "context_annotation": "", "lexical_text": lexical,
            "lexical_terms": SparseVector(stored_terms(lexical, "english"), TERMS),
            "embedding": HalfVector(vector), "start_offset": 0, "end_offset": len(text),
            "siblings_before": 0, "siblings_after": 0, "signature": signature(text), "source_type": "file",
            "metadata": metadata, "allowed_principals": [], "update_time": now,
        }  # fmt: skip
        chunks.append([chunk[name] for name in CHUNK_COLUMNS])
    await connection.copy_records_to_table(
        "documents",
        records=documents,
        columns=(
            "document_id", "collection_id", "uri", "source_type", "title", "mime_type", "content_hash",
            "ingestion_hash", "size_bytes", "metadata", "state", "chunk_count",
        ),
    )  # fmt: skip
    await connection.copy_records_to_table("chunks", records=chunks, columns=CHUNK_COLUMNS)
