"""Locks: deletions of collections and changes of their jobs and sources do not lock each other out."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from groundline.v1 import source_pb2
from groundline_database import Connection, Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import HandedIn
from groundline_indexing.partitions import chunk_table
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_tests.ingestor.messages import a_collection, a_version

SOURCE_ID = "00000000-0000-4000-8000-000000000001"
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@pytest.fixture
async def collection(stores: Stores) -> StoredCollection:
    return await stores.collections.create(a_collection("locked"), "", "")


async def queued_job(stores: Stores, collection: StoredCollection) -> str:
    version = a_version("a.md", "1")
    handed_in = HandedIn(GivenDocument("a", uri="a.md"), version)
    return (await stores.jobs.enqueue(collection, [handed_in], (), "")).job_id


async def created_source(stores: Stores) -> None:
    source = source_pb2.DocumentSource(source_id=SOURCE_ID, collection_id="locked", name="site")
    source.web.start_url = "https://site.test/"
    await stores.sources.create(source, ())


async def something_waits(connection: Connection) -> None:
    async with asyncio.timeout(20):
        while not await connection.fetchval(WAITING):  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.01)


async def test_a_deletion_that_the_server_ends_for_a_worker_is_tried_again(
    pool: Pool, stores: Stores, collection: StoredCollection
) -> None:
    job_id = await queued_job(stores, collection)
    async with acquire(pool) as looking, acquire(pool) as worker, worker.transaction():
        await worker.execute("SELECT FROM ingestion_items WHERE job_id = $1::uuid FOR UPDATE", job_id)
        deletion = asyncio.create_task(stores.collections.delete("locked"))
        await something_waits(looking)
        # Who has waited for a second looks for a deadlock and is ended: the deletion, well before the worker.
        await asyncio.sleep(0.2)
        await worker.execute("SELECT FROM ingestion_jobs WHERE job_id = $1::uuid FOR UPDATE", job_id)
        assert not deletion.done()
    assert await deletion
    assert await stores.collections.find("locked") is None


async def cancels(stores: Stores, job_id: str) -> None:
    await stores.jobs.cancel(job_id)


async def retries(stores: Stores, job_id: str) -> None:
    await stores.jobs.retry(job_id)


@pytest.mark.parametrize("change", [cancels, retries])
async def test_a_job_is_changed_when_its_collection_is_free(
    pool: Pool, stores: Stores, collection: StoredCollection, change: Callable[[Stores, str], Awaitable[None]]
) -> None:
    job_id = await queued_job(stores, collection)
    async with acquire(pool) as deleting, acquire(pool) as looking:
        async with deleting.transaction():
            await deleting.execute("SELECT FROM collections WHERE collection_id = 'locked' FOR UPDATE")
            changing = asyncio.ensure_future(change(stores, job_id))
            await something_waits(looking)
            await deleting.execute(
                "SELECT FROM ingestion_items WHERE job_id = $1::uuid FOR UPDATE NOWAIT", job_id
            )
        await changing


async def test_a_source_is_changed_when_its_collection_is_free(
    pool: Pool, stores: Stores, collection: StoredCollection
) -> None:
    await created_source(stores)
    before = await stores.sources.find("locked", SOURCE_ID)
    assert before is not None
    after = source_pb2.DocumentSource()
    after.CopyFrom(before.message)
    after.name = "renamed"
    async with acquire(pool) as deleting, acquire(pool) as looking:
        async with deleting.transaction():
            await deleting.execute("SELECT FROM collections WHERE collection_id = 'locked' FOR UPDATE")
            changing = asyncio.create_task(stores.sources.update(before, after, None))
            await something_waits(looking)
            await deleting.execute("SELECT FROM sources FOR UPDATE NOWAIT")
        assert await changing


async def test_a_source_that_is_due_waits_until_its_collection_is_free(
    pool: Pool, stores: Stores, collection: StoredCollection
) -> None:
    await created_source(stores)
    async with acquire(pool) as deleting, deleting.transaction():
        await deleting.execute("SELECT FROM collections WHERE collection_id = 'locked' FOR UPDATE")
        assert await stores.sources.enqueue_due() == []
    assert len(await stores.sources.enqueue_due()) == 1


async def test_a_reindex_waits_for_the_lock(pool: Pool, stores: Stores, collection: StoredCollection) -> None:
    job_id = await stores.reindex.begin(collection, collection.settings, "")
    async with acquire(pool) as deleting, acquire(pool) as looking:
        partition_id = await looking.fetchval("SELECT partition_id FROM ingestion_jobs")
        async with deleting.transaction():
            await deleting.execute("SELECT FROM collections WHERE collection_id = 'locked' FOR UPDATE")
            settling = asyncio.create_task(stores.reindex.settle(60))
            await something_waits(looking)
            await deleting.execute("SELECT FROM ingestion_jobs FOR UPDATE NOWAIT")
            await deleting.execute(f"LOCK TABLE {chunk_table(partition_id)} NOWAIT")
        assert await settling == [job_id]
