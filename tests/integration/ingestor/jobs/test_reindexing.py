import asyncio
from collections.abc import AsyncIterator

import pytest
from groundline.v1 import collection_pb2, document_pb2, job_pb2
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_indexing.collections import StoredCollection
from groundline_indexing.partitions import chunk_table
from groundline_ingestor.__main__ import working
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_runtime.errors import FailedPreconditionError
from groundline_signatures import signature
from groundline_tests.ingestor.workers import (
    ANYBODY,
    LONG,
    SMALLER_CHUNKS,
    Ingestor,
    chunks_of,
    ingestor_on,
    searching,
)


async def test_a_reindex_loses_no_write_and_swaps_at_once(
    pool: Pool, database_url: str, busy: Ingestor, collection: StoredCollection
) -> None:
    ingested = await busy.ingest(
        collection.collection_id,
        *(GivenDocument(LONG.replace("own", f"own {n}"), uri=f"{n}.md") for n in range(4)),
    )
    before = await chunks_of(pool, collection.collection_id)
    busy.embedder.may_go_on.clear()
    busy.embedder.reached.clear()
    change = SMALLER_CHUNKS
    job = await busy.reindexing(collection.collection_id, change, "once")
    assert (await busy.reindexing(collection.collection_id, change, "once")).job_id == job.job_id
    with pytest.raises(FailedPreconditionError):
        await busy.reindexing(collection.collection_id, change)
    await busy.embedder.reached.wait()
    # Meanwhile: queries see the old chunks, a document goes, one changes, one comes.
    assert await chunks_of(pool, collection.collection_id) == before
    await busy.documents.delete(ANYBODY, collection.collection_id, ingested[0].document_id)
    async with ingestor_on(busy.stores, database_url) as other, working(other.worker, other.settings):
        writes = await other.hand_in(
            collection.collection_id, GivenDocument("changed", uri="1.md"), GivenDocument("new", uri="new.md")
        )
        busy.embedder.may_go_on.set()
        await other.ended(writes)
        job, items = await busy.ended(job)
    assert job.state == job_pb2.JOB_STATE_DONE, items
    found = await busy.stores.collections.find(collection.collection_id)
    assert found
    assert found.settings.chunking == collection_pb2.ChunkingSettings(chunk_size=300)
    assert found.partition_id != collection.partition_id
    after = await chunks_of(pool, collection.collection_id)
    assert {uri for uri, _, _ in after} == {"1.md", "2.md", "3.md", "new.md"}
    assert [text for uri, _, text in after if uri in ("1.md", "new.md")] == ["changed", "new"]
    assert all(len(text) <= 300 for _, _, text in after)
    assert len(after) == found.message.chunk_count
    # The text that was kept gives what the document itself would give.
    [unchanged] = await busy.ingest(
        collection.collection_id, GivenDocument(LONG.replace("own", "own 2"), uri="2.md")
    )
    assert unchanged.outcome == job_pb2.INGESTION_OUTCOME_UNCHANGED
    # The worker settled the job by itself; settling once more drops what it replaced, its grace being over.
    await busy.stores.reindex.settle(0)
    async with acquire(pool) as connection:
        left = f"SELECT count(*) FROM {chunk_table(collection.partition_id)} WHERE collection_id = $1"
        assert await connection.fetchval(left, collection.collection_id) == 0


async def test_a_reindex_that_is_cancelled_leaves_everything(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
    await busy.ingest(collection.collection_id, GivenDocument(LONG, uri="a"))
    before = await chunks_of(pool, collection.collection_id)
    busy.embedder.may_go_on.clear()
    busy.embedder.reached.clear()
    change = SMALLER_CHUNKS
    job = await busy.reindexing(collection.collection_id, change)
    await busy.embedder.reached.wait()
    assert (await busy.jobs.cancel(ANYBODY, job.job_id)).state == job_pb2.JOB_STATE_CANCELLED
    busy.embedder.may_go_on.set()
    assert await chunks_of(pool, collection.collection_id) == before
    again = await busy.reindexing(collection.collection_id, change)
    assert (await busy.ended(again))[0].state == job_pb2.JOB_STATE_DONE


async def test_a_long_document_is_stored_at_once_and_indexed_again_from_its_parts(
    pool: Pool, idle: Ingestor, collection: StoredCollection
) -> None:
    paragraphs = [f"Paragraph {n} of many says ünique thing {n * n}. " * 20 for n in range(1700)]
    text = "# Volume\n\n" + "\n\n".join(paragraphs)
    job = await idle.hand_in(
        collection.collection_id, GivenDocument(text.encode(), uri="long.md"), GivenDocument("x", uri="short")
    )
    async with working(idle.worker, idle.settings):
        job, items = await idle.ended(job)
        assert job.state == job_pb2.JOB_STATE_DONE, items
        counts = items[0].chunks
        assert counts.parsed == counts.contextualized == counts.embedded == counts.stored > 500
        async with acquire(pool) as connection:
            rows = await connection.fetch(
                "SELECT start_offset, end_offset, original_text, context_annotation, signature "
                f"FROM {chunk_table(collection.partition_id)} JOIN documents USING (document_id) "
                "WHERE uri = 'long.md' ORDER BY chunk_index"
            )
            parts = await connection.fetch(
                "SELECT text FROM document_texts JOIN documents USING (document_id) "
                "WHERE uri = 'long.md' ORDER BY part"
            )
        assert len(rows) == counts.stored
        assert all(text[start:end] == original for start, end, original, _, _ in rows)
        assert all("Volume" in context for _, _, _, context, _ in rows[1:])
        assert all(signature(original) == signed for _, _, original, _, signed in rows)
        assert len(parts) > 1
        assert "".join(part["text"] for part in parts) == text
        # The same chunks come out of the parts that are kept, which costs no embedding.
        idle.embedder.texts.clear()
        again = await idle.reindexing(collection.collection_id)
        again, _ = await idle.ended(again)
    assert again.state == job_pb2.JOB_STATE_DONE
    assert idle.embedder.texts == []
    assert [
        chunk[2] for chunk in await chunks_of(pool, collection.collection_id) if chunk[0] == "long.md"
    ] == [row["original_text"] for row in rows]


@pytest.fixture
async def old(stores: Stores, database_url: str) -> AsyncIterator[Ingestor]:
    """A busy one that leaves what it replaces to searches under way, as outside of tests."""
    async with (
        ingestor_on(stores, database_url, reindex_grace_seconds=60) as old,
        working(old.worker, old.settings),
    ):
        yield old


async def test_a_new_model_is_rolled_out_beside_the_old(
    pool: Pool, database_url: str, old: Ingestor, collection: StoredCollection
) -> None:
    """Replicas of both models share the queue; the new ones build while the old ones go on."""
    given = [GivenDocument(LONG.replace("own", f"own {n}"), uri=str(n)) for n in range(3)]
    await old.ingest(collection.collection_id, *given)
    before = await chunks_of(pool, collection.collection_id)
    change = {"embedding": {"model": "the new one"}}
    with pytest.raises(FailedPreconditionError) as raised:
        await old.reindexing(collection.collection_id, change)
    assert raised.value.reason == "EMBEDDING_MODEL_MISMATCH"

    async with (
        ingestor_on(old.stores, database_url, "the new one", 24, reindex_grace_seconds=60) as new,
        searching(database_url, collection.collection_id, old.embedder, new.embedder) as found_lengths,
    ):
        job = await new.reindexing(collection.collection_id, change)
        new.embedder.may_go_on.clear()
        async with working(new.worker, new.settings):
            await new.embedder.reached.wait()
            # Only the new replica took the work, and the old one still takes documents for the old index.
            assert await chunks_of(pool, collection.collection_id) == before
            [written] = await old.ingest(
                collection.collection_id, GivenDocument("written meanwhile", uri="w")
            )
            assert written.state == document_pb2.INGESTION_STATE_DONE
            new.embedder.may_go_on.set()
            job, items = await old.ended(job)
        assert job.state == job_pb2.JOB_STATE_DONE, items
        # A retriever with both models finds as much at every moment, before the swap by the one and then by
        # the other.
        await asyncio.wait_for(new.embedder.asked.wait(), 30)
    assert old.embedder.asked.is_set()
    assert set(found_lengths) == {10}
    found = await old.stores.collections.find(collection.collection_id)
    assert found
    assert (found.settings.embedding.model, found.settings.embedding.dimensions) == ("the new one", 24)
    after = await chunks_of(pool, collection.collection_id)
    assert [text for uri, _, text in after if uri == "w"] == ["written meanwhile"]
    assert len(after) == found.message.chunk_count == len(before) + 1
    # The old replica says so, rather than mix vectors of two models.
    with pytest.raises(FailedPreconditionError) as raised:
        await old.hand_in(collection.collection_id, GivenDocument("late", uri="late"))
    assert raised.value.reason == "EMBEDDING_MODEL_MISMATCH"
