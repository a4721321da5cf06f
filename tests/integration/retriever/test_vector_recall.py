"""Vector search finds the nearest of what is selected, whether or not that is of the query's own topic."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, cast

import asyncpg
import numpy as np
import pytest
from groundline.v1 import options_pb2
from groundline_database import DatabaseSettings, register_vectors
from groundline_embedding.ports import Vectors
from groundline_filters import parse
from groundline_indexing.vector_indexes import vector_index_on
from groundline_lexical import detect_lexical_index
from groundline_retriever import domain
from groundline_retriever.adapters.postgres import semantic
from groundline_retriever.adapters.postgres.indexes import EXACT_COLLECTIONS, Index, RowCondition, indexes_of
from groundline_retriever.adapters.postgres.sizes import PartitionSizes
from groundline_retriever.adapters.postgres.store import SERVER_SETTINGS, PostgresChunkStore, open_chunk_store
from groundline_retriever.domain import Parameters, Selection
from groundline_tests.retriever.corpus import Corpus
from pydantic import SecretStr

TOPICS, COLLECTIONS, CHUNKS_OF_EACH = 55, 110, 40
OTHER_TOPICS = 51
"""The queries are about the topics after these."""
DIMENSIONS, QUERIES, LIMIT = 64, 20, 50
EVERYONE, MEMBER = "everyone", "member"
"""Principals: half of the collections are for members alone."""


class Clustered:
    """An embedder whose vectors are about topics, by the number in the text."""

    model, dimensions = "groundline/clustered", DIMENSIONS

    def __init__(self) -> None:
        generator = np.random.default_rng(1)
        self._topics = generator.standard_normal((TOPICS, DIMENSIONS))
        self.of_chunks = np.vstack(
            [self._near(generator, _topic(number), CHUNKS_OF_EACH) for number in range(COLLECTIONS)]
        )
        self.of_queries = np.vstack(
            [self._near(generator, OTHER_TOPICS + number % 4, 1) for number in range(QUERIES)]
        )

    def _near(self, generator: np.random.Generator, topic: int, count: int) -> Vectors:
        vectors = self._topics[topic] + 0.7 * generator.standard_normal((count, DIMENSIONS))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        stored: Vectors = (vectors / lengths).astype(np.float16).astype(np.float32)
        return stored

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self.of_chunks[[int(text) for text in texts]]


def _topic(collection: int) -> int:
    return collection % TOPICS


def _half(collection: int) -> int:
    """Return the half of a chunk; it says nothing of the topic."""
    return collection // TOPICS


@pytest.fixture(scope="module")
async def library(database_url: str) -> AsyncIterator[tuple[PostgresChunkStore, Clustered, list[int]]]:
    """The store, the vectors, and the ids of their chunks."""
    connection = await asyncpg.connect(database_url)
    await register_vectors(connection)
    corpus: Any = Corpus(connection, await detect_lexical_index(connection))
    embedder = corpus.embedder = Clustered()
    chunk_ids: list[int] = []
    for number in range(COLLECTIONS):
        name, first = f"clustered-{number}", number * CHUNKS_OF_EACH
        await corpus.collection(name, is_shared=True)
        table = f"chunks_p{await corpus.partition(name)}"
        # Indexes are filled sooner at the end; no test searches words.
        await connection.execute(f"DROP INDEX IF EXISTS {table}_bm25; DROP INDEX IF EXISTS {table}_hnsw")
        chunk_ids += await corpus.add(
            name,
            [str(place) for place in range(first, first + CHUNKS_OF_EACH)],
            metadata={"topic": _topic(number), "half": _half(number)},
            allowed_principals=[MEMBER] if _half(number) else [],
        )
    await connection.execute(
        f"""
        CREATE INDEX ON {table} USING hnsw ((embedding::halfvec({DIMENSIONS})) halfvec_cosine_ops);
        ANALYZE chunks
        """
    )
    await connection.close()
    async with open_chunk_store(DatabaseSettings(database_url=SecretStr(database_url))) as store:
        yield store, embedder, chunk_ids


def _all(_: int) -> bool:
    return True


def _other(number: int) -> bool:
    return _topic(number) < OTHER_TOPICS


SELECTIONS: Final = [
    pytest.param(_other, None, MEMBER, _other, id="collections about other topics"),
    pytest.param(_all, {"topic": {"$lt": 6}}, MEMBER, lambda n: _topic(n) < 6, id="11 % of other topics"),
    pytest.param(_all, {"topic": 3}, MEMBER, lambda n: _topic(n) == 3, id="2 % of another topic"),
    pytest.param(_all, {"half": 1}, MEMBER, lambda n: _half(n) == 1, id="50 % of every topic"),
    pytest.param(_all, {"half": {"$ne": 1}}, EVERYONE, lambda n: _half(n) != 1, id="what is not in one half"),
    pytest.param(_all, None, EVERYONE, lambda n: _half(n) == 0, id="what a principal may read"),
]


@pytest.mark.parametrize(
    ("compared", "least"),
    [pytest.param(0, 0.95, id="scanned on"), pytest.param(domain.MAX_COMPARED_CHUNKS, 0.98, id="compared")],
)
@pytest.mark.parametrize(("searched", "filtered", "principal", "selected"), SELECTIONS)
async def test_the_nearest_of_what_is_selected_are_found(
    library: tuple[PostgresChunkStore, Clustered, list[int]],
    searched: Any,
    filtered: Mapping[str, Any] | None,
    principal: str,
    selected: Any,
    compared: int,
    least: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(semantic, "MAX_COMPARED_CHUNKS", compared)
    assert await _recall(*library, searched, filtered, principal, selected) >= least


async def _recall(
    store: PostgresChunkStore,
    embedder: Clustered,
    chunk_ids: Sequence[int],
    searched: Any,
    filtered: Mapping[str, Any] | None,
    principal: str,
    selected: Any,
) -> float:
    """Return the share of the nearest of what is selected that is found, in order."""
    names = [f"clustered-{number}" for number in range(COLLECTIONS) if searched(number)]
    assert len(names) > EXACT_COLLECTIONS, "else none is searched by HNSW"
    collections = await store.collections(names, [principal])
    selection = Selection([principal], None if filtered is None else parse(dict(filtered)))
    parameters = Parameters.of(options_pb2.RetrievalOptions(semantic_limit=LIMIT))
    takes_part = np.array([selected(place // CHUNKS_OF_EACH) for place in range(len(chunk_ids))])
    found = 0
    for query in embedder.of_queries:
        hits = await store.semantic(
            collections,
            query,
            limit=LIMIT,
            ef_search=parameters.ef_search,
            iterative_scan=parameters.iterative_scan,
            selection=selection,
        )
        [ranked] = hits.lists
        scores = [hit.score for hit in ranked]
        assert len(ranked) == LIMIT
        assert scores == sorted(scores, reverse=True)
        similarities = np.where(takes_part, embedder.of_chunks @ query, -np.inf)
        nearest = {chunk_ids[place] for place in np.argsort(-similarities)[:LIMIT]}
        found += len(nearest & {hit.chunk_id for hit in ranked})
    return found / (QUERIES * LIMIT)


async def _found_by_one_scan(database_url: str, embedder: Clustered, ef_search: int | None) -> int:
    """Return those of the selected half of the chunks that are among the first `ef_search` of HNSW."""
    async with open_chunk_store(DatabaseSettings(database_url=SecretStr(database_url))) as store:
        collections = await store.collections(
            [f"clustered-{number}" for number in range(COLLECTIONS)], [MEMBER]
        )
        hits = await store.semantic(
            collections,
            embedder.of_queries[0],
            limit=100,
            ef_search=ef_search,
            iterative_scan=options_pb2.ITERATIVE_SCAN_OFF,
            selection=Selection([MEMBER], parse({"half": 1})),
        )
        return sum(len(found) for found in hits.lists)


async def test_a_small_partition_is_searched_with_a_list_of_100(
    library: tuple[PostgresChunkStore, Clustered, list[int]], database_url: str
) -> None:
    _, embedder, _ = library
    by_default = await _found_by_one_scan(database_url, embedder, None)
    assert by_default == await _found_by_one_scan(database_url, embedder, 100)
    assert by_default < 100


async def test_a_large_partition_is_searched_with_a_longer_list_unless_one_is_named(
    library: tuple[PostgresChunkStore, Clustered, list[int]],
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, embedder, _ = library
    # So that 4,400 chunks are many.
    monkeypatch.setattr(domain, "CHUNKS_PER_ENTRY", 10)
    assert await _found_by_one_scan(database_url, embedder, 100) < 100
    assert await _found_by_one_scan(database_url, embedder, None) == 100


async def test_searches_of_a_small_partition_are_one_statement_each(
    library: tuple[PostgresChunkStore, Clustered, list[int]], database_url: str
) -> None:
    _, embedder, _ = library
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_min_size=1, pool_max_size=1)
    async with open_chunk_store(settings) as store:
        collections = await store.collections(
            [f"clustered-{number}" for number in range(COLLECTIONS)], [MEMBER]
        )
        issued: list[str] = []

        async def search(query: Vectors) -> None:
            await store.semantic(
                collections,
                query,
                limit=LIMIT,
                ef_search=None,
                iterative_scan=options_pb2.ITERATIVE_SCAN_RELAXED_ORDER,
                selection=Selection([MEMBER]),
            )

        await search(embedder.of_queries[0])  # which reads its size
        async with store._pool.acquire() as connection:
            connection.add_query_logger(lambda record: issued.append(record.query))
        for query in embedder.of_queries[:3]:
            await search(query)
        assert len(issued) == 3


async def test_an_index_finds_what_a_principal_may_read_for_the_exact_search(
    library: tuple[PostgresChunkStore, Clustered, list[int]], database_url: str
) -> None:
    store, embedder, _ = library
    [shared] = await store.collections(["clustered-0"], [MEMBER])
    own = Index(shared.partition_id, False, DIMENSIONS, "english", ["clustered-0"])
    condition = RowCondition.of(Selection([MEMBER]), first_parameter=2)
    statement = semantic._exact_sql(own, condition, LIMIT)
    connection = await asyncpg.connect(
        database_url, server_settings={**SERVER_SETTINGS, "enable_seqscan": "off"}
    )
    await register_vectors(connection)
    rows = await connection.fetch(f"EXPLAIN {statement}", embedder.of_queries[0], *condition.arguments([own]))
    await connection.close()
    plan = "\n".join(row[0] for row in rows)
    # What everyone may read, and what these principals may.
    assert plan.count(f"Bitmap Index Scan on chunks_p{shared.partition_id}_allowed_principals_idx") == 2


async def test_the_planner_cannot_pass_hnsw_by_whatever_is_selected(
    library: tuple[PostgresChunkStore, Clustered, list[int]], database_url: str
) -> None:
    store, embedder, _ = library
    names = [f"clustered-{number}" for number in range(COLLECTIONS)]
    [first, *_] = collections = await store.collections(names, [MEMBER])
    [index] = indexes_of(collections)
    connection = await asyncpg.connect(database_url)
    await register_vectors(connection)
    for filtered in ({"topic": 3}, {"half": 1}, {"topic": {"$lt": 6}}):
        condition = RowCondition.of(Selection([MEMBER], parse(filtered)), first_parameter=2)
        for statement in (
            semantic._nearest_sql(index, condition, LIMIT, 2 * LIMIT),
            semantic._filtered_sql(index, condition, LIMIT),
        ):
            arguments = condition.arguments([index])
            rows = await connection.fetch(f"EXPLAIN {statement}", embedder.of_queries[0], *arguments)
            assert f"Index Scan using chunks_p{first.partition_id}_" in "\n".join(row[0] for row in rows)
            assert not any("Bitmap" in row[0] or "Seq Scan" in row[0] for row in rows)
    await connection.close()


async def test_an_index_of_bits_finds_as_much_and_is_used_once_it_is_the_only_one(
    library: tuple[PostgresChunkStore, Clustered, list[int]], database_url: str
) -> None:
    """The last test here, since it takes the index of vectors away."""
    _, embedder, chunk_ids = library
    connection = await asyncpg.connect(database_url)
    await register_vectors(connection)
    async with open_chunk_store(DatabaseSettings(database_url=SecretStr(database_url))) as store:
        [indexed] = await store.collections(["clustered-0"], [MEMBER])
        table = f"chunks_p{indexed.partition_id}"
        sizes = PartitionSizes()
        await connection.execute(f"CREATE INDEX bits {vector_index_on(table, DIMENSIONS, is_quantized=True)}")
        [size] = (await sizes.read(connection, [indexed.partition_id])).values()
        assert not size.is_quantized
        of_vectors = await connection.fetchval(
            "SELECT indexrelid::regclass::text FROM pg_index x JOIN pg_opclass o ON o.oid = x.indclass[0] "
            "WHERE indrelid = $1::regclass AND opcname = 'halfvec_cosine_ops'",
            table,
        )
        await connection.execute(f"DROP INDEX {of_vectors}")
        [size] = (await sizes.read(connection, [indexed.partition_id])).values()
        assert size.is_quantized

        index = Index(indexed.partition_id, False, DIMENSIONS, "english", ["clustered-0"])
        condition = RowCondition.of(Selection([MEMBER], parse({"topic": 3})), first_parameter=2)
        statement = semantic._by_bits_sql(index, condition, LIMIT, 8 * LIMIT, goes_on=True, checks=True)
        rows = await connection.fetch(
            f"EXPLAIN {statement}", embedder.of_queries[0], *condition.arguments([index])
        )
        plan = "\n".join(row[0] for row in rows)
        assert plan.count("Index Scan using bits on") == 2
        assert "Seq Scan" not in plan

        for selection in SELECTIONS:
            # Chunks about other topics are all about equally far from the query; 192 bits hardly order them.
            least = 0.85 if selection.values[0] is _other else 0.95
            assert await _recall(store, embedder, chunk_ids, *cast("Any", selection.values)) >= least, (
                selection.id
            )
    await connection.close()
