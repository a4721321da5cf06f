"""A search index outside PostgreSQL is fed with what changes in chunks: nothing is lost, nothing doubled."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
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


def version(uri: str, rows: int, **changes: Any) -> DocumentVersion:
    values: dict[str, Any] = {"metadata": {}, "allowed_principals": (), **changes}
    kind, content = passage_pb2.SOURCE_TYPE_FILE, f"{uri} {rows}".encode()
    return DocumentVersion(uri, kind, uri, "text/plain", b"c", b"i", content, 10, **values)


@dataclass(frozen=True, slots=True)
class Mills:
    """A collection, and an index that is fed with its chunks."""

    stores: Stores
    pool: Pool
    collection: StoredCollection
    feed: IndexFeed
    index: MemoryIndex
    feeding: Feeding

    async def store(self, uri: str, rows: int, collection: StoredCollection | None = None) -> str:
        collection = collection or self.collection
        text = f"An old mill of {uri} by the river."
        chunks = [PreparedChunk(Section(text, 0, len(text)), "", text, b"")] * rows
        vectors = np.ones((rows, collection.settings.embedding.dimensions), np.float16)
        new = NewVersion(version(uri, rows), chunks, vectors, [TextSegment(text)])
        [(document_id, _)] = await self.stores.versions.store(collection, [new])
        return document_id

    async def drain(self) -> None:
        """Deliver changes until none is left; each batch takes part of them away."""
        while await self.feeding.round():
            pass

    async def chunk_ids(self, partition_id: int = 0) -> Sequence[int]:
        table = chunk_table(partition_id or self.collection.partition_id)
        async with acquire(self.pool) as connection:
            rows = await connection.fetch(f"SELECT chunk_id FROM {table} ORDER BY chunk_id")
        return [row["chunk_id"] for row in rows]

    def indexed(self, partition_id: int = 0) -> Sequence[int]:
        return self.index.ids(partition_id or self.collection.partition_id)

    async def count_changes(self) -> int:
        async with acquire(self.pool) as connection:
            count: int = await connection.fetchval("SELECT count(*) FROM search_index_changes")
        return count

    async def compared(self, partition_id: int = 0) -> Comparison:
        partition = FedPartition(partition_id or self.collection.partition_id, "test/contract", DIMENSIONS)
        return [counts async for counts in compare(self.feed, self.index, partition)][-1]

    async def move(self, lexical: LexicalIndex) -> int:
        """Give the collection a partition of its own; return its number."""
        async with transaction(self.pool) as connection:
            await move_collection(connection, lexical, "mills", 0.0)
        moved = await self.stores.collections.find("mills")
        assert moved is not None
        return moved.partition_id


async def created(stores: Stores, name: str, dimensions: int = DIMENSIONS) -> StoredCollection:
    return await stores.collections.create(a_collection(name, dimensions=dimensions), "", "")


@pytest.fixture
async def mills(pool: Pool, stores: Stores) -> AsyncIterator[Mills]:
    feed, index = IndexFeed(pool), MemoryIndex()
    yield Mills(stores, pool, await created(stores, "mills"), feed, index, Feeding(feed, index))
    await feed.end()


async def test_nothing_is_recorded_while_no_index_is_fed(mills: Mills) -> None:
    await mills.store("a.txt", 3)
    await mills.store("a.txt", 2)

    assert await mills.count_changes() == 0


async def test_nothing_is_recorded_any_more_when_feeding_has_ended(mills: Mills) -> None:
    await mills.feeding.round()
    await mills.store("a.txt", 3)
    assert await mills.count_changes() == 3

    await mills.feed.end()
    await mills.store("b.txt", 3)

    assert await mills.count_changes() == 0
    assert await mills.feed.partitions() == []


async def test_an_index_is_filled_with_what_was_there_before(mills: Mills) -> None:
    await mills.store("a.txt", BATCH + 44)

    await mills.feeding.round()
    [halfway] = await mills.feed.partitions()
    await mills.drain()

    [filled] = await mills.feed.partitions()
    assert (halfway.is_filled, halfway.filled_count) == (False, BATCH)
    assert (filled.is_filled, filled.filled_count, filled.pending_count) == (True, BATCH + 44, 0)
    assert mills.indexed() == await mills.chunk_ids()


async def test_what_is_stored_replaced_and_deleted_is_so_in_the_index(mills: Mills) -> None:
    await mills.drain()
    await mills.store("a.txt", 5)
    document_id = await mills.store("b.txt", 4)
    await mills.drain()
    assert mills.indexed() == await mills.chunk_ids()

    await mills.store("a.txt", 2)
    await mills.stores.documents.delete(mills.collection, document_id)
    await mills.drain()

    assert mills.indexed() == await mills.chunk_ids()
    assert len(mills.indexed()) == 2
    assert await mills.count_changes() == 0


async def test_changed_principals_reach_the_index_without_other_chunks(mills: Mills) -> None:
    await mills.store("a.txt", 2)
    await mills.drain()
    before, mills.index.written = dict(mills.index.objects), []

    await mills.stores.versions.refresh(
        mills.collection, version("a.txt", 2, allowed_principals=("group:millers",)), ()
    )
    await mills.drain()

    assert mills.index.objects.keys() == before.keys()
    assert all(mills.index.objects[key] != before[key] for key in before)
    assert len(mills.index.written) == 2
    assert (await mills.compared()).repaired == 0


async def test_a_transaction_that_is_rolled_back_records_nothing(mills: Mills) -> None:
    await mills.store("a.txt", 2)
    await mills.drain()

    async with acquire(mills.pool) as connection:
        rolled_back = connection.transaction()
        await rolled_back.start()
        await connection.execute(f"DELETE FROM {chunk_table(mills.collection.partition_id)}")
        await rolled_back.rollback()

    assert await mills.count_changes() == 0


async def test_a_deleted_collection_is_deleted_in_the_index(mills: Mills, lexical: LexicalIndex) -> None:
    small = await created(mills.stores, "small")
    await mills.store("a.txt", 3, small)
    await mills.store("a.txt", 3)
    moved = await mills.move(lexical)
    await mills.drain()
    assert len(mills.indexed(moved)) == 3

    await mills.stores.collections.delete("small")
    await mills.stores.collections.delete("mills")
    await mills.drain()

    assert mills.index.objects == {}
    assert [state.partition.partition_id for state in await mills.feed.partitions()] == [small.partition_id]


async def test_what_a_move_leaves_does_not_take_the_moved_along(mills: Mills, lexical: LexicalIndex) -> None:
    await mills.store("a.txt", 3)
    await mills.drain()
    moved = await mills.move(lexical)
    await mills.drain()
    assert len(mills.index.objects) == 6

    await mills.stores.reindex.settle(0.0)  # drops what was left
    await mills.drain()

    assert mills.indexed() == []
    assert mills.indexed(moved) == await mills.chunk_ids(moved)


async def test_while_the_index_is_out_of_reach_changes_wait(mills: Mills) -> None:
    await mills.drain()
    mills.index.is_reachable = False

    await mills.store("a.txt", 4)
    with pytest.raises(UnavailableError):
        await mills.feeding.round()
    waiting = await mills.feed.state()
    async with acquire(mills.pool) as connection:
        behind = await is_feed_behind(connection, mills.collection.partition_id)
    mills.index.is_reachable = True
    await mills.drain()

    assert (waiting.pending_count, waiting.set_aside_count, behind) == (4, 0, True)
    assert waiting.behind_seconds > 0
    assert len(mills.indexed()) == 4
    async with acquire(mills.pool) as connection:
        assert not await is_feed_behind(connection, mills.collection.partition_id)


async def test_a_chunk_that_is_refused_keeps_no_other_out_and_is_set_aside_at_last(mills: Mills) -> None:
    await mills.drain()
    await mills.store("a.txt", 3)
    refused = (await mills.chunk_ids())[1]
    mills.index.refused = {refused: "the vector is not a number"}

    for _ in range(MAX_ATTEMPTS):
        await mills.drain()
        async with acquire(mills.pool) as connection:  # the pause is over
            await connection.execute(
                "UPDATE search_index_changes SET available_time = '-infinity' "
                "WHERE available_time < 'infinity'"
            )
    await mills.drain()

    state = await mills.feed.state()
    assert (state.pending_count, state.set_aside_count) == (0, 1)
    assert len(mills.indexed()) == 2
    async with acquire(mills.pool) as connection:
        assert await connection.fetchval("SELECT failure FROM search_index_changes") == (
            "the vector is not a number"
        )
        # It is missing, and said to be; a re-index does not wait for it.
        assert await connection.fetchval("SELECT behind_since FROM search_index_coverage") is not None
        assert not await is_feed_behind(connection, mills.collection.partition_id)

    mills.index.refused = {}
    assert await mills.feed.retry() == 1
    await mills.drain()
    assert len(mills.indexed()) == 3
    assert await mills.count_changes() == 0


async def test_a_chunk_for_which_whole_calls_are_refused_keeps_no_other_out(mills: Mills) -> None:
    await mills.drain()
    await mills.store("a.txt", 3)
    first, *others = await mills.chunk_ids()
    mills.index.fatal = {first}

    await mills.feeding.round()

    assert mills.indexed() == others
    assert (await mills.feed.state()).pending_count == 1


async def test_an_index_that_refuses_everything_charges_no_chunk(mills: Mills) -> None:
    await mills.drain()
    await mills.store("a.txt", 3)
    mills.index.fatal = set(await mills.chunk_ids())

    with pytest.raises(FailedPreconditionError):
        await mills.feeding.round()

    async with acquire(mills.pool) as connection:
        assert await connection.fetchval("SELECT max(attempts) FROM search_index_changes") == 0


async def test_a_chunk_that_was_refused_is_done_when_a_later_change_of_it_is_taken_in(mills: Mills) -> None:
    await mills.drain()
    await mills.store("a.txt", 1)
    mills.index.refused = dict.fromkeys(await mills.chunk_ids(), "no")
    await mills.drain()
    assert await mills.count_changes() == 1

    mills.index.refused = {}
    await mills.stores.versions.refresh(mills.collection, version("a.txt", 1, metadata={"year": 1848}), ())
    await mills.drain()

    assert await mills.count_changes() == 0


async def test_of_two_processes_one_feeds_a_partition(mills: Mills) -> None:
    await mills.store("a.txt", 3)
    await mills.feed.begin()
    [(partition, _)] = await mills.feed.due()

    async with mills.feed.hold(partition) as held:
        assert held is not None
        assert not await mills.feeding.round()
        async with mills.feed.hold(partition) as second:
            assert second is None
    await mills.drain()

    assert len(mills.index.written) == 3


async def test_two_processes_at_once_write_no_chunk_twice(mills: Mills) -> None:
    replica = replace(mills, feeding=Feeding(mills.feed, mills.index))
    await mills.drain()
    for number in range(6):
        await mills.store(f"{number}.txt", 100)

    await asyncio.gather(mills.drain(), replica.drain())
    await mills.drain()

    assert sorted(mills.index.written) == await mills.chunk_ids()


async def test_what_a_collection_brings_into_a_partition_of_its_own_is_taken_once(
    mills: Mills, lexical: LexicalIndex
) -> None:
    await mills.store("a.txt", 50)
    await mills.drain()
    mills.index.written = []

    moved = await mills.move(lexical)
    assert await mills.count_changes() == 50
    await mills.drain()

    assert sorted(mills.index.written) == await mills.chunk_ids(moved)
    assert (await mills.compared(moved)).repaired == 0


async def test_what_is_stored_and_deleted_while_an_index_is_filled_is_taken_once(mills: Mills) -> None:
    await mills.store("a.txt", BATCH + 44)
    last = await mills.store("b.txt", 5)
    await mills.feeding.round()
    [halfway] = await mills.feed.partitions()
    assert not halfway.is_filled

    await mills.store("c.txt", 7)
    await mills.stores.documents.delete(mills.collection, last)
    await mills.drain()

    assert sorted(mills.index.written) == await mills.chunk_ids()
    assert (await mills.compared()).repaired == 0


async def test_a_fill_that_an_earlier_release_began_is_ended(mills: Mills) -> None:
    await mills.store("a.txt", 5)
    await mills.drain()
    mills.index.objects.clear()

    async with acquire(mills.pool) as connection:
        await connection.execute("UPDATE search_index_partitions SET fill_position = 0")
    await mills.drain()

    assert mills.indexed() == await mills.chunk_ids()


async def test_a_rebuild_fills_what_an_index_has_lost(mills: Mills) -> None:
    await mills.store("a.txt", 5)
    await mills.drain()
    mills.index.objects.clear()

    await mills.feed.refill([mills.collection.partition_id])
    [before] = await mills.feed.partitions("mills")
    await mills.drain()

    assert not before.is_filled
    assert mills.indexed() == await mills.chunk_ids()


async def test_comparing_finds_and_mends_what_is_missing_different_and_surplus(mills: Mills) -> None:
    await mills.store("a.txt", 5)
    await mills.drain()
    whole = dict(mills.index.objects)
    first, second, *_ = mills.indexed()
    del mills.index.objects[mills.collection.partition_id, first]
    mills.index.objects[mills.collection.partition_id, second] = "of another state"
    mills.index.objects[mills.collection.partition_id, 10**9] = "of no chunk"

    assert await mills.compared() == Comparison(5, 1, 1, 1)
    await mills.drain()

    assert mills.index.objects == whole
    assert await mills.compared() == Comparison(5, 0, 0, 0)


async def test_a_reindex_is_swapped_in_when_the_index_has_its_partition(mills: Mills) -> None:
    await mills.drain()

    job_id = await mills.stores.reindex.begin(mills.collection, mills.collection.settings, "")
    before = await mills.stores.reindex.settle(0.0)
    await mills.drain()
    after = await mills.stores.reindex.settle(0.0)

    assert (before, after) == ([], [job_id])


async def test_a_partition_that_an_earlier_release_makes_is_fed_as_well(mills: Mills) -> None:
    await mills.drain()
    # An earlier release makes the same partition, since it knows nothing of the index.
    late = await created(mills.stores, "late", DIMENSIONS + 1)
    await mills.store("a.txt", 2, late)

    await mills.drain()

    assert len(mills.indexed(late.partition_id)) == 2
    assert mills.indexed(late.partition_id) == await mills.chunk_ids(late.partition_id)
