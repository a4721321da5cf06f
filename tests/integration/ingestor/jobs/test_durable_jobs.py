"""Jobs that survive: killed workers, cancelled and deleted work, failures, changes, re-indexing."""

import asyncio

import pytest
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_indexing.collections import StoredCollection
from groundline_indexing.hashes import content_hash
from groundline_ingestor.__main__ import working
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_tests.ingestor.workers import ANYBODY, LONG, Ingestor, chunks_of, ingestor_on, stuck_worker


@pytest.mark.parametrize("stage", ["leased", "embedding", "counting", "storing"])
async def test_another_worker_finishes_what_a_killed_one_began(
    pool: Pool, database_url: str, idle: Ingestor, collection: StoredCollection, stage: str
) -> None:
    given = [GivenDocument(LONG, uri="long.md"), *(GivenDocument(f"text {n}", uri=f"{n}") for n in range(5))]
    job = await idle.hand_in(collection.collection_id, *given)
    async with acquire(pool) as connection, connection.transaction():
        if stage == "storing":  # waits for this lock, with its chunks written
            await connection.execute("LOCK TABLE document_texts IN ACCESS EXCLUSIVE MODE")
        async with stuck_worker(database_url, stage):
            pass
    async with working(idle.worker, idle.settings):
        job, items = await idle.ended(job)
    assert (job.state, job.done_count) == (job_pb2.JOB_STATE_DONE, 6)
    assert items[0].attempts == 2
    for item in items:
        counts = item.chunks
        assert counts.parsed == counts.contextualized == counts.embedded == counts.stored > 0
    stored = await chunks_of(pool, collection.collection_id)
    assert len(stored) == job.chunks.stored
    assert len({(uri, index) for uri, index, _ in stored}) == len(stored)


async def test_a_database_whose_clock_was_set_back_holds_up_nothing(
    pool: Pool, database_url: str, idle: Ingestor, collection: StoredCollection
) -> None:
    """As it sees them, all moments that it has noted are an hour later then."""
    given = [GivenDocument(f"text {n}", uri=f"{n}") for n in range(100)]
    job = await idle.hand_in(collection.collection_id, *given)
    async with stuck_worker(database_url, "leased"):
        await pool.execute(
            """
            UPDATE ingestion_items SET available_time = available_time + interval '1 hour',
                lease_until = lease_until + interval '1 hour'
            WHERE job_id = $1::uuid
            """,
            job.job_id,
        )
    async with working(idle.worker, idle.settings):
        job, _ = await idle.ended(job)
    assert (job.state, job.done_count) == (job_pb2.JOB_STATE_DONE, 100)


async def test_a_worker_that_is_slow_keeps_its_lease(
    pool: Pool, database_url: str, busy: Ingestor, collection: StoredCollection
) -> None:
    busy.embedder.may_go_on.clear()
    job = await busy.hand_in(collection.collection_id, GivenDocument("text", uri="a"))
    await busy.embedder.reached.wait()
    async with ingestor_on(busy.stores, database_url) as other, working(other.worker, other.settings):
        await asyncio.sleep(1.6)  # longer than a lease: nothing else shows that it was extended
        busy.embedder.may_go_on.set()
        _, [item] = await busy.ended(job)
    assert item.attempts == 1
    assert not other.embedder.texts


async def test_a_worker_that_ends_gives_back_what_it_holds(
    pool: Pool, idle: Ingestor, collection: StoredCollection
) -> None:
    idle.embedder.may_go_on.clear()
    job = await idle.hand_in(collection.collection_id, GivenDocument("text", uri="a"))
    async with working(idle.worker, idle.settings):
        await idle.embedder.reached.wait()
    [item] = await idle.stores.jobs.items(job.job_id, None, after=-1, limit=1)
    assert (item.state, item.attempts) == (document_pb2.INGESTION_STATE_QUEUED, 0)


async def test_the_later_hand_in_stays(pool: Pool, busy: Ingestor, collection: StoredCollection) -> None:
    jobs = [
        await busy.hand_in(collection.collection_id, GivenDocument(f"version {number}", uri="same"))
        for number in range(5)
    ]
    for job in jobs:
        await busy.ended(job)
    assert await chunks_of(pool, collection.collection_id) == [("same", 0, "version 4")]


async def test_an_unchanged_document_costs_nothing_and_a_changed_one_only_what_changed(
    busy: Ingestor, collection: StoredCollection
) -> None:
    [first] = await busy.ingest(collection.collection_id, GivenDocument(LONG, uri="a.md"))
    assert len(busy.embedder.texts) == first.chunks.stored > 5
    busy.embedder.texts.clear()
    [again] = await busy.ingest(collection.collection_id, GivenDocument(LONG, uri="a.md"))
    assert (again.outcome, again.chunks.stored) == (job_pb2.INGESTION_OUTCOME_UNCHANGED, 0)
    [changed] = await busy.ingest(collection.collection_id, GivenDocument(LONG + "\n\nMore.", uri="a.md"))
    assert changed.outcome == job_pb2.INGESTION_OUTCOME_UPDATED
    assert 1 <= len(busy.embedder.texts) <= 2


async def test_vectors_outlive_the_process(
    pool: Pool, database_url: str, busy: Ingestor, collection: StoredCollection
) -> None:
    await busy.ingest(collection.collection_id, GivenDocument("words of wisdom", uri="a"))
    [text] = busy.embedder.texts
    async with ingestor_on(busy.stores, database_url) as other:
        known = await other.stores.embeddings.get(other.embedder.model, [content_hash(text)])
        assert len(known) == 1
        assert not await other.stores.embeddings.get("another model", [content_hash(text)])
        assert await other.stores.embeddings.discard(3600, 1000) == 0
        assert await other.stores.embeddings.discard(0, 1) == 1


async def test_no_cancelled_job_goes_on(pool: Pool, busy: Ingestor, collection: StoredCollection) -> None:
    busy.embedder.may_go_on.clear()
    job = await busy.hand_in(
        collection.collection_id, *(GivenDocument(f"text {n}", uri=str(n)) for n in range(30))
    )
    await busy.embedder.reached.wait()
    cancelled = await busy.jobs.cancel(ANYBODY, job.job_id)
    busy.embedder.may_go_on.set()
    assert (cancelled.state, cancelled.cancelled_count) == (job_pb2.JOB_STATE_CANCELLED, 30)
    # Work handed in later goes past the workers that still hold the cancelled items.
    await busy.ingest(collection.collection_id, GivenDocument("later", uri="later"))
    assert await chunks_of(pool, collection.collection_id) == [("later", 0, "later")]
    again = await busy.jobs.retry(ANYBODY, job.job_id)
    assert again.state != job_pb2.JOB_STATE_CANCELLED
    done, _ = await busy.ended(again)
    assert (done.state, done.done_count) == (job_pb2.JOB_STATE_DONE, 30)


async def test_a_document_deleted_while_it_is_worked_on_stays_away(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
    busy.embedder.may_go_on.clear()
    job = await busy.hand_in(collection.collection_id, GivenDocument("secret", uri="a"))
    await busy.embedder.reached.wait()
    [item] = await busy.stores.jobs.items(job.job_id, None, after=-1, limit=1)
    assert item.document_id
    await busy.documents.delete(ANYBODY, collection.collection_id, item.document_id)
    busy.embedder.may_go_on.set()
    job, _ = await busy.ended(job)
    assert job.state == job_pb2.JOB_STATE_CANCELLED
    await busy.ingest(collection.collection_id, GivenDocument("other", uri="b"))
    assert await chunks_of(pool, collection.collection_id) == [("b", 0, "other")]
    async with acquire(pool) as connection:
        assert not await connection.fetchval("SELECT count(*) FROM ingestion_payloads")


async def test_documents_deleted_by_a_filter_while_they_wait_stay_away(
    pool: Pool, busy: Ingestor, idle: Ingestor, collection: StoredCollection
) -> None:
    busy.embedder.may_go_on.clear()
    given = [GivenDocument(f"text {n}", uri=f"{n}", metadata={"year": 2000 + n}) for n in range(4)]
    job = await busy.hand_in(collection.collection_id, *given)
    await busy.embedder.reached.wait()
    request = pb.DeleteDocumentsRequest(collection_id=collection.collection_id)
    request.filter.update({"year": {"$gte": 2001}})
    deleted = await busy.documents.delete_selected(ANYBODY, request)
    busy.embedder.may_go_on.set()
    job, _ = await busy.ended(job)
    assert deleted == 3
    assert (job.done_count, job.cancelled_count) == (1, 3)
    assert await chunks_of(pool, collection.collection_id) == [("0", 0, "text 0")]


async def test_what_may_pass_is_tried_again_else_fails(busy: Ingestor, collection: StoredCollection) -> None:
    busy.embedder.failures = [UnavailableError("MODEL_BUSY", "busy", retry_after_seconds=0.1)]
    [item] = await busy.ingest(collection.collection_id, GivenDocument("text", uri="a"))
    assert (item.state, item.attempts) == (document_pb2.INGESTION_STATE_DONE, 2)
    busy.embedder.failures = [ValueError("broken")]
    job = await busy.hand_in(collection.collection_id, GivenDocument("new text", uri="a"))
    job, [item] = await busy.ended(job)
    assert (job.state, item.state) == (job_pb2.JOB_STATE_FAILED, document_pb2.INGESTION_STATE_FAILED)
    assert (item.failure.stage, item.failure.reason) == (
        document_pb2.INGESTION_STATE_EMBEDDING,
        error_pb2.INTERNAL,
    )
    document = await busy.stores.documents.find(collection.collection_id, item.document_id or "")
    assert document
    assert (document.state, document.chunk_count) == (document_pb2.INGESTION_STATE_FAILED, 1)
    _, [item] = await busy.ended(await busy.jobs.retry(ANYBODY, job.job_id))
    assert item.outcome == job_pb2.INGESTION_OUTCOME_UPDATED
    with pytest.raises(FailedPreconditionError) as raised:
        await busy.jobs.retry(ANYBODY, job.job_id)
    assert raised.value.reason == "NOTHING_TO_RETRY"


async def test_stats_agree_with_what_was_ingested(busy: Ingestor, collection: StoredCollection) -> None:
    items = await busy.ingest(
        collection.collection_id, GivenDocument(LONG, uri="a"), GivenDocument("", uri="b")
    )
    stats = await busy.documents.stats(ANYBODY, collection.collection_id)
    assert {one.state: one.document_count for one in stats.states} == {
        document_pb2.INGESTION_STATE_DONE: 1,
        document_pb2.INGESTION_STATE_FAILED: 1,
    }
    assert stats.chunk_count == stats.vector_count == items[0].chunks.stored
    assert (stats.orphan_count, stats.document_bytes) == (0, len(LONG))
    assert stats.token_count > 0
    assert stats.storage_bytes > stats.text_bytes > 0


async def test_tokens_count_for_texts_the_model_read(busy: Ingestor, collection: StoredCollection) -> None:
    """The same text under another uri comes from the cache and costs nothing."""
    words = "Every word of it is read by the model once."
    [first] = await busy.ingest(collection.collection_id, GivenDocument(words, uri="a", title="t"))
    [again] = await busy.ingest(
        collection.collection_id, GivenDocument(f"{words} {words}", uri="a", title="t")
    )
    [same] = await busy.ingest(collection.collection_id, GivenDocument(words, uri="a", title="t"))
    count = len(words.split())
    assert first.usage.embedding_tokens >= count
    assert again.usage.embedding_tokens == first.usage.embedding_tokens + count
    assert same.outcome == job_pb2.INGESTION_OUTCOME_UPDATED
    assert same.usage.embedding_tokens == 0
