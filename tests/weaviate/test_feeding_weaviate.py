"""Feeding real nodes of Weaviate: what is fed, relays that are killed, an engine that is gone."""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from groundline.v1 import passage_pb2
from groundline_database import DatabaseSettings, Pool, acquire, open_pool, register_vectors
from groundline_extraction.texts import TextSegment
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion
from groundline_indexing.feed.changes import FedPartition, IndexWriter
from groundline_indexing.feed.feeding import Comparison, Feeding, compare
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.feed.weaviate import WeaviateIndex
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.adapters.postgres.stores import Stores, stores_on
from groundline_ingestor.domain.work import NewVersion
from groundline_lexical import detect_lexical_index
from groundline_runtime.errors import UnavailableError
from groundline_tests.ingestor.messages import a_collection
from groundline_tests.ingestor.search_index import IndexWriterContract, a_chunk, a_partition
from groundline_tests.weaviate.nodes import Cluster
from groundline_weaviate import Space, WeaviateSettings, open_weaviate
from pydantic import SecretStr

MODEL, DIMENSIONS = "test/contract", 8


@pytest.fixture
def settings(one_node: Cluster) -> WeaviateSettings:
    """Settings with classes of the test's own."""
    return one_node.settings(f"Feed{uuid.uuid4().hex[:8]}")


@pytest.fixture
async def index(settings: WeaviateSettings) -> AsyncIterator[IndexWriter]:
    async with open_weaviate(settings) as weaviate:
        yield WeaviateIndex(weaviate)


class TestWeaviateIndex(IndexWriterContract):
    """Contract that MemoryIndex keeps as well."""

    async def test_an_object_that_is_refused_keeps_no_other_of_its_batch_out(
        self, index: IndexWriter
    ) -> None:
        partition = a_partition(20)
        await index.write(partition, [a_chunk(partition, 1)])
        short = a_chunk(partition, 2, vector=a_chunk(partition, 2).vector[:3])

        refused = await index.write(partition, [short, a_chunk(partition, 3)])

        assert list(refused) == [2]
        assert [chunk_id for chunk_id, _ in await self.entries(index, partition)] == [1, 3]


@pytest.fixture(scope="module")
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(
        DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=6), init=register_vectors
    ) as pool:
        yield pool


@pytest.fixture
async def stores(pool: Pool) -> AsyncIterator[Stores]:
    async with acquire(pool) as connection:
        stores = stores_on(pool, await detect_lexical_index(connection))
    yield stores
    await stores.collections.delete("mills")


@pytest.fixture
async def collection(stores: Stores) -> StoredCollection:
    return await stores.collections.create(a_collection("mills", model=MODEL, dimensions=DIMENSIONS), "", "")


@pytest.fixture
async def feed(pool: Pool, collection: StoredCollection) -> AsyncIterator[IndexFeed]:
    feed = IndexFeed(pool)
    yield feed
    await feed.end()


@pytest.fixture
def feeding(feed: IndexFeed, index: IndexWriter) -> Feeding:
    return Feeding(feed, index)


async def store(stores: Stores, collection: StoredCollection, uri: str, rows: int) -> None:
    text = f"An old mill of {uri} by the river."
    kind = passage_pb2.SOURCE_TYPE_FILE
    version = DocumentVersion(uri, kind, uri, "text/plain", b"c", b"i", uri.encode(), len(text), {}, ())
    chunks = [PreparedChunk(Section(text, 0, len(text)), "", text, b"")] * rows
    vectors = np.ones((rows, DIMENSIONS), np.float16)
    await stores.versions.store(collection, [NewVersion(version, chunks, vectors, [TextSegment(text)])])


async def drain(feeding: Feeding) -> None:
    while await feeding.round():
        pass


async def compared(feed: IndexFeed, index: IndexWriter, collection: StoredCollection) -> Sequence[Comparison]:
    partition = FedPartition(collection.partition_id, MODEL, DIMENSIONS)
    return [counts async for counts in compare(feed, index, partition)]


@asynccontextmanager
async def stuck_feeder(database_url: str, settings: WeaviateSettings, stage: str) -> AsyncIterator[None]:
    """Run another replica, and kill it with -9 where it stopped."""
    values = settings.model_dump(mode="json")
    assert settings.api_key is not None
    values["api_key"] = settings.api_key.get_secret_value()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("feeder_process.py")),
        database_url,
        json.dumps(values),
        stage,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while (line := await process.stdout.readline()).decode().strip() != stage:
                assert line, f"it ended before it was {stage}"
        yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("stage", ["writing", "written", "deleting", "deleted"])
async def test_a_process_that_is_killed_while_it_feeds_loses_and_doubles_nothing(
    stage: str,
    database_url: str,
    settings: WeaviateSettings,
    stores: Stores,
    collection: StoredCollection,
    feed: IndexFeed,
    feeding: Feeding,
    index: IndexWriter,
) -> None:
    await drain(feeding)
    await store(stores, collection, "a.txt", 20)
    await store(stores, collection, "b.txt", 20)
    if stage.startswith("delet"):
        await drain(feeding)
    await store(stores, collection, "a.txt", 15)  # in place of the 20

    async with stuck_feeder(database_url, settings, stage):
        assert not await feeding.round(), "the other one has the partition"
    # PostgreSQL gives the partition back when it notices that the other one is gone.
    async with asyncio.timeout(60):
        while (await feed.state()).pending_count:
            await drain(feeding)

    assert (await compared(feed, index, collection))[-1] == Comparison(compared=35)


async def test_ingestion_goes_on_without_the_engine_and_the_index_catches_up_when_it_is_back(
    one_node: Cluster,
    stores: Stores,
    collection: StoredCollection,
    feed: IndexFeed,
    feeding: Feeding,
    index: IndexWriter,
) -> None:
    await store(stores, collection, "a.txt", 20)
    await drain(feeding)
    [node] = one_node.nodes
    async with node.killed():
        await store(stores, collection, "b.txt", 20)
        with pytest.raises(UnavailableError):
            await feeding.round()
        waiting = await feed.state()
    await drain(feeding)

    assert (waiting.pending_count, waiting.set_aside_count) == (20, 0)
    assert (await compared(feed, index, collection))[-1] == Comparison(compared=40)


async def test_a_class_that_somebody_dropped_is_made_again_as_it_was(
    settings: WeaviateSettings,
    stores: Stores,
    collection: StoredCollection,
    feed: IndexFeed,
    feeding: Feeding,
    index: IndexWriter,
) -> None:
    await store(stores, collection, "a.txt", 20)
    await drain(feeding)
    async with open_weaviate(settings) as weaviate:
        await weaviate.drop(Space(MODEL, DIMENSIONS))
        await store(stores, collection, "b.txt", 20)
        with pytest.raises(UnavailableError, match="does not know its classes"):
            await feeding.round()
        await drain(feeding)
        await feed.refill([collection.partition_id])
        await drain(feeding)

    assert (await compared(feed, index, collection))[-1] == Comparison(compared=40)


async def test_an_index_that_lost_everything_is_rebuilt(
    settings: WeaviateSettings,
    stores: Stores,
    collection: StoredCollection,
    feed: IndexFeed,
    feeding: Feeding,
    index: IndexWriter,
) -> None:
    await store(stores, collection, "a.txt", 20)
    await drain(feeding)
    await index.delete_partition(FedPartition(collection.partition_id, MODEL, DIMENSIONS))
    assert (await compared(feed, index, collection))[-1] == Comparison(compared=20, missing=20)

    await feed.refill([collection.partition_id])
    await drain(feeding)

    assert (await compared(feed, index, collection))[-1] == Comparison(compared=20)


async def test_a_class_that_grew_is_rebuilt_as_one_of_more_shards_under_another_prefix(
    feeding: Feeding,
    feed: IndexFeed,
    settings: WeaviateSettings,
    stores: Stores,
    collection: StoredCollection,
) -> None:
    await store(stores, collection, "grist", 5)
    await drain(feeding)
    larger = settings.model_copy(update={"class_prefix": f"{settings.class_prefix}More", "shards": 3})
    async with open_weaviate(larger) as weaviate:
        index = WeaviateIndex(weaviate)
        await feed.refill([collection.partition_id])
        await drain(Feeding(feed, index))
        assert (await compared(feed, index, collection))[-1] == Comparison(compared=5)


async def test_the_command_rebuilds_repairs_and_shows_the_index(
    database_url: str,
    settings: WeaviateSettings,
    stores: Stores,
    collection: StoredCollection,
    feed: IndexFeed,
    feeding: Feeding,
    index: IndexWriter,
) -> None:
    async def command(*arguments: str) -> tuple[int | None, str]:
        assert settings.api_key is not None
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "groundline_ingestor", "index", *arguments),
            env={
                **os.environ,
                "GROUNDLINE_DATABASE_URL": database_url,
                "GROUNDLINE_WEAVIATE__HTTP_URL": str(settings.http_url),
                "GROUNDLINE_WEAVIATE__GRPC_TARGET": settings.grpc_target,
                "GROUNDLINE_WEAVIATE__API_KEY": settings.api_key.get_secret_value(),
                "GROUNDLINE_WEAVIATE__CLASS_PREFIX": settings.class_prefix,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        return process.returncode, said.decode()

    not_fed = await command("status")
    await store(stores, collection, "a.txt", 20)
    await drain(feeding)
    partition = FedPartition(collection.partition_id, MODEL, DIMENSIONS)
    await index.delete(
        partition, [chunk_id for chunk_id, _ in await index.entries(partition, after=0, limit=3)]
    )
    unknown = await command("rebuild", "--collection", "mils")
    verified = await command("verify")
    rebuilt = await command("rebuild", "--collection", "mills")
    shown = await command("status")
    stopped = await command("stop")

    assert not_fed[0] == 1
    assert "no index is fed yet" in not_fed[1]
    assert unknown[0] == 1
    assert "no collection 'mils'" in unknown[1]
    assert verified[0] == rebuilt[0] == shown[0] == stopped[0] == 0
    assert "20 chunks compared: 3 missing, 0 different, 0 surplus" in verified[1]
    assert "20 of 20 chunks" in rebuilt[1]
    [_, row] = shown[1].splitlines()
    assert row.split() == [
        str(collection.partition_id),
        "(shared)",
        *row.split()[2:3],
        "all",
        "0",
        "0",
        "0",
        "s",
    ]
    assert await feed.partitions() == []
    assert (await compared(feed, index, collection))[-1] == Comparison(compared=20)
