"""A search index outside PostgreSQL is fed with what changes in chunks: nothing is lost, nothing doubled."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from groundline.v1 import passage_pb2
from groundline_database import Pool, acquire, transaction
from groundline_extraction.texts import TextSegment
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion
from groundline_indexing.feed.changes import FedPartition
from groundline_indexing.feed.feeding import BATCH, Comparison, Feeding, compare
from groundline_indexing.feed.state import MAX_ATTEMPTS, IndexFeed, is_feed_behind
from groundline_indexing.partitions import chunk_table, move_collection
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.work import NewVersion
from groundline_lexical import LexicalIndex
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_tests.ingestor.messages import a_collection
from groundline_tests.ingestor.search_index import MemoryIndex

DIMENSIONS = 8


@pytest.fixture
async def feed(pool: Pool, stores: Stores) -> AsyncIterator[IndexFeed]:
    feed = IndexFeed(pool)
    yield feed
    await feed.end()


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex()


@pytest.fixture
def feeding(feed: IndexFeed, index: MemoryIndex) -> Feeding:
    return Feeding(feed, index)


async def created(stores: Stores, name: str) -> StoredCollection:
    return await stores.collections.create(a_collection(name, dimensions=DIMENSIONS), "", "")


def version(uri: str, rows: int, **changes: Any) -> DocumentVersion:
    values: dict[str, Any] = {"metadata": {}, "allowed_principals": (), **changes}
    return DocumentVersion(
        uri,
        passage_pb2.SOURCE_TYPE_FILE,
        uri,
        "text/plain",
        b"c",
        b"i",
        f"{uri} {rows}".encode(),
        10,
        **values,
    )


async def store(stores: Stores, collection: StoredCollection, uri: str, rows: int) -> str:
    text = f"An old mill of {uri} by the river."
    chunks = [PreparedChunk(Section(text, 0, len(text)), "", text, b"")] * rows
    new = NewVersion(version(uri, rows), chunks, np.ones((rows, DIMENSIONS), np.float16), [TextSegment(text)])
    [(document_id, _)] = await stores.versions.store(collection, [new])
    return document_id


async def chunk_ids(pool: Pool, partition_id: int) -> Sequence[int]:
    async with acquire(pool) as connection:
        rows = await connection.fetch(f"SELECT chunk_id FROM {chunk_table(partition_id)} ORDER BY chunk_id")
    return [row["chunk_id"] for row in rows]


async def count_changes(pool: Pool) -> int:
    async with acquire(pool) as connection:
        count: int = await connection.fetchval("SELECT count(*) FROM search_index_changes")
    return count


async def drain(feeding: Feeding) -> None:
    """Deliver changes until none is left; each batch takes part of them away."""
    while await feeding.round():
        pass


async def totals(feed: IndexFeed, index: MemoryIndex, partition_id: int) -> Comparison:
    partition = FedPartition(partition_id, "test/contract", DIMENSIONS)
    return [counts async for counts in compare(feed, index, partition)][-1]


async def test_nothing_is_recorded_while_no_index_is_fed(stores: Stores, pool: Pool) -> None:
    collection = await created(stores, "mills")

    await store(stores, collection, "a.txt", 3)
    await store(stores, collection, "a.txt", 2)

    assert await count_changes(pool) == 0


async def test_nothing_is_recorded_any_more_when_feeding_has_ended(
    stores: Stores, feed: IndexFeed, feeding: Feeding, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await feeding.round()
    await store(stores, collection, "a.txt", 3)
    assert await count_changes(pool) == 3

    await feed.end()
    await store(stores, collection, "b.txt", 3)

    assert await count_changes(pool) == 0
    assert await feed.partitions() == []


async def test_an_index_is_filled_with_what_was_there_before(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", BATCH + 44)

    await feeding.round()
    [halfway] = await feed.partitions()
    await drain(feeding)

    [filled] = await feed.partitions()
    assert (halfway.is_filled, halfway.filled_count) == (False, BATCH)
    assert (filled.is_filled, filled.filled_count, filled.pending_count) == (True, BATCH + 44, 0)
    assert index.ids(collection.partition_id) == await chunk_ids(pool, collection.partition_id)


async def test_what_is_stored_replaced_and_deleted_is_so_in_the_index(
    stores: Stores, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await drain(feeding)
    await store(stores, collection, "a.txt", 5)
    document_id = await store(stores, collection, "b.txt", 4)
    await drain(feeding)
    assert index.ids(collection.partition_id) == await chunk_ids(pool, collection.partition_id)

    await store(stores, collection, "a.txt", 2)
    await stores.documents.delete(collection, document_id)
    await drain(feeding)

    assert index.ids(collection.partition_id) == await chunk_ids(pool, collection.partition_id)
    assert len(index.ids(collection.partition_id)) == 2
    assert await count_changes(pool) == 0


async def test_changed_principals_reach_the_index_without_other_chunks(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 2)
    await drain(feeding)
    before, index.written = dict(index.objects), []

    await stores.versions.refresh(collection, version("a.txt", 2, allowed_principals=("group:millers",)), ())
    await drain(feeding)

    assert index.objects.keys() == before.keys()
    assert all(index.objects[key] != before[key] for key in before)
    assert len(index.written) == 2
    assert (await totals(feed, index, collection.partition_id)).repaired == 0


async def test_a_transaction_that_is_rolled_back_records_nothing(
    stores: Stores, feeding: Feeding, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 2)
    await drain(feeding)

    async with acquire(pool) as connection:
        rolled_back = connection.transaction()
        await rolled_back.start()
        await connection.execute(f"DELETE FROM {chunk_table(collection.partition_id)}")
        await rolled_back.rollback()

    assert await count_changes(pool) == 0


async def test_a_deleted_collection_is_deleted_in_the_index(
    stores: Stores,
    feed: IndexFeed,
    feeding: Feeding,
    index: MemoryIndex,
    pool: Pool,
    lexical: LexicalIndex,
) -> None:
    small, large = await created(stores, "small"), await created(stores, "large")
    await store(stores, small, "a.txt", 3)
    await store(stores, large, "a.txt", 3)
    async with transaction(pool) as connection:
        await move_collection(connection, lexical, "large", 0.0)
    await drain(feeding)
    moved = await stores.collections.find("large")
    assert moved is not None
    assert len(index.ids(moved.partition_id)) == 3

    await stores.collections.delete("small")
    await stores.collections.delete("large")
    await drain(feeding)

    assert index.objects == {}
    assert [state.partition.partition_id for state in await feed.partitions()] == [small.partition_id]


async def test_what_a_move_leaves_behind_does_not_take_the_moved_chunks_along(
    stores: Stores, feeding: Feeding, index: MemoryIndex, pool: Pool, lexical: LexicalIndex
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 3)
    await drain(feeding)
    async with transaction(pool) as connection:
        await move_collection(connection, lexical, "mills", 0.0)
    await drain(feeding)
    moved = await stores.collections.find("mills")
    assert moved is not None
    assert len(index.objects) == 6

    await stores.reindex.settle(0.0)  # drops what was left
    await drain(feeding)

    assert index.ids(collection.partition_id) == []
    assert index.ids(moved.partition_id) == await chunk_ids(pool, moved.partition_id)


async def test_while_the_index_is_out_of_reach_changes_wait(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await drain(feeding)
    index.is_reachable = False

    await store(stores, collection, "a.txt", 4)
    with pytest.raises(UnavailableError):
        await feeding.round()
    waiting = await feed.state()
    async with acquire(pool) as connection:
        behind = await is_feed_behind(connection, collection.partition_id)
    index.is_reachable = True
    await drain(feeding)

    assert (waiting.pending_count, waiting.set_aside_count, behind) == (4, 0, True)
    assert waiting.behind_seconds > 0
    assert len(index.ids(collection.partition_id)) == 4
    async with acquire(pool) as connection:
        assert not await is_feed_behind(connection, collection.partition_id)


async def test_a_chunk_that_is_refused_keeps_no_other_out_and_is_set_aside_at_last(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await drain(feeding)
    await store(stores, collection, "a.txt", 3)
    refused = (await chunk_ids(pool, collection.partition_id))[1]
    index.refused = {refused: "the vector is not a number"}

    for _ in range(MAX_ATTEMPTS):
        await drain(feeding)
        async with acquire(pool) as connection:  # the pause is over
            await connection.execute(
                "UPDATE search_index_changes SET available_time = '-infinity' "
                "WHERE available_time < 'infinity'"
            )
    await drain(feeding)

    state = await feed.state()
    assert (state.pending_count, state.set_aside_count) == (0, 1)
    assert len(index.ids(collection.partition_id)) == 2
    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT failure FROM search_index_changes") == (
            "the vector is not a number"
        )
        # It is missing, and said to be; a re-index does not wait for it.
        assert await connection.fetchval("SELECT behind_since FROM search_index_coverage") is not None
        assert not await is_feed_behind(connection, collection.partition_id)

    index.refused = {}
    assert await feed.retry() == 1
    await drain(feeding)
    assert len(index.ids(collection.partition_id)) == 3
    assert await count_changes(pool) == 0


async def test_a_chunk_for_which_whole_calls_are_refused_keeps_no_other_out(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await drain(feeding)
    await store(stores, collection, "a.txt", 3)
    first, *others = await chunk_ids(pool, collection.partition_id)
    index.fatal = {first}

    await feeding.round()

    assert index.ids(collection.partition_id) == others
    assert (await feed.state()).pending_count == 1


async def test_an_index_that_refuses_everything_charges_no_chunk(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await drain(feeding)
    await store(stores, collection, "a.txt", 3)
    index.fatal = set(await chunk_ids(pool, collection.partition_id))

    with pytest.raises(FailedPreconditionError):
        await feeding.round()

    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT max(attempts) FROM search_index_changes") == 0


async def test_a_chunk_that_was_refused_is_done_when_a_later_change_of_it_is_taken_in(
    stores: Stores, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await drain(feeding)
    await store(stores, collection, "a.txt", 1)
    index.refused = dict.fromkeys(await chunk_ids(pool, collection.partition_id), "no")
    await drain(feeding)
    assert await count_changes(pool) == 1

    index.refused = {}
    await stores.versions.refresh(collection, version("a.txt", 1, metadata={"year": 1848}), ())
    await drain(feeding)

    assert await count_changes(pool) == 0


async def test_of_two_processes_one_feeds_a_partition(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 3)
    await feed.begin()
    [(partition, _)] = await feed.due()

    async with feed.hold(partition) as held:
        assert held is not None
        assert not await feeding.round()
        async with feed.hold(partition) as second:
            assert second is None
    await drain(feeding)

    assert len(index.written) == 3


async def test_two_processes_at_once_write_no_chunk_twice(
    stores: Stores, feed: IndexFeed, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    replicas = [Feeding(feed, index), Feeding(feed, index)]
    await drain(replicas[0])
    for number in range(6):
        await store(stores, collection, f"{number}.txt", 100)

    await asyncio.gather(*(drain(replica) for replica in replicas))
    await drain(replicas[0])

    assert sorted(index.written) == await chunk_ids(pool, collection.partition_id)


async def test_what_a_collection_brings_into_a_partition_of_its_own_is_taken_once(
    stores: Stores,
    feed: IndexFeed,
    feeding: Feeding,
    index: MemoryIndex,
    pool: Pool,
    lexical: LexicalIndex,
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 50)
    await drain(feeding)
    index.written = []

    async with transaction(pool) as connection:
        await move_collection(connection, lexical, "mills", grace_seconds=0)
    moved = await stores.collections.find("mills")
    assert moved
    assert await count_changes(pool) == 50
    await drain(feeding)

    assert sorted(index.written) == await chunk_ids(pool, moved.partition_id)
    assert (await totals(feed, index, moved.partition_id)).repaired == 0


async def test_what_is_stored_and_deleted_while_an_index_is_filled_is_taken_once(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", BATCH + 44)
    last = await store(stores, collection, "b.txt", 5)
    await feeding.round()
    [halfway] = await feed.partitions()
    assert not halfway.is_filled

    await store(stores, collection, "c.txt", 7)
    await stores.documents.delete(collection, last)
    await drain(feeding)

    assert sorted(index.written) == await chunk_ids(pool, collection.partition_id)
    assert (await totals(feed, index, collection.partition_id)).repaired == 0


async def test_a_fill_that_an_earlier_release_began_is_ended(
    stores: Stores, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 5)
    await drain(feeding)
    index.objects.clear()

    async with acquire(pool) as connection:
        await connection.execute("UPDATE search_index_partitions SET fill_position = 0")
    await drain(feeding)

    assert index.ids(collection.partition_id) == await chunk_ids(pool, collection.partition_id)


async def test_a_rebuild_fills_what_an_index_has_lost(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 5)
    await drain(feeding)
    index.objects.clear()

    await feed.refill([collection.partition_id])
    [before] = await feed.partitions("mills")
    await drain(feeding)

    assert not before.is_filled
    assert index.ids(collection.partition_id) == await chunk_ids(pool, collection.partition_id)


async def test_comparing_finds_and_mends_what_is_missing_different_and_surplus(
    stores: Stores, feed: IndexFeed, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 5)
    await drain(feeding)
    whole = dict(index.objects)
    first, second, *_ = index.ids(collection.partition_id)
    del index.objects[collection.partition_id, first]
    index.objects[collection.partition_id, second] = "of another state"
    index.objects[collection.partition_id, 10**9] = "of no chunk"

    assert await totals(feed, index, collection.partition_id) == Comparison(5, 1, 1, 1)
    await drain(feeding)

    assert index.objects == whole
    assert await totals(feed, index, collection.partition_id) == Comparison(5, 0, 0, 0)


async def test_a_partition_that_an_earlier_release_makes_is_fed_as_well(
    stores: Stores, feeding: Feeding, index: MemoryIndex, pool: Pool
) -> None:
    await feeding.round()
    # What it would do is the same: it knows nothing of the index.
    collection = await created(stores, "mills")
    await store(stores, collection, "a.txt", 2)

    await drain(feeding)

    assert index.ids(collection.partition_id) == await chunk_ids(pool, collection.partition_id)


async def test_a_reindex_is_swapped_in_when_the_index_has_its_partition(
    stores: Stores, feeding: Feeding
) -> None:
    collection = await created(stores, "mills")
    await drain(feeding)

    job_id = await stores.reindex.begin(collection, collection.settings, "")
    before = await stores.reindex.settle(0.0)
    await drain(feeding)
    after = await stores.reindex.settle(0.0)

    assert (before, after) == ([], [job_id])
