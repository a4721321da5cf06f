"""Delay of a distributed index behind PostgreSQL, and the cost of recording changes for it."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from groundline_database import (
    DatabaseSettings,
    Pool,
    acquire,
    listening,
    open_pool,
    register_vectors,
    transaction,
)
from groundline_indexing.collections import StoredCollection
from groundline_indexing.feed.feeding import Feeding
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.feed.weaviate import WeaviateIndex
from groundline_indexing.partitions import chunk_table, move_collection
from groundline_ingestor.adapters.postgres.stores import Stores, stores_on
from groundline_ingestor.domain.work import NewVersion
from groundline_ingestor.migrate import migrate
from groundline_ingestor.settings import MigrationSettings
from groundline_lexical import LexicalIndex, detect_lexical_index
from groundline_weaviate import Extent, Space, Weaviate, WeaviateSettings, condition_of, open_weaviate
from pydantic import SecretStr

from groundline_benchmarks.ingest.corpus import CHUNKS_PER_DOCUMENT, GivenVectors, documents
from groundline_benchmarks.ingest.storing import create_collection, seconds_of, store
from groundline_benchmarks.measuring.databases import database_server
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.suite import working_directory

POLL_SECONDS: Final = 0.01
FOUND_AMONG: Final = 50
PATIENCE_SECONDS: Final = 3600.0

OTHER_MODEL: Final = "given, other"
"""Model of a collection whose objects are to have a class of their own."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Amounts to measure with."""

    chunks: int
    documents: int
    """Documents that are stored one after the other, each looked for until it is found."""


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str


async def measure(
    sizes: Sizes, weaviate: WeaviateSettings, data_dir: Path | None, database_url: str | None, report: Report
) -> list[Figure]:
    """Feed a running engine from a new database, into a class that is dropped afterwards."""
    settings = weaviate.model_copy(update={"class_prefix": f"Bench{uuid.uuid4().hex[:8]}"})
    with working_directory(data_dir) as directory:
        async with (
            database_server(database_url, directory) as databases,
            databases() as url,
            open_weaviate(settings) as client,
        ):
            database = MigrationSettings(database_url=SecretStr(url), pool_max_size=10)
            await migrate(database)
            try:
                return await _measure(sizes, database, client, report)
            finally:
                for model in (GivenVectors.model, OTHER_MODEL):
                    await client.drop(Space(model, GivenVectors.dimensions))


async def _measure(
    sizes: Sizes, settings: DatabaseSettings, weaviate: Weaviate, report: Report
) -> list[Figure]:
    embedder = GivenVectors()
    async with open_pool(settings, init=register_vectors) as pool:
        async with acquire(pool) as connection:
            lexical = await detect_lexical_index(connection)
        stores = stores_on(pool, lexical)
        feed = IndexFeed(pool)
        feeding = Feeding(feed, WeaviateIndex(weaviate))

        report(f"storing {sizes.chunks} chunks without a feed")
        first = await _collection(pool, stores, lexical, "first", GivenVectors.model)
        # There from the start, so that what is stored in them later is a change.
        second = await _collection(pool, stores, lexical, "second", OTHER_MODEL)
        third = await _collection(pool, stores, lexical, "third", GivenVectors.model)
        rows = documents(sizes.chunks, embedder, seed=1, prefix="first")
        without = await seconds_of(lambda: store(stores, first, rows))
        report("filling the index with them")
        fill = await _drain(feeding)
        report("writing the same objects by the client alone")
        floor = await _floor(feed, weaviate)
        # Not before the fill has ended: it would take them once more.
        report("storing as many with a feed")
        recorded = await seconds_of(lambda: store(stores, second, rows))
        report("taking them to the index as changes")
        changes = await _drain(feeding)
        more = documents(sizes.chunks, embedder, seed=3, prefix="third")
        await store(stores, third, more)
        report("taking as many to where the index has some already")
        later_changes = await _drain(feeding)

        report(f"storing {sizes.documents} documents and looking for each")
        async with _running(feeding, settings):
            seconds = [
                await _seconds_until_found(stores, first, new, weaviate, pool)
                for new in documents(sizes.documents * CHUNKS_PER_DOCUMENT, embedder, seed=2, prefix="more")
            ]
        return [
            Figure("stored without a feed", sizes.chunks / without, "chunks/s"),
            Figure("stored with changes recorded", sizes.chunks / recorded, "chunks/s"),
            Figure("written by the client alone, all in one", sizes.chunks / floor, "chunks/s"),
            Figure("taken to the index as a fill", sizes.chunks / fill.seconds, "chunks/s"),
            Figure("taken to the index as changes", sizes.chunks / changes.seconds, "chunks/s"),
            Figure(
                "the same, where the index has as many already",
                sizes.chunks / later_changes.seconds,
                "chunks/s",
            ),
            # The engine's and PostgreSQL's processor time is not in it.
            Figure(
                "all three by the feeder's processor time",
                3 * sizes.chunks / sum(one.processor_seconds for one in (fill, changes, later_changes)),
                "chunks/s",
            ),
            Figure("committed to found, median", float(np.percentile(seconds, 50)), "s"),
            Figure("committed to found, p95", float(np.percentile(seconds, 95)), "s"),
        ]


async def _collection(
    pool: Pool, stores: Stores, lexical: LexicalIndex, name: str, model: str
) -> StoredCollection:
    """Create an empty collection in a partition of its own, so that no chunk is moved while it is stored."""
    await create_collection(stores, name, model, {})
    async with transaction(pool) as connection:
        await move_collection(connection, lexical, name)
    found = await stores.collections.find(name)
    assert found is not None, "nobody deletes it"
    return found


@dataclass(frozen=True, slots=True)
class _Took:
    seconds: float
    processor_seconds: float
    """Processor time of this process, in seconds."""


async def _drain(feeding: Feeding) -> _Took:
    """Bring all changes to the index."""
    begun, begun_processor = time.perf_counter(), time.process_time()
    while await feeding.round():
        pass
    return _Took(time.perf_counter() - begun, time.process_time() - begun_processor)


async def _floor(feed: IndexFeed, weaviate: Weaviate) -> float:
    """Return the seconds that the engine takes for all its objects, which are ready, in a class of their own.
    The time includes no reading or recording, and only one wait, for the vectors at the end, as the feed
    does."""
    [state] = await feed.partitions("first")
    chunks = await feed.chunks(state.partition, after=0, limit=state.filled_count)
    for chunk in chunks:
        _ = chunk.words  # stemmed once, before the clock runs
    space = Space("floor", state.partition.dimensions)
    await weaviate.create(space)
    try:
        begun = time.perf_counter()
        await weaviate.write(space, chunks)
        return time.perf_counter() - begun
    finally:
        await weaviate.drop(space)


async def _seconds_until_found(
    stores: Stores, collection: StoredCollection, new: NewVersion, weaviate: Weaviate, pool: Pool
) -> float:
    """Measure from the commit of a document until the index proposes its last chunk, by the chunk's own
    vector."""
    [(document_id, _)] = await stores.versions.store(collection, [new])
    begun = time.perf_counter()
    async with acquire(pool) as connection:
        wanted = await connection.fetchval(
            f"SELECT max(chunk_id) FROM {chunk_table(collection.partition_id)} "  # noqa: S608 - a number
            "WHERE document_id = $1::uuid",
            document_id,
        )
    space = Space(GivenVectors.model, GivenVectors.dimensions)
    condition = condition_of(Extent([collection.partition_id]), [], None)
    *_, last = new.vectors
    vector = last.astype(np.float32)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            proposed = await weaviate.semantic(space, vector, condition, limit=FOUND_AMONG)
            if any(proposal.chunk_id == wanted for proposal in proposed):
                return time.perf_counter() - begun
            await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _running(feeding: Feeding, settings: DatabaseSettings) -> AsyncIterator[None]:
    task = asyncio.create_task(feeding.run())
    try:
        async with listening(settings, "groundline_search_index", feeding.wake):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
