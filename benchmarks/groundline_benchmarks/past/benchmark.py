"""Searches of the past, beside those of the present."""

# ruff: noqa: S608 - what is put into SQL here are names that are made of numbers

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import batched
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import asyncpg
import numpy as np
import psutil
from groundline.v1 import collection_pb2, options_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings, open_pool, register_vectors
from groundline_embedding.ports import Vectors
from groundline_indexing.builds import builds_held_off
from groundline_indexing.chunks import CHUNK_COLUMNS
from groundline_indexing.partitions import chunk_table, move_collection
from groundline_indexing.revisions.past import PastChunks
from groundline_indexing.vector_indexes import build_vector_index
from groundline_ingestor.adapters.postgres.stores import stores_on
from groundline_ingestor.migrate import migrate
from groundline_ingestor.settings import MigrationSettings
from groundline_lexical import TERMS, LexicalIndex, detect_lexical_index, lexical_text, stored_terms
from groundline_retriever.adapters.postgres.store import PostgresChunkStore, open_chunk_store
from groundline_retriever.arms import Arms
from groundline_retriever.domain import Selection
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_runtime.context import Caller
from groundline_runtime.quotas import Budgets, QuotaWarnings, Spending
from groundline_signatures import signature
from pgvector import HalfVector, SparseVector
from pydantic import SecretStr

from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.texts import DIMENSIONS, texts
from groundline_benchmarks.retrieval.corpus import clustered
from groundline_benchmarks.retrieval.corpus import queries as questions_of

PLAIN: Final = "plain"
KEPT: Final = "kept"
UNIT: Final = timedelta(days=30)
"""Time for which a revision is current."""
NEAREST: Final = 50
MODEL: Final = "bench"
_SEED: Final = 20_260
_BATCH: Final = 1000
_COLUMNS: Final = (*CHUNK_COLUMNS, "chunk_id", "valid_from", "valid_to")


@dataclass(frozen=True, slots=True)
class PastFigures:
    """Processor time of a search, and recall of the vector arm."""

    milliseconds: Mapping[str, float]
    recall: float

    def goals(self) -> Sequence[Goal]:
        plain, kept, past = (self.milliseconds[name] for name in ("without a past", "present", "past"))
        return [
            Goal("a search of the present to one without a past", kept / plain, 1.05),
            Goal("a search of the past to one of the present", past / kept, 3.0),
            Goal("recall of the past", self.recall, 0.98, is_minimum=True),
        ]


class _Given:
    """QueryEmbedder of vectors that are known by the text."""

    model = MODEL
    dimensions = DIMENSIONS

    def __init__(self, vectors: Mapping[str, Vectors]) -> None:
        self._vectors = vectors

    def cost(self, tokens: int) -> float:
        return 0.0

    async def embed_query(self, text: str) -> Vectors:
        return self._vectors[text]


class _Corpus:
    """Chunks with their revisions, each of a document of its own; those of one chunk are much alike."""

    def __init__(self, chunks: int, revisions: int, now: datetime) -> None:
        generator = np.random.default_rng(_SEED)
        self.revisions = revisions
        self._texts = list(texts(generator, chunks))
        self._vectors = clustered(generator, chunks)
        # Documents do not change at the same time.
        phases = generator.random(chunks)
        self._begins = [now - UNIT * (revisions - phase) for phase in phases]
        self.begin = now - UNIT * (revisions - 1)

    def span(self, number: int, revision: int) -> tuple[datetime, datetime]:
        begins = self._begins[number]
        return begins + UNIT * revision, begins + UNIT * (revision + 1)

    def numbers(self) -> range:
        return range(len(self._texts))

    def past(self) -> Sequence[tuple[int, int]]:
        """Return number and revision of all that was replaced, in the order in which it was."""
        pairs = [(number, one) for number in self.numbers() for one in range(self.revisions - 1)]
        return sorted(pairs, key=lambda pair: self.span(*pair)[1])

    def row(self, collection: str, partition_id: int, number: int, revision: int) -> list[Any]:
        text = f"{self._texts[number]} Revision {revision} of it."
        generator = np.random.default_rng([_SEED, number, revision])
        vector = self._vectors[number] + generator.standard_normal(DIMENSIONS, np.float32) * 0.005
        lexical = lexical_text(text, context="", title=f"Text {number}", uri=f"{number}.txt")
        begins, ends = self.span(number, revision)
        is_past = revision < self.revisions - 1
        chunk = {
            "partition_id": partition_id, "collection_id": collection,
            "document_id": document_of(collection, number), "chunk_index": 0, "original_text": text,
            "context_annotation": "", "lexical_text": lexical,
            "lexical_terms": SparseVector(stored_terms(lexical, "english"), TERMS),
            "embedding": HalfVector(vector), "start_offset": 0, "end_offset": len(text), "siblings_before": 0,
            "siblings_after": 0, "signature": signature(text), "source_type": "file", "metadata": "{}",
            "allowed_principals": [], "update_time": begins,
            "chunk_id": (number * self.revisions + revision) * 2 + (collection == KEPT) + 1,
            "valid_from": begins if is_past else None, "valid_to": ends if is_past else None,
        }  # fmt: skip
        return [chunk[name] for name in _COLUMNS]


def document_of(collection: str, number: int) -> UUID:
    return uuid5(NAMESPACE_URL, f"{collection}/{number}")


async def measure_past(url: str, chunks: int, revisions: int, queries: int, report: Report) -> PastFigures:
    """Load the collections and search them."""
    await migrate(MigrationSettings(database_url=SecretStr(url)))
    settings = DatabaseSettings(database_url=SecretStr(url), statement_timeout_seconds=3600)
    connection = await asyncpg.connect(url)
    await register_vectors(connection)
    try:
        now = await connection.fetchval("SELECT now()")
        corpus = _Corpus(chunks, revisions, now)
        lexical = await detect_lexical_index(connection)
        report(f"writing {chunks * (revisions + 1):,} chunks")
        await _load(connection, settings, lexical, corpus)
        generator = np.random.default_rng(_SEED + 1)
        texts_asked = questions_of(queries)
        vectors = dict(zip(texts_asked, clustered(generator, queries), strict=True))
        moments = [corpus.begin + (now - corpus.begin) * share for share in generator.random(queries)]
        async with open_chunk_store(DatabaseSettings(database_url=SecretStr(url))) as store:
            service = SearchService(
                store,
                Arms(store, [_Given(vectors)], timeout_seconds=60),
                ModelScores(None, timeout_seconds=60),  # type: ignore[arg-type]
                spending=Spending(store.ledger(Budgets()), QuotaWarnings(1.0), "searches"),
                scored_candidates=NEAREST,
            )
            report("searching")
            backend = psutil.Process(await connection.fetchval("SELECT pg_backend_pid()"))
            server = backend.parent()
            assert server is not None, "the postmaster"
            milliseconds = await _searched(service, server, list(zip(texts_asked, moments, strict=True)))
            recall = await _recall(connection, store, list(zip(vectors.values(), moments, strict=True)))
    finally:
        await connection.close()
    return PastFigures(milliseconds, recall)


async def _load(
    connection: "asyncpg.Connection[Any]", settings: DatabaseSettings, lexical: LexicalIndex, corpus: _Corpus
) -> None:
    async with open_pool(settings, init=register_vectors) as pool:
        stores = stores_on(pool, lexical)
        for name in (PLAIN, KEPT):
            new = collection_pb2.Collection(collection_id=name)
            new.settings.embedding.model, new.settings.embedding.dimensions = MODEL, DIMENSIONS
            new.settings.lexical.language = "english"
            new.settings.access.readers.append("*")
            if name == KEPT:
                new.settings.history.CopyFrom(
                    collection_pb2.HistorySettings(everything=True, searchable=True)
                )
            await stores.collections.create(new, "", "")
            async with connection.transaction():
                await move_collection(connection, lexical, name)
            await _write_documents(connection, corpus, name)
            partition_id = await connection.fetchval(
                "SELECT partition_id FROM collections WHERE collection_id = $1", name
            )
            present = [(number, corpus.revisions - 1) for number in corpus.numbers()]
            await _fill(connection, corpus, name, partition_id, present)
        past = PastChunks(pool, lexical, least_bytes=1)
        for part in batched(corpus.past(), len(corpus.numbers())):
            newest = await connection.fetchval("SELECT max(partition_id) FROM past_partitions")
            await _fill(connection, corpus, KEPT, newest, part)
            await past.tend()
        await past.tend()
        await connection.execute(
            "UPDATE collections SET history_since = $1 WHERE history_since IS NOT NULL", corpus.begin
        )
        await connection.execute("VACUUM ANALYZE")


async def _write_documents(connection: "asyncpg.Connection[Any]", corpus: _Corpus, name: str) -> None:
    last = corpus.revisions - 1
    await connection.copy_records_to_table(
        "documents",
        records=(
            (document_of(name, number), name, f"{number}.txt", "file", f"Text {number}", "text/plain", b"",
             b"-", 1, "{}", "done", 1, corpus.span(number, last)[0])
            for number in corpus.numbers()
        ),
        columns=("document_id", "collection_id", "uri", "source_type", "title", "mime_type", "content_hash",
                 "ingestion_hash", "size_bytes", "metadata", "state", "chunk_count", "update_time"),
    )  # fmt: skip
    if name == KEPT:
        await connection.copy_records_to_table(
            "past_revisions",
            records=(
                (document_of(name, number), f"{revision:032x}", *corpus.span(number, revision),
                 [(number * corpus.revisions + revision) * 2 + 2], [0])
                for number in corpus.numbers()
                for revision in range(last)
            ),
            columns=("document_id", "revision", "valid_from", "valid_to", "chunk_ids", "starts"),
        )  # fmt: skip


async def _fill(
    connection: "asyncpg.Connection[Any]",
    corpus: _Corpus,
    name: str,
    partition_id: int,
    wanted: Sequence[tuple[int, int]],
) -> None:
    """Write a partition, whose vector index is built behind it."""
    table = chunk_table(partition_id)
    async with builds_held_off(connection, [partition_id]):
        for some in batched(wanted, _BATCH):
            rows: Iterator[list[Any]] = (corpus.row(name, partition_id, *pair) for pair in some)
            await connection.copy_records_to_table(table, records=rows, columns=_COLUMNS)
    await connection.execute(f"ANALYZE {table}")
    assert await build_vector_index(connection, partition_id, DIMENSIONS, 2**31)
    await connection.execute(f"VACUUM ANALYZE {table}")


async def _searched(
    service: SearchService, server: psutil.Process, asked: Sequence[tuple[str, datetime]]
) -> Mapping[str, float]:
    """Return the mean processor time of each kind of search, in milliseconds: the first time, when
    PostgreSQL plans its statements, and again."""
    taken: dict[str, float] = defaultdict(float)
    rounds = [*((each, ", first") for each in asked), *((each, "") for each in asked)]
    for (query, moment), suffix in rounds:
        for name, collection, as_of in (
            ("without a past", PLAIN, None),
            ("present", KEPT, None),
            ("past", KEPT, moment),
        ):
            request = pb.SearchRequest(query=query, collection_ids=[collection])
            request.options.retrieval.correct_spelling = False
            if as_of is not None:
                request.as_of.FromDatetime(as_of)
            before, begun = _seconds(server), time.process_time()
            response = await service.search(Caller(("*",)), request)
            assert response.passages
            assert not response.degraded
            own = time.process_time() - begun
            taken[name + suffix] += own + _seconds(server) - before
    return {name: 1000 * seconds / len(asked) for name, seconds in taken.items()}


def _seconds(server: psutil.Process) -> float:
    """Return the processor time of PostgreSQL's processes."""
    total = 0.0
    for child in server.children():
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


async def _recall(
    connection: "asyncpg.Connection[Any]",
    store: PostgresChunkStore,
    asked: Sequence[tuple[Vectors, datetime]],
) -> float:
    """Return the share of the nearest chunks of a time that the vector arm finds."""
    [present] = await store.collections([KEPT], ["*"])
    partitions = await connection.fetch("SELECT partition_id FROM past_partitions")
    tables = [present.partition_id, *(row["partition_id"] for row in partitions)]
    rows = " UNION ALL ".join(
        "SELECT chunk_id, embedding, coalesce(valid_from, update_time) AS begins, valid_to "
        f"FROM {chunk_table(one)}"
        for one in tables
    )
    exact = (
        f"SELECT chunk_id FROM ({rows}) c WHERE begins <= $2 AND (valid_to IS NULL OR valid_to > $2) "
        f"ORDER BY embedding <=> $1 LIMIT {NEAREST}"
    )
    found = 0
    for vector, moment in asked:
        nearest = {row[0] for row in await connection.fetch(exact, HalfVector(vector), moment)}
        hits = await store.semantic(
            await store.collections_as_of([present], moment, are_named=True),
            vector,
            limit=NEAREST,
            ef_search=None,
            iterative_scan=options_pb2.ITERATIVE_SCAN_RELAXED_ORDER,
            selection=Selection(["*"], as_of=moment),
        )
        found += len(nearest & {hit.chunk_id for each in hits.lists for hit in each})
    return found / (NEAREST * len(asked))
