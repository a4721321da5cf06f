"""Small collections share a partition; one that outgrows it gets its own, with nothing lost on the way."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import passage_pb2
from groundline_database import Pool, acquire, transaction
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import TextSegment
from groundline_indexing import partitions as postgres_partitions
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion
from groundline_indexing.partitions import chunk_table, move_collection
from groundline_indexing.preparation import identify
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.work import NewVersion
from groundline_lexical import LexicalIndex
from groundline_tests.ingestor.messages import a_collection

DIMENSIONS = 8
MAXIMUM = 6


@pytest.fixture(autouse=True)
def small_shared_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_partitions, "MAXIMUM_SHARED_CHUNKS", MAXIMUM)


async def created(stores: Stores, name: str, language: str = "english") -> StoredCollection:
    return await stores.collections.create(
        a_collection(name, dimensions=DIMENSIONS, lexical={"language": language}), "", ""
    )


async def found(stores: Stores, name: str) -> StoredCollection:
    collection = await stores.collections.find(name)
    assert collection is not None
    return collection


def version(uri: str, rows: int) -> NewVersion:
    text = f"An old mill of {uri} by the river."
    about = DocumentVersion(
        uri, passage_pb2.SOURCE_TYPE_FILE, uri, "text/plain", b"c", b"i", uri.encode(), len(text), {}, ()
    )
    chunks = [PreparedChunk(Section(text, 0, len(text)), "", text, b"")] * rows
    return NewVersion(about, chunks, np.ones((rows, DIMENSIONS), np.float16), [TextSegment(text)])


async def store(stores: Stores, collection: StoredCollection, uri: str, rows: int) -> str:
    [(document_id, _)] = await stores.versions.store(collection, [version(uri, rows)])
    return document_id


async def chunk_ids(pool: Pool, collection: StoredCollection) -> Sequence[int]:
    """Return chunks of a collection in the partition in which it was looked up."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            f"SELECT chunk_id FROM {chunk_table(collection.partition_id)} "
            "WHERE collection_id = $1 ORDER BY chunk_id",
            collection.collection_id,
        )
    return [row["chunk_id"] for row in rows]


async def test_collections_of_one_kind_share_a_partition_and_others_have_another(stores: Stores) -> None:
    first, second, german = [
        await created(stores, "first"),
        await created(stores, "second"),
        await created(stores, "german", language="german"),
    ]
    assert first.partition_id == second.partition_id != german.partition_id


async def test_many_that_are_created_at_once_make_one_partition(stores: Stores) -> None:
    made = await asyncio.gather(*(created(stores, f"c{number}", "french") for number in range(8)))
    assert len({collection.partition_id for collection in made}) == 1


async def test_a_collection_that_would_outgrow_it_moves_with_chunk_ids(stores: Stores, pool: Pool) -> None:
    grown, other = await created(stores, "grown"), await created(stores, "other")
    await store(stores, grown, "a", MAXIMUM)
    await store(stores, other, "b", 2)
    kept, others = await chunk_ids(pool, grown), await chunk_ids(pool, other)
    assert (await found(stores, "grown")).partition_id == grown.partition_id, "this number may stay"
    await store(stores, grown, "c", 1)
    moved = await found(stores, "grown")
    assert moved.partition_id != grown.partition_id
    assert (await chunk_ids(pool, moved))[:MAXIMUM] == kept
    assert len(await chunk_ids(pool, moved)) == MAXIMUM + 1
    assert await chunk_ids(pool, grown) == kept, "searches that have begun still find them"
    assert await chunk_ids(pool, other) == others
    assert (await found(stores, "other")).partition_id == other.partition_id


async def test_a_large_document_never_goes_through_the_shared_partition(stores: Stores, pool: Pool) -> None:
    collection = await created(stores, "large")
    await store(stores, collection, "a", MAXIMUM + 1)
    assert await chunk_ids(pool, collection) == []
    assert len(await chunk_ids(pool, await found(stores, "large"))) == MAXIMUM + 1


@pytest.mark.parametrize(("waiting", "is_moved"), [(MAXIMUM, False), (MAXIMUM + 1, True)])
async def test_a_collection_is_moved_at_once_where_twice_as_much_waits_as_may_stay(
    stores: Stores, waiting: int, is_moved: bool
) -> None:
    collection = await created(stores, "waiting")
    given = [GivenDocument(f"text {number}", uri=str(number)) for number in range(waiting)]
    await stores.jobs.enqueue(collection, [identify(one, collection) for one in given], (), "")
    await store(stores, collection, "a", 2)
    partition_id = (await found(stores, "waiting")).partition_id
    assert (partition_id != collection.partition_id) == is_moved


async def test_a_writer_that_looked_the_collection_up_before_the_move_writes_where_it_is(
    stores: Stores, pool: Pool
) -> None:
    before = await created(stores, "moving")
    await asyncio.gather(*(store(stores, before, f"d{number}", 4) for number in range(6)))
    assert len(await chunk_ids(pool, await found(stores, "moving"))) == 24
    assert await stores.versions.refresh(before, version("d1", 4).version, ()) is not None
    await store(stores, before, "d1", 3)
    assert len(await chunk_ids(pool, await found(stores, "moving"))) == 23


async def test_a_move_that_fails_changes_nothing(
    stores: Stores, pool: Pool, lexical: LexicalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = await created(stores, "unmoved")
    await store(stores, collection, "a", 3)

    async def fail(*_: object, **__: object) -> None:
        raise ConnectionError("the connection is lost")

    monkeypatch.setattr(postgres_partitions, "leave_partition", fail)
    with pytest.raises(Exception, match="cannot be reached"):
        await moved(pool, lexical, "unmoved")
    assert (await found(stores, "unmoved")).partition_id == collection.partition_id
    assert len(await chunk_ids(pool, collection)) == 3


async def moved(pool: Pool, lexical: LexicalIndex, name: str, grace_seconds: float = 60.0) -> None:
    async with transaction(pool) as connection:
        await move_collection(connection, lexical, name, grace_seconds)


async def test_several_moves_at_once_are_one(stores: Stores, pool: Pool, lexical: LexicalIndex) -> None:
    collection = await created(stores, "hurried")
    await store(stores, collection, "a", 3)
    await asyncio.gather(*(moved(pool, lexical, "hurried") for _ in range(4)))
    async with acquire(pool) as connection:
        partitions = await connection.fetchval(
            "SELECT count(*) FROM chunk_partitions WHERE collection_id = 'hurried'"
        )
    assert partitions == 1
    assert len(await chunk_ids(pool, await found(stores, "hurried"))) == 3


async def test_what_is_deleted_goes_from_both_partitions_and_nothing_else_does(
    stores: Stores, pool: Pool, lexical: LexicalIndex
) -> None:
    leaving, staying = await created(stores, "leaving"), await created(stores, "staying")
    document_id = await store(stores, leaving, "a", 2)
    await store(stores, leaving, "b", 1)
    await store(stores, staying, "a", 2)
    await moved(pool, lexical, "leaving")
    assert await stores.documents.delete(await found(stores, "leaving"), document_id)
    assert len(await chunk_ids(pool, leaving)) == 1
    await stores.collections.delete("leaving")
    assert await chunk_ids(pool, leaving) == []
    assert len(await chunk_ids(pool, staying)) == 2
    await stores.collections.delete("staying")
    assert await chunk_ids(pool, staying) == []


async def test_what_a_move_leaves_behind_goes_after_the_grace_time(
    stores: Stores, pool: Pool, lexical: LexicalIndex
) -> None:
    early, late = await created(stores, "early"), await created(stores, "late")
    await store(stores, early, "a", 2)
    await store(stores, late, "a", 2)
    await moved(pool, lexical, "early", 0)
    await moved(pool, lexical, "late", 60)
    await stores.reindex.settle(60)
    assert (await chunk_ids(pool, early), len(await chunk_ids(pool, late))) == ([], 2)
    assert len(await chunk_ids(pool, await found(stores, "early"))) == 2


async def test_figures_of_a_collection_are_its_own(stores: Stores) -> None:
    one, other = await created(stores, "one"), await created(stores, "other")
    await store(stores, one, "a", 2)
    await store(stores, other, "b", 4)
    figures = await stores.documents.stats(one, ())
    assert (figures.chunk_count, figures.vector_count, figures.orphan_count) == (2, 2, 0)
    assert figures.storage_bytes > 0
    assert figures.vector_index == pb.VECTOR_INDEX_STATE_NONE


async def test_a_reindex_leaves_the_shared_partition_to_the_others(stores: Stores, pool: Pool) -> None:
    rebuilt, other = await created(stores, "rebuilt"), await created(stores, "other")
    await store(stores, other, "b", 2)
    await stores.reindex.begin(rebuilt, rebuilt.settings, "")
    await stores.reindex.settle(0)
    assert (await found(stores, "rebuilt")).partition_id != rebuilt.partition_id
    assert (await found(stores, "other")).partition_id == other.partition_id
    assert len(await chunk_ids(pool, other)) == 2
