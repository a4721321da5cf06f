"""HNSW indexes come when they are worth it, whatever ends their builds, and stand in nobody's way."""

import asyncio
import uuid
from typing import Any

import numpy as np
import pytest
import structlog
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2, passage_pb2
from groundline_database import Connection, Pool, acquire, transaction
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import TextSegment
from groundline_indexing import partitions, vector_indexes
from groundline_indexing.builds import builds_held_off
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion, HandedIn
from groundline_indexing.partitions import chunk_table
from groundline_indexing.texts import PreparedChunk, Section
from groundline_indexing.vector_indexes import LEAST_ROWS, VectorIndexes, build_vector_index
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.work import NewVersion
from groundline_signatures import signature
from groundline_tests.ingestor.messages import a_collection

DIMENSIONS = 8
ROWS = 10
PATIENCE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def partitions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MAXIMUM_SHARED_CHUNKS", 0)


@pytest.fixture
def indexes(pool: Pool) -> VectorIndexes:
    return VectorIndexes(pool, least_rows=ROWS, most_rows=2 * ROWS)


async def filled(stores: Stores, rows: int, name: str = "docs") -> StoredCollection:
    """Create a collection of one document with a number of chunks."""
    collection = await stores.collections.create(a_collection(name, dimensions=DIMENSIONS), "", "")
    await stores.versions.store(collection, [version(f"{name}.txt", rows)])
    moved = await stores.collections.find(name)
    assert moved is not None
    return moved


def version(uri: str, rows: int) -> NewVersion:
    text = "An old mill by the river."
    about = DocumentVersion(
        uri, passage_pb2.SOURCE_TYPE_FILE, uri, "text/plain", b"c", b"i", uri.encode(), len(text), {}, ()
    )
    vectors = np.random.default_rng(1).normal(size=(rows, DIMENSIONS)).astype(np.float16)
    chunks = [PreparedChunk(Section(text, 0, len(text)), "", text, signature(text))] * rows
    return NewVersion(about, chunks, vectors, [TextSegment(text)])


async def hand_in(stores: Stores, collection: StoredCollection, uri: str) -> None:
    await stores.jobs.enqueue(
        collection, [HandedIn(GivenDocument("later", uri=uri), version(uri, 1).version)], (), ""
    )


async def index_states(pool: Pool, collection: StoredCollection) -> list[bool]:
    """Return whether each HNSW index of the partition is valid."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            """
            SELECT indisvalid FROM pg_index x JOIN pg_class k ON k.oid = x.indexrelid
            JOIN pg_am a ON a.oid = k.relam WHERE x.indrelid = $1::regclass AND a.amname = 'hnsw'
            """,
            chunk_table(collection.partition_id),
        )
    return [row["indisvalid"] for row in rows]


async def until_building(connection: Any, collection: StoredCollection) -> None:
    """Wait until a build has begun and waits for the transactions before it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await connection.fetchval(  # noqa: ASYNC110 - the server tells nobody
            "SELECT count(*) FROM pg_stat_progress_create_index WHERE relid = to_regclass($1) "
            "AND phase LIKE 'waiting%'",
            chunk_table(collection.partition_id),
        ):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("maximum_mib", "allowed_mib"),
    [
        pytest.param(0, 10, id="the server's own where there is no more"),
        pytest.param(20, 20, id="no more than the maximum"),
        pytest.param(1000, 30, id="no more than the rows need"),
    ],
)
async def test_a_build_takes_the_memory_that_it_may_and_needs(
    stores: Stores, pool: Pool, monkeypatch: pytest.MonkeyPatch, maximum_mib: int, allowed_mib: int
) -> None:
    mib = 1024**2
    monkeypatch.setattr(vector_indexes, "_ELEMENT_BYTES", 30 * mib // ROWS + 1024 // ROWS - 2 * DIMENSIONS)
    collection = await filled(stores, ROWS)
    async with acquire(pool) as connection:
        await connection.execute("SET maintenance_work_mem = '10MB'")
        with structlog.testing.capture_logs() as logs:
            assert await build_vector_index(
                connection, collection.partition_id, DIMENSIONS, maximum_mib * mib
            )
    [began] = [entry for entry in logs if entry["event"] == "vector_index_build_began"]
    assert began["allowed_bytes"] == allowed_mib * mib


async def test_a_build_cut_short_is_begun_again(stores: Stores, pool: Pool, indexes: VectorIndexes) -> None:
    collection = await filled(stores, ROWS)
    async with transaction(pool) as writer:
        await writer.execute(f"UPDATE {chunk_table(collection.partition_id)} SET metadata = '{{}}'")
        building = asyncio.create_task(indexes.build_due())
        async with acquire(pool) as other:
            await until_building(other, collection)
            await other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_progress_create_index")
        [ended] = await asyncio.gather(building, return_exceptions=True)
        assert isinstance(ended, Exception)
        assert await index_states(pool, collection) == [False]
        stats = await stores.documents.stats(collection, ())
        assert stats.vector_index == pb.VECTOR_INDEX_STATE_NONE
    assert await indexes.build_due() == [collection.partition_id]
    assert await index_states(pool, collection) == [True]
    assert await indexes.build_due() == []
    assert (await stores.documents.stats(collection, ())).vector_index == pb.VECTOR_INDEX_STATE_READY


async def test_a_build_that_fails_leaves_searches_alone_and_rests_before_it_is_tried_again(
    stores: Stores, pool: Pool, indexes: VectorIndexes
) -> None:
    collection = await filled(stores, ROWS)
    table = chunk_table(collection.partition_id)
    async with acquire(pool) as connection:
        # A relation in the way of the index.
        await connection.execute(f"CREATE TABLE {table}_embedding ()")
        assert await indexes.build_due() == []
        await connection.execute(f"DROP TABLE {table}_embedding")
    assert await indexes.build_due() == []
    # Another process has not seen it fail.
    assert await VectorIndexes(pool, least_rows=ROWS).build_due()


async def test_a_collection_is_deleted_while_its_index_is_built(
    stores: Stores, pool: Pool, indexes: VectorIndexes
) -> None:
    collection = await filled(stores, ROWS)
    async with transaction(pool) as reader:
        # A snapshot that the build waits for, but the deletion does not.
        await reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await reader.fetchval("SELECT count(*) FROM collections")
        async with acquire(pool) as writer:
            begun = writer.transaction()
            await begun.start()
            await writer.execute(f"DELETE FROM {chunk_table(collection.partition_id)} WHERE false")
            building = asyncio.create_task(indexes.build_due())
            async with acquire(pool) as other:
                await until_building(other, collection)
            deleting = asyncio.create_task(stores.collections.delete("docs"))
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await building == []
                await begun.rollback()
                assert await deleting
    async with acquire(pool) as connection:
        assert not await connection.fetchval("SELECT to_regclass($1)", chunk_table(collection.partition_id))
    assert await indexes.build_due() == []


async def test_of_two_deletions_of_a_partition_neither_is_cancelled(pool: Pool) -> None:
    partition_id = 4242
    async with acquire(pool) as first, acquire(pool) as second:
        async with builds_held_off(first, [partition_id]):
            waiting = asyncio.create_task(held_off_once(second, partition_id))
            await first.execute("SELECT pg_sleep(0.3)")  # what the other would cancel
            assert not waiting.done()
        await waiting


async def held_off_once(connection: Connection, partition_id: int) -> None:
    async with builds_held_off(connection, [partition_id]):
        pass


async def test_of_several_processes_one_builds(stores: Stores, pool: Pool) -> None:
    collection = await filled(stores, ROWS)
    replicas = [VectorIndexes(pool, least_rows=ROWS) for _ in range(3)]
    built = await asyncio.gather(*(replica.build_due() for replica in replicas))
    assert [one for some in built for one in some] == [collection.partition_id]
    assert await index_states(pool, collection) == [True]


async def test_too_few_rows_have_no_index(stores: Stores, pool: Pool, indexes: VectorIndexes) -> None:
    collection = await filled(stores, ROWS - 1)
    assert await indexes.build_due() == []
    assert await index_states(pool, collection) == []


async def test_what_is_still_loaded_is_indexed_only_when_it_is_large(
    stores: Stores, pool: Pool, indexes: VectorIndexes
) -> None:
    small, large = await filled(stores, ROWS, "small"), await filled(stores, 2 * ROWS, "large")
    for collection in (small, large):
        await hand_in(stores, collection, "later.txt")
    assert await indexes.build_due() == [large.partition_id]
    [job] = await stores.jobs.list_readable((), collection_id="small", before=None, limit=10)
    await stores.jobs.cancel(job.job_id)
    assert await indexes.build_due() == [small.partition_id]
    # Writes go on with it.
    [stored] = await stores.versions.store(small, [version("more.txt", 3)])
    assert stored[1] == job_pb2.INGESTION_OUTCOME_CREATED


async def test_a_reindexed_partition_has_its_index_before_it_is_searched(stores: Stores, pool: Pool) -> None:
    collection = await filled(stores, LEAST_ROWS)
    await stores.reindex.begin(collection, collection.settings, "")
    [item] = await stores.queue.lease(str(uuid.uuid4()), models=["model"], limit=10, seconds=60)
    assert item.target is not None
    text = await stores.reindex.text("docs", item.document_id)
    assert text is not None
    await stores.reindex.store(item, text.version_number, version("docs.txt", LEAST_ROWS))
    assert await stores.reindex.settle(0) == [], "it waits for the index"
    assert item.target.partition_id in await stores.vector_indexes.build_due()
    assert len(await stores.reindex.settle(0)) == 1
    swapped = await stores.collections.find("docs")
    assert swapped is not None
    assert swapped.partition_id == item.target.partition_id
    assert await index_states(pool, swapped) == [True]


async def test_new_partitions_keep_vectors_in_their_rows(stores: Stores, pool: Pool) -> None:
    collection = await filled(stores, 1)
    async with acquire(pool) as connection:
        storage = await connection.fetchval(
            "SELECT attstorage FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'embedding'",
            chunk_table(collection.partition_id),
        )
    assert storage == b"m"


async def test_an_index_that_is_there_under_another_name_is_not_built_twice(
    stores: Stores, pool: Pool, indexes: VectorIndexes
) -> None:
    collection = await filled(stores, ROWS)
    table = chunk_table(collection.partition_id)
    async with acquire(pool) as connection:
        await connection.execute(
            f"CREATE INDEX other ON {table} "
            f"USING hnsw ((embedding::halfvec({DIMENSIONS})) halfvec_cosine_ops)"
        )
    assert await indexes.build_due() == []


async def test_an_index_of_another_kind_takes_the_place_of_the_one_in_use(
    stores: Stores, pool: Pool, indexes: VectorIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = await filled(stores, ROWS)
    assert await indexes.build_due() == [collection.partition_id]
    await quantize(stores, True)
    assert await indexes.build_due() == [collection.partition_id]
    assert await operators(pool, collection) == ["bit_hamming_ops", "halfvec_cosine_ops"]
    assert await indexes.build_due() == []
    assert await operators(pool, collection) == ["bit_hamming_ops", "halfvec_cosine_ops"], "searches use it"
    monkeypatch.setattr(vector_indexes, "REPLACED_SECONDS", 0.0)
    assert await indexes.build_due() == []
    assert await operators(pool, collection) == ["bit_hamming_ops"]
    assert (await stores.documents.stats(collection, ())).vector_index == pb.VECTOR_INDEX_STATE_READY
    await quantize(stores, False)
    assert await indexes.build_due() == [collection.partition_id]
    assert await indexes.build_due() == []
    assert await operators(pool, collection) == ["halfvec_cosine_ops"]


async def test_vectors_that_their_bits_do_not_tell_apart_are_indexed_as_they_are(
    stores: Stores, pool: Pool, indexes: VectorIndexes
) -> None:
    collection = await filled(stores, LEAST_ROWS)
    await quantize(stores, True)
    with structlog.testing.capture_logs() as logs:
        assert await indexes.build_due() == [collection.partition_id]
        assert await indexes.build_due() == []
    [refused] = [entry for entry in logs if entry["event"] == "vector_index_not_quantized"]
    assert refused["found"] < 0.98, "24 bits of 8 dimensions are few"
    assert await operators(pool, collection) == ["halfvec_cosine_ops"]
    stats = await stores.documents.stats(collection, ())
    assert stats.vector_index == pb.VECTOR_INDEX_STATE_NOT_QUANTIZED
    await quantize(stores, False)
    assert (await stores.documents.stats(collection, ())).vector_index == pb.VECTOR_INDEX_STATE_READY


async def quantize(stores: Stores, quantized: bool) -> None:
    found = await stores.collections.find("docs")
    assert found is not None
    found.message.settings.vector_index.quantized = quantized
    assert await stores.collections.update(found.message)


async def operators(pool: Pool, collection: StoredCollection) -> list[str]:
    """Return the operator classes of the partition's HNSW indexes."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            """
            SELECT o.opcname FROM pg_index x JOIN pg_opclass o ON o.oid = x.indclass[0]
            JOIN pg_am a ON a.oid = o.opcmethod
            WHERE x.indrelid = $1::regclass AND a.amname = 'hnsw' AND x.indisvalid ORDER BY 1
            """,
            chunk_table(collection.partition_id),
        )
    return [row["opcname"] for row in rows]
