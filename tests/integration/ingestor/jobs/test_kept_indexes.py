"""Indexes beside the one in use: held back before they are swapped in, and kept once they were replaced."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
from groundline.v1 import collection_pb2, error_pb2, job_pb2, options_pb2, retriever_service_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import DatabaseSettings, Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_indexing.collections import StoredCollection
from groundline_ingestor.__main__ import working
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.arms import Arms
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_runtime.errors import FailedPreconditionError, NotFoundError
from groundline_tests.ingestor.killed import COMMITTED, killed
from groundline_tests.ingestor.workers import ANYBODY, LONG, SMALLER_CHUNKS, Ingestor, chunks_of, ingestor_on
from groundline_tests.retriever.service import FakeReranker
from groundline_tests.runtime import spending_in
from pydantic import SecretStr

CURRENT: Final = options_pb2.INDEX_CHOICE_CURRENT
CANDIDATE: Final = options_pb2.INDEX_CHOICE_CANDIDATE
PREVIOUS: Final = options_pb2.INDEX_CHOICE_PREVIOUS

type Search = Callable[..., Coroutine[Any, Any, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Manual:
    """A collection with the documents a and b, each long."""

    ingestor: Ingestor
    collection_id: str
    search: Search

    async def reindexed(self, *, keep_previous: bool = False) -> job_pb2.IngestionJob:
        job = await self.ingestor.reindexing(self.collection_id, SMALLER_CHUNKS, keep_previous=keep_previous)
        return (await self.ingestor.ended(job))[0]

    async def held(self) -> job_pb2.IngestionJob:
        """Build smaller chunks, and wait until they are held back."""
        job = await self.ingestor.reindexing(self.collection_id, SMALLER_CHUNKS, hold=True)
        async with asyncio.timeout(60):
            async for state in self.ingestor.jobs.watch(ANYBODY, job.job_id):
                shown: job_pb2.IngestionJob = state.job
                if shown.is_held:
                    return shown
        raise AssertionError("it ended without being held back")

    async def reverted(self) -> job_pb2.IngestionJob:
        job = await self.ingestor.reindex.revert(
            ANYBODY, pb.RevertIndexRequest(collection_id=self.collection_id)
        )
        return (await self.ingestor.ended(job))[0]

    async def shown(self) -> collection_pb2.Collection:
        found = await self.ingestor.stores.collections.find(self.collection_id)
        assert found is not None
        return found.message

    async def lengths(self, index: options_pb2.IndexChoice.ValueType = CURRENT) -> set[str]:
        """Return how long the chunks are that a search of an index finds: short or long."""
        return {"short" if len(text) <= 300 else "long" for text in await self.search(index)}


@pytest.fixture
async def manual(busy: Ingestor, collection: StoredCollection, database_url: str) -> AsyncIterator[Manual]:
    name = collection.collection_id
    for uri in ("a", "b"):
        await busy.ingest(name, GivenDocument(LONG.replace("own", f"own {uri}"), uri=uri))
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=4)
    async with open_chunk_store(settings) as store:
        service = SearchService(
            store,
            Arms(store, [busy.embedder], timeout_seconds=20),
            ModelScores(FakeReranker(), timeout_seconds=20),
            spending=spending_in(),
            scored_candidates=50,
        )

        async def search(
            index: options_pb2.IndexChoice.ValueType, query: str = "paragraph of its own"
        ) -> Sequence[str]:
            options = options_pb2.SearchOptions(
                retrieval=options_pb2.RetrievalOptions(index=index),
                rerank=options_pb2.RerankOptions(top_k=100),
            )
            request = retriever_service_pb2.SearchRequest(query=query, collection_ids=[name], options=options)
            found = await service.search(ANYBODY, request)
            assert not found.degraded
            return [each.chunk.text for each in found.passages]

        yield Manual(busy, name, search)


async def test_what_is_held_back_is_searched_on_request_only(manual: Manual) -> None:
    with pytest.raises(FailedPreconditionError) as raised:
        await manual.search(CANDIDATE)
    assert raised.value.reason == "INDEX_NOT_FOUND"

    job = await manual.held()

    assert job.state == job_pb2.JOB_STATE_RUNNING
    assert await manual.lengths() == {"long"}
    assert await manual.lengths(CANDIDATE) == {"short"}
    assert (await manual.shown()).settings.chunking.chunk_size != 300


async def test_a_held_back_index_is_swapped_in_with_what_was_written_meanwhile(manual: Manual) -> None:
    job = await manual.held()
    await manual.ingestor.ingest(manual.collection_id, GivenDocument("A cormorant dives.", uri="b"))
    assert "A cormorant dives." not in await manual.search(CANDIDATE, "cormorant")
    assert not any("own b" in text for text in await manual.search(CANDIDATE)), "b was changed"

    for _ in range(2):
        swapped = await manual.ingestor.reindex.swap(ANYBODY, job.job_id)
    ended, _ = await manual.ingestor.ended(swapped)

    assert ended.state == job_pb2.JOB_STATE_DONE
    assert not ended.is_held
    assert await manual.lengths() == {"short"}
    assert "A cormorant dives." in await manual.search(CURRENT, "cormorant")
    with pytest.raises(FailedPreconditionError):
        await manual.search(CANDIDATE)
    assert (await manual.ingestor.reindex.swap(ANYBODY, job.job_id)).state == job_pb2.JOB_STATE_DONE


async def test_an_index_that_is_held_back_is_given_up_with_its_job(manual: Manual) -> None:
    job = await manual.held()

    await manual.ingestor.jobs.cancel(ANYBODY, job.job_id)

    with pytest.raises(FailedPreconditionError) as raised:
        await manual.ingestor.reindex.swap(ANYBODY, job.job_id)
    assert raised.value.reason == "NO_REINDEX"
    await manual.ingestor.stores.reindex.settle(0)
    assert await manual.lengths() == {"long"}
    with pytest.raises(FailedPreconditionError):
        await manual.search(CANDIDATE)
    assert (await manual.reindexed()).state == job_pb2.JOB_STATE_DONE


async def test_only_a_reindex_is_swapped_in(manual: Manual) -> None:
    ingested = await manual.ingestor.hand_in(manual.collection_id, GivenDocument("x", uri="x"))
    with pytest.raises(FailedPreconditionError):
        await manual.ingestor.reindex.swap(ANYBODY, ingested.job_id)
    with pytest.raises(NotFoundError):
        await manual.ingestor.reindex.swap(ANYBODY, "00000000-0000-4000-8000-000000000000")


async def test_the_index_before_comes_back_at_once_with_its_settings(pool: Pool, manual: Manual) -> None:
    before = await chunks_of(pool, manual.collection_id)
    settings = (await manual.shown()).settings

    await manual.reindexed(keep_previous=True)

    assert (await manual.shown()).has_previous_index
    assert await manual.lengths() == {"short"}
    assert await manual.lengths(PREVIOUS) == {"long"}
    manual.ingestor.embedder.texts.clear()
    assert (await manual.reverted()).state == job_pb2.JOB_STATE_DONE
    assert manual.ingestor.embedder.texts == [], "nothing was computed"
    assert await chunks_of(pool, manual.collection_id) == before
    assert (await manual.shown()).settings == settings
    assert (await manual.shown()).chunk_count == len(before)
    # The one that it replaced is kept in its place.
    assert await manual.lengths(PREVIOUS) == {"short"}
    await manual.reverted()
    assert await manual.lengths() == {"short"}


async def test_the_index_before_comes_back_with_what_was_changed_since(pool: Pool, manual: Manual) -> None:
    await manual.reindexed(keep_previous=True)
    ingestor, name = manual.ingestor, manual.collection_id
    await ingestor.ingest(name, GivenDocument("A cormorant dives.", uri="b"), GivenDocument("New.", uri="c"))
    listed = await ingestor.documents.list(ANYBODY, pb.ListDocumentsRequest(collection_id=name))
    gone = next(each.document_id for each in listed.documents if each.uri == "a")
    await ingestor.documents.delete(ANYBODY, name, gone)
    assert await manual.search(PREVIOUS) == [], "a is gone for good, b was changed"
    async with acquire(pool) as connection:
        left = await connection.fetchval("SELECT count(*) FROM chunks WHERE original_text LIKE '%its own%'")
    assert left == 0, "nothing stays of what was replaced"

    ended = await manual.reverted()

    assert (ended.item_count, ended.done_count) == (2, 2)
    assert sorted(await manual.search(CURRENT)) == ["A cormorant dives.", "New."]


async def test_a_process_that_is_killed_while_it_swaps_a_kept_index_in_leaves_the_one_in_use(
    idle: Ingestor, collection: StoredCollection, pool: Pool, database_url: str
) -> None:
    name = collection.collection_id
    async with working(idle.worker, idle.settings):
        await idle.ingest(name, GivenDocument(LONG, uri="a"))
        before = await chunks_of(pool, name)
        await idle.ended(await idle.reindexing(name, SMALLER_CHUNKS, keep_previous=True))
    after = await chunks_of(pool, name)
    job = await idle.reindex.revert(ANYBODY, pb.RevertIndexRequest(collection_id=name))

    async def is_done() -> bool:
        shown = (await idle.jobs.get(ANYBODY, pb.GetJobRequest(job_id=job.job_id))).job
        return bool(shown.state == job_pb2.JOB_STATE_DONE)

    for step in ("move_collection", "swap_past", "PostgresReindex._end"):
        assert await killed(database_url, step, "swap") == -signal.SIGKILL
        assert await chunks_of(pool, name) == after
        assert (await idle.stores.kept_indexes.previous(name)) is not None
        assert not await is_done()
    assert await killed(database_url, COMMITTED, "swap") == -signal.SIGKILL

    assert await chunks_of(pool, name) == before
    assert await is_done()
    assert await own_partitions(pool, name) == 2, "the one that was in use is kept"


async def test_a_return_that_is_cancelled_keeps_both_indexes(manual: Manual) -> None:
    await manual.reindexed(keep_previous=True)
    ingestor, name = manual.ingestor, manual.collection_id
    await ingestor.ingest(name, GivenDocument("A cormorant dives.", uri="b"))
    ingestor.embedder.may_go_on.clear()
    async with acquire(ingestor.stores.jobs._pool) as connection:
        await connection.execute("TRUNCATE embedding_cache")
    job = await ingestor.reindex.revert(ANYBODY, pb.RevertIndexRequest(collection_id=name))
    with pytest.raises(FailedPreconditionError) as raised:
        await ingestor.reindex.reclaim(ANYBODY, name)
    assert raised.value.reason == "REINDEX_RUNNING"
    await ingestor.jobs.cancel(ANYBODY, job.job_id)
    ingestor.embedder.may_go_on.set()

    await ingestor.stores.reindex.settle(0)
    await ingestor.stores.reindex.settle(0)

    assert await manual.lengths(PREVIOUS) == {"long"}
    assert (await manual.reverted()).state == job_pb2.JOB_STATE_DONE
    await ingestor.stores.reindex.settle(0)
    assert await manual.lengths() == {"short", "long"}, "b is short"


async def test_what_was_kept_is_reclaimed(pool: Pool, manual: Manual) -> None:
    ingestor, name = manual.ingestor, manual.collection_id
    await manual.reindexed(keep_previous=True)

    assert await ingestor.reindex.reclaim(ANYBODY, name) is True
    assert await ingestor.reindex.reclaim(ANYBODY, name) is False

    await ingestor.stores.reindex.settle(0)
    with pytest.raises(FailedPreconditionError) as raised:
        await ingestor.reindex.revert(ANYBODY, pb.RevertIndexRequest(collection_id=name))
    assert raised.value.reason == error_pb2.ErrorReason.Name(error_pb2.INDEX_NOT_FOUND)
    assert await own_partitions(pool, name) == 1
    assert not (await manual.shown()).has_previous_index


async def test_a_later_swap_gives_up_what_was_kept_before(pool: Pool, manual: Manual) -> None:
    for _ in range(3):
        await manual.reindexed(keep_previous=True)
    await manual.ingestor.stores.reindex.settle(0)
    assert await own_partitions(pool, manual.collection_id) == 2

    await manual.reindexed()

    await manual.ingestor.stores.reindex.settle(0)
    assert await own_partitions(pool, manual.collection_id) == 1


async def test_a_collection_is_deleted_with_all_its_indexes(pool: Pool, manual: Manual) -> None:
    await manual.reindexed(keep_previous=True)
    await manual.held()
    assert await own_partitions(pool, manual.collection_id) == 3

    assert await manual.ingestor.stores.collections.delete(manual.collection_id)

    assert await own_partitions(pool, manual.collection_id) == 0


async def test_no_index_of_another_model_comes_back(manual: Manual, pool: Pool, database_url: str) -> None:
    await manual.reindexed(keep_previous=True)
    stores = manual.ingestor.stores
    async with (
        ingestor_on(stores, database_url, "another/model") as other,
        working(other.worker, other.settings),
    ):
        with pytest.raises(FailedPreconditionError) as raised:
            await other.reindex.revert(ANYBODY, pb.RevertIndexRequest(collection_id=manual.collection_id))
    assert raised.value.reason == "EMBEDDING_MODEL_MISMATCH"


async def own_partitions(pool: Pool, collection_id: str) -> int:
    async with acquire(pool) as connection:
        count = await connection.fetchval(
            "SELECT count(*) FROM chunk_partitions WHERE collection_id = $1", collection_id
        )
    assert isinstance(count, int)
    return count
