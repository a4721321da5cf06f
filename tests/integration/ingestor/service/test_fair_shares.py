import asyncio
import threading
from collections.abc import Sequence

import pytest
from groundline.v1 import error_pb2, job_pb2
from groundline_embedding.ports import Vectors
from groundline_extraction.documents import GivenDocument
from groundline_extraction.segments import SEGMENT_CHARACTERS
from groundline_ingestor.metrics import ITEMS, OLDEST_ITEM
from groundline_ingestor.service.worker.items import ITEMS_PER_CLIENT, PREPARED_ITEMS, Work
from groundline_ingestor.service.worker.leases import Leases, Shares
from groundline_ingestor.service.worker.ready import ReadyWork
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.services import (
    ANN,
    ANYBODY,
    BOB,
    ONLY_ANNS,
    FaultyEmbedder,
    Services,
    Start,
    change,
    new,
    slow_documents,
)
from groundline_tests.metrics import Metrics


async def test_slow_documents_hold_up_no_other_client(services: Services, may_go_on: threading.Event) -> None:
    await services.collections.create(ANYBODY, new())
    slow = (await services.ingestion.ingest(ANYBODY, "docs", slow_documents(3 * PREPARED_ITEMS), "")).job
    others = [GivenDocument(f"text {number}", uri=str(number)) for number in range(40)]
    job = (await services.ingestion.ingest(BOB, "docs", others, "")).job
    async with services.working(), asyncio.timeout(20):
        states = [state.job async for state in services.jobs.watch(BOB, job.job_id)]
        assert (states[-1].state, states[-1].done_count) == (job_pb2.JOB_STATE_DONE, 40)
        may_go_on.set()
        states = [state.job async for state in services.jobs.watch(ANYBODY, slow.job_id)]
        assert states[-1].done_count == 3 * PREPARED_ITEMS


async def test_slow_documents_hold_up_no_others(services: Services, may_go_on: threading.Event) -> None:
    await services.collections.create(ANYBODY, new())
    slow = slow_documents(ITEMS_PER_CLIENT - 4)
    others = [GivenDocument(f"text {number}", uri=str(number)) for number in range(40)]
    slow_job = (await services.ingestion.ingest(ANYBODY, "docs", slow, "")).job
    job = (await services.ingestion.ingest(ANYBODY, "docs", others, "")).job
    async with services.working(), asyncio.timeout(20):
        states = [state.job async for state in services.jobs.watch(ANYBODY, job.job_id)]
        assert (states[-1].state, states[-1].done_count) == (job_pb2.JOB_STATE_DONE, 40)
        found = await services.stores.jobs.find(slow_job.job_id)
        assert found
        assert found.state == job_pb2.JOB_STATE_RUNNING
        may_go_on.set()
        states = [state.job async for state in services.jobs.watch(ANYBODY, slow_job.job_id)]
        assert states[-1].done_count == len(slow)


def leases_of(services: Services, shares: Shares, freed: list[int]) -> Leases:
    """Return leases that note in `freed` when a client may have more."""
    return Leases(
        services.stores.queue,
        models=[FakeEmbedder().model],
        lease_seconds=30,
        maximum_attempts=5,
        shares=shares,
        on_free=lambda: freed.append(1),
    )


async def test_a_client_has_a_share_of_what_is_prepared_and_one_of_what_is_held(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    freed: list[int] = []
    leases = leases_of(services, Shares(prepared=2, ready_chunks=3, held=4, searches=1), freed)
    await services.ingestion.ingest(ANYBODY, "docs", slow_documents(10), "")
    preparing = await leases.lease(10)
    assert len(preparing) == 2
    assert not await leases.lease(10)
    job = (await services.ingestion.ingest(BOB, "docs", [GivenDocument("text", uri="theirs")], "")).job
    [theirs] = await leases.lease(10)
    assert theirs.claim.job_id == job.job_id

    for item in (*preparing, theirs):
        leases.prepared(item.claim, 1)
    embedding = await leases.lease(10)
    assert len(embedding) == 2
    for item in embedding:
        leases.prepared(item.claim, 1)
    assert not await leases.lease(10)
    leases.embedding(item.claim for item in (*preparing, theirs, *embedding))
    freed.clear()
    leases.drop(preparing[0].claim)
    assert not freed
    leases.drop(embedding[0].claim)
    assert freed, "half of its share"
    assert len(await leases.lease(10)) == 2


async def test_a_client_whose_chunks_wait_prepares_no_more_and_others_do(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    freed: list[int] = []
    leases = leases_of(services, Shares(prepared=2, ready_chunks=100, held=20, searches=1), freed)
    await services.ingestion.ingest(ANYBODY, "docs", slow_documents(10), "")
    first, second = await leases.lease(10)
    leases.prepared(first.claim, 60)
    leases.prepared(second.claim, 60)
    assert not await leases.lease(10)
    job = (await services.ingestion.ingest(BOB, "docs", [GivenDocument("text", uri="theirs")], "")).job
    [theirs] = await leases.lease(10)
    assert theirs.claim.job_id == job.job_id
    leases.embedding([first.claim])
    assert freed
    assert await leases.lease(10)


class GatedEmbedder(FaultyEmbedder):
    """Embeds when it may, one call after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Semaphore(0)
        self.asked = asyncio.Semaphore(0)
        self.groups: list[Sequence[str]] = []

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.groups.append(texts)
        self.asked.release()
        await self.may.acquire()
        return await super().embed_documents(texts)


def when_ready(monkeypatch: pytest.MonkeyPatch, uri: str) -> asyncio.Event:
    """Return what is set when the document is ready to be embedded."""
    is_ready, add = asyncio.Event(), ReadyWork.add

    def noting_add(self: ReadyWork, works: Sequence[Work]) -> None:
        add(self, works)
        if any(work.new.version.uri == uri for work in works):
            is_ready.set()

    monkeypatch.setattr(ReadyWork, "add", noting_add)
    return is_ready


async def test_a_long_text_holds_up_no_small_one(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ready = when_ready(monkeypatch, "small")
    gated = GatedEmbedder()
    services = start(max_chunks_per_document=2000, max_document_bytes=200_000, embedder=gated)
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkSize": 50}}))
    long = GivenDocument("\n\n".join(f"This is number {n} of the sentences." for n in range(900)), uri="long")
    long_job = (await services.ingestion.ingest(ANYBODY, "docs", [long], "")).job
    async with services.working(), asyncio.timeout(60):
        await gated.asked.acquire()
        small = [GivenDocument("short", uri="small")]
        job = (await services.ingestion.ingest(ANYBODY, "docs", small, "")).job
        await is_ready.wait()
        for _ in range(3):  # the part that was begun, at most one more, and the small one
            gated.may.release()
        states = [state.job async for state in services.jobs.watch(ANYBODY, job.job_id)]
        assert states[-1].done_count == 1
        found = await services.stores.jobs.find(long_job.job_id)
        assert found
        assert found.state == job_pb2.JOB_STATE_RUNNING
        for _ in range(100):
            gated.may.release()
        states = [state.job async for state in services.jobs.watch(ANYBODY, long_job.job_id)]
    assert states[-1].chunks.stored == sum(map(len, gated.groups)) - 1
    assert max(map(len, gated.groups)) <= 256


async def test_a_long_document_that_may_no_longer_be_stored_is_not_embedded_to_its_end(start: Start) -> None:
    gated = GatedEmbedder()
    services = start(max_document_bytes=8_000_000, max_chunks_per_document=10_000, embedder=gated)
    await services.collections.create(ANN, new(readers=("*",), writers=("user:ann", "user:bob")))
    text = "\n\n".join(f"Paragraph {n} of a long report says this. " * 20 for n in range(3 * 1300))
    segments = len(text) / SEGMENT_CHARACTERS
    assert segments > 3
    job = (await services.ingestion.ingest(BOB, "docs", [GivenDocument(text, uri="long")], "")).job
    async with services.working(), asyncio.timeout(60):
        await gated.asked.acquire()
        await services.collections.update(ANN, change(access=ONLY_ANNS))
        for _ in range(100):
            gated.may.release()
        async for _ in services.jobs.watch(ANN, job.job_id):
            pass
    [item] = await services.stores.jobs.items(job.job_id, None, after=-1, limit=10)
    assert item.failure.reason == error_pb2.COLLECTION_NOT_WRITABLE
    assert sum(len(chunk) for group in gated.groups for chunk in group) < len(text) * 1.5 / segments


async def test_a_single_document_is_embedded_next_beside_many_of_another_client(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_ready = when_ready(monkeypatch, "b")
    gated = GatedEmbedder()
    services = start(max_chunks_per_document=1000, max_document_bytes=200_000, embedder=gated)
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkSize": 50}}))
    many = [
        GivenDocument("\n\n".join(f"Sentence {n} of {of}. " * 9 for n in range(40)), uri=str(of))
        for of in range(30)
    ]
    await services.ingestion.ingest(ANN, "docs", many, "")
    async with services.working(), asyncio.timeout(60):
        for _ in range(3):
            await gated.asked.acquire()
            gated.may.release()
        await gated.asked.acquire()  # and is held: which group comes after it is not decided yet
        job = (await services.ingestion.ingest(BOB, "docs", [GivenDocument("single", uri="b")], "")).job
        await is_ready.wait()
        waiting = len(gated.groups)
        for _ in range(100):
            gated.may.release()
        async for watched in services.jobs.watch(BOB, job.job_id):
            if watched.job.HasField("end_time"):
                break
        for _ in range(4):  # its own group, and more of the other client's
            await gated.asked.acquire()
    assert any("single" in text for text in gated.groups[waiting])


async def test_the_items_of_jobs_by_state_are_a_metric(services: Services) -> None:
    metrics = Metrics(ITEMS, OLDEST_ITEM)
    await services.collections.create(ANYBODY, new())
    await services.ingestion.ingest(ANYBODY, "docs", slow_documents(3), "")
    await services.worker._upkeep._measure()
    points = metrics.points()
    [items], [oldest] = points["groundline.ingestion.items"], points["groundline.ingestion.oldest"]
    assert (items.attributes, items.value) == ({"state": "queued"}, 3)
    assert oldest.value > 0
