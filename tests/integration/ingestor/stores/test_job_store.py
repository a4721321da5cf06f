"""Jobs and the queue of their items."""

import io
import tracemalloc
import uuid
from dataclasses import replace
from typing import Any

from groundline.v1 import chat_pb2, document_pb2, error_pb2, job_pb2
from groundline_contracts.times import moment
from groundline_database import Pool, acquire
from groundline_extraction.documents import FileContent, GivenDocument
from groundline_indexing.documents import HandedIn
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import (
    CRAWL,
    FAILURE,
    MAXIMUM_ATTEMPTS,
    a_hand_in,
    a_new,
    create,
    expire,
    job_of,
    lease,
    loses_claim,
    next_crawl,
    texts_of,
)


async def test_owners_are_passed_over_whatever_they_have_waiting(stores: Stores) -> None:
    collection = await create(stores, "jobs")
    for owner, uris in (("a", ("1", "2")), ("b", ("3",)), ("a", ("4",)), ("", ("5",)), ("c", ("6",))):
        handed_in = [a_hand_in(uri) for uri in uris]
        await stores.jobs.enqueue(collection, handed_in, (owner,) if owner else (), "")
    options: dict[str, Any] = {"models": ["model"], "seconds": 60}

    async def lease(limit: int, *passed_over: str) -> list[tuple[str, str]]:
        leased = await stores.queue.lease(str(uuid.uuid4()), limit=limit, passed_over=passed_over, **options)
        return [(item.uri, item.owner) for item in leased]

    assert not await lease(10, "a", "b", "c", "")
    assert await lease(2, "a") == [("3", "b"), ("5", "")]
    assert await lease(2) == [("1", "a"), ("2", "a")]


async def test_an_item_is_leased_once_and_ends_with_its_document(stores: Stores) -> None:
    collection = await create(stores, "jobs")
    assert not await stores.queue.has_waiting()
    job = await stores.jobs.enqueue(collection, [a_hand_in("a.md"), a_hand_in("b.md")], (), "")
    assert (job.state, job.item_count) == (job_pb2.JOB_STATE_QUEUED, 2)
    # Not by workers of another model, which is being rolled out or going.
    options: dict[str, Any] = {"limit": 10, "seconds": 60}
    assert not await stores.queue.lease(str(uuid.uuid4()), models=["another"], **options)
    assert await stores.queue.has_waiting()
    first, second = await lease(stores)
    assert await lease(stores) == []
    assert not await stores.queue.has_waiting()
    assert (await stores.queue.given(first)).content == "a.md"
    assert first.given == await stores.queue.given(first)
    await stores.queue.require(first.claim)
    new = replace(a_new(a_version("a.md", "text"), "one", "two"), claim=first.claim)
    [(document_id, outcome)] = await stores.versions.store(collection, [new])
    assert outcome == job_pb2.INGESTION_OUTCOME_CREATED
    await stores.queue.fail(second.claim, FAILURE, job_pb2.ChunkCounts(parsed=1))
    found = await job_of(stores, job.job_id)
    assert (found.state, found.done_count, found.failed_count) == (job_pb2.JOB_STATE_DONE, 1, 1)
    assert found.chunks == job_pb2.ChunkCounts(parsed=3, contextualized=2, embedded=2, stored=2)
    items = await stores.jobs.items(job.job_id, None, after=-1, limit=10)
    assert [(item.document_id == document_id, item.failure == FAILURE) for item in items] == [
        (True, False),
        (False, True),
    ]
    assert await stores.jobs.items(job.job_id, None, after=0, limit=1) == items[1:]
    assert await stores.jobs.items(job.job_id, None, after=-1, limit=10, only_failed=True) == items[1:]


async def test_a_lease_tells_whether_a_version_of_the_document_is_stored(stores: Stores) -> None:
    collection = await create(stores, "first")
    await stores.jobs.enqueue(collection, [a_hand_in("a.md"), a_hand_in("b.md")], (), "")
    first, second = await lease(stores)
    assert first.is_first
    assert second.is_first
    new = replace(a_new(a_version("a.md", "text"), "one"), claim=first.claim)
    await stores.versions.store(collection, [new])
    await stores.queue.fail(second.claim, FAILURE, job_pb2.ChunkCounts())
    await stores.jobs.enqueue(collection, [a_hand_in("a.md"), a_hand_in("b.md")], (), "")
    assert [(item.uri, item.is_first) for item in await lease(stores)] == [("a.md", False), ("b.md", True)]


async def test_tokens_add_up_on_the_items_that_are_held(stores: Stores) -> None:
    collection = await create(stores, "tokens")
    job = await stores.jobs.enqueue(collection, [a_hand_in("a.md"), a_hand_in("b.md")], (), "")
    first, second = await lease(stores)
    lost = replace(second.claim, lease_id=str(uuid.uuid4()))
    written = chat_pb2.Usage(prompt_tokens=5, cached_tokens=4, output_tokens=3)
    await stores.queue.spend([(first.claim, written), (lost, written)])
    await stores.queue.spend([(first.claim, chat_pb2.Usage(embedding_tokens=7))])
    items = await stores.jobs.items(job.job_id, None, after=-1, limit=10)
    all_of_first = chat_pb2.Usage(prompt_tokens=5, cached_tokens=4, output_tokens=3, embedding_tokens=7)
    assert [item.usage for item in items] == [all_of_first, chat_pb2.Usage()]
    found = await job_of(stores, job.job_id)
    assert found.usage == all_of_first


async def test_a_documents_price_adds_up_and_is_unknown_once_a_calls_is(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "priced")
    hand_ins = [a_hand_in(f"{name}.md") for name in "abc"]
    job = await stores.jobs.enqueue(collection, hand_ins, (), "")
    priced, unpriced, earlier = await lease(stores)

    def calls(usd: float | None) -> chat_pb2.Usage:
        return chat_pb2.Usage(prompt_tokens=1, cost_usd=usd)

    for claim, usages in (
        (priced.claim, (calls(0.25), chat_pb2.Usage(embedding_tokens=7, cost_usd=0), calls(0.5))),
        (unpriced.claim, (calls(0.25), calls(None), calls(0.5))),
        (earlier.claim, (calls(0.25),)),
    ):
        for usage in usages:
            await stores.queue.spend([(claim, usage)])

    async def prices() -> list[float | None]:
        items = await stores.jobs.items(job.job_id, None, after=-1, limit=10)
        usages = [*(item.usage for item in items), (await job_of(stores, job.job_id)).usage]
        return [usage.cost_usd if usage.HasField("cost_usd") else None for usage in usages]

    assert await prices() == [0.75, None, 0.25, None]
    # A release that knew no prices counted tokens alone.
    async with acquire(pool) as connection:
        await connection.execute(
            "UPDATE ingestion_items SET cost_usd = NULL WHERE job_id = $1::uuid AND item_index = 2",
            job.job_id,
        )
    await stores.queue.spend([(earlier.claim, calls(0.5))])
    assert await prices() == [0.75, None, None, None]


async def test_a_lost_claim_changes_nothing(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "lost")
    job = await stores.jobs.enqueue(collection, [a_hand_in("a.md")], (), "")
    [item] = await lease(stores)
    await stores.jobs.cancel(job.job_id)
    new = replace(a_new(a_version("a.md", "text"), "text"), claim=item.claim)
    for call in (
        stores.versions.store(collection, [new]),
        stores.queue.given(item),
        stores.queue.fail(item.claim, FAILURE, job_pb2.ChunkCounts()),
    ):
        assert await loses_claim(call)
    found = await job_of(stores, job.job_id)
    assert found.state == job_pb2.JOB_STATE_CANCELLED
    assert item.document_id
    assert await texts_of(pool, collection, item.document_id) == []


async def test_items_of_a_uri_are_leased_one_after_the_other(stores: Stores) -> None:
    collection = await create(stores, "order")
    await stores.jobs.enqueue(collection, [a_hand_in("a.md"), a_hand_in("a.md")], (), "")
    [first] = await lease(stores)
    assert first.claim.item_index == 0
    await stores.queue.fail(first.claim, FAILURE, job_pb2.ChunkCounts())
    [second] = await lease(stores)
    assert second.claim.item_index == 1


async def test_what_is_released_or_failed_can_be_leased_again(stores: Stores) -> None:
    collection = await create(stores, "again")
    job = await stores.jobs.enqueue(collection, [a_hand_in("a.md")], (), "")
    [item] = await lease(stores)
    await stores.queue.release([item.claim.lease_id])
    [item] = await lease(stores)
    assert item.attempts == 1
    await stores.queue.fail(item.claim, FAILURE, job_pb2.ChunkCounts())
    assert await stores.jobs.retry(job.job_id) == 1
    assert [item.uri for item in await lease(stores)] == ["a.md"]


async def test_items_of_a_lost_worker_are_suspects_which_are_leased_apart_from_others(stores: Stores) -> None:
    collection = await create(stores, "suspects")
    await stores.jobs.enqueue(collection, [a_hand_in("a.md"), a_hand_in("b.md")], (), "")
    lost = await lease(stores, seconds=0.01)
    await expire(stores)
    await stores.jobs.enqueue(collection, [a_hand_in("c.md")], (), "")
    assert await stores.queue.has_suspects(["model"])
    assert not await stores.queue.has_suspects(["another"])
    assert [item.uri for item in await lease(stores)] == ["c.md"]
    for item in lost:
        assert await loses_claim(stores.queue.require(item.claim))
    [first] = await lease(stores, suspects=True)
    [second] = await lease(stores, suspects=True)
    assert [first.uri, second.uri] == ["a.md", "b.md"]
    assert (first.attempts, second.attempts) == (1, 1)
    assert not await stores.queue.has_suspects(["model"])


async def test_suspects_are_halved_until_the_one_that_ends_its_worker_is_alone(stores: Stores) -> None:
    collection = await create(stores, "halved")
    job = await stores.jobs.enqueue(collection, [a_hand_in(str(number)) for number in range(10)], (), "")
    await lease(stores, seconds=0.01)
    await expire(stores)
    tried: list[str] = []
    while await stores.queue.has_suspects(["model"]):
        items = await lease(stores, seconds=0.01, suspects=True)
        tried.append("".join(item.uri for item in items))
        if "3" in tried[-1]:
            await expire(stores)
            continue
        for item in items:
            await stores.queue.fail(item.claim, FAILURE, job_pb2.ChunkCounts())
    assert tried == ["01234", "012", *["3"] * MAXIMUM_ATTEMPTS, "4", "567", "8", "9"]
    ended = await stores.jobs.items(job.job_id, None, after=-1, limit=10)
    exhausted = [item.uri for item in ended if item.failure.reason == error_pb2.ATTEMPTS_EXHAUSTED]
    assert exhausted == ["3"]


async def test_only_a_suspect_that_is_lost_alone_is_charged_and_fails_in_the_end(stores: Stores) -> None:
    collection = await create(stores, "charged")
    job = await stores.jobs.enqueue(collection, [a_hand_in("a.md")], (), "")
    await lease(stores, seconds=0.01)
    await expire(stores)
    for attempt in range(MAXIMUM_ATTEMPTS):
        [suspect] = await lease(stores, seconds=0.01, suspects=True)
        assert suspect.attempts == attempt + 1
        await expire(stores)
    assert not await stores.queue.has_suspects(["model"])
    [item] = await stores.jobs.items(job.job_id, None, after=-1, limit=1)
    assert (item.state, item.failure.reason) == (
        document_pb2.INGESTION_STATE_FAILED,
        error_pb2.ATTEMPTS_EXHAUSTED,
    )
    document = await stores.documents.find("charged", item.document_id)
    assert document
    assert document.failure == item.failure


async def test_a_forgiven_postponement_does_not_count(stores: Stores) -> None:
    collection = await create(stores, "forgiven")
    await stores.jobs.enqueue(collection, [a_hand_in("a.md")], (), "")
    counted = []
    for forgiven in (True, False, False):
        [item] = await lease(stores)
        counted.append(item.attempts)
        await stores.queue.postpone(item.claim, 0, FAILURE, forgiven=forgiven)
    assert counted == [1, 1, 2]


def _for_ann(handed_in: HandedIn) -> HandedIn:
    names = ("user:ann",)
    return HandedIn(
        replace(handed_in.given, allowed_principals=names),
        replace(handed_in.version, allowed_principals=names),
    )


async def test_items_of_unreadable_documents_are_neither_shown_nor_counted(stores: Stores) -> None:
    collection = await create(stores, "private")
    secret = _for_ann(a_hand_in("a.md"))
    handed_in = [secret, a_hand_in("b.md")]
    job = await stores.jobs.enqueue(collection, handed_in, ("user:bob", "group:staff"), "")

    async def seen(*principals: str) -> tuple[int, int]:
        items = await stores.jobs.items(job.job_id, principals, after=-1, limit=10)
        found = await stores.jobs.find(job.job_id, principals)
        [listed] = await stores.jobs.list_readable(principals, collection_id="private", before=None, limit=10)
        assert found == listed
        assert found is not None
        return len(items), found.item_count

    assert await seen() == await seen("user:carl") == await seen("group:staff") == (1, 1)
    assert await seen("user:ann") == (2, 2)
    # Who handed it in sees what becomes of it.
    assert await seen("user:bob") == (2, 2)
    [item, other] = await lease(stores)
    assert await stores.documents.delete(collection, item.document_id)
    assert await seen("user:bob") == (2, 2)
    assert await seen("user:carl") == (1, 1)
    assert other.uri == "b.md"


async def test_a_request_has_one_job_in_its_collection(stores: Stores) -> None:
    one, two = await create(stores, "one"), await create(stores, "two")
    first = await stores.jobs.enqueue(one, [a_hand_in("a.md")], (), "same")
    assert await stores.jobs.enqueue(one, [a_hand_in("a.md")], (), "same") == first
    assert await stores.jobs.find_by_request_id("one", "same") == first
    assert await stores.jobs.find_by_request_id("two", "same") is None
    missing = str(uuid.UUID(int=1))
    assert await stores.jobs.find_all([first.job_id, missing], ()) == {first.job_id: first}
    assert (await stores.jobs.enqueue(two, [a_hand_in("a.md")], (), "same")).job_id != first.job_id


async def test_jobs_are_listed_newest_first(stores: Stores) -> None:
    opened = await create(stores, "open")
    closed = await create(stores, "closed", readers=("user:ann",), writers=("user:ann",))
    old, new = [await stores.jobs.enqueue(opened, [a_hand_in(uri)], (), "") for uri in ("a", "b")]
    hidden = await stores.jobs.enqueue(closed, [a_hand_in("c")], (), "")

    async def seen(*principals: str, **narrowed: Any) -> list[job_pb2.IngestionJob]:
        options = {"collection_id": None, "before": None, "limit": 10, **narrowed}
        return list(await stores.jobs.list_readable(principals, **options))

    assert await seen() == [new, old]
    assert await seen("user:ann") == [hidden, new, old]
    assert await seen("user:ann", collection_id="closed") == [hidden]
    assert await seen(before=(moment(new.create_time), new.job_id)) == [old]
    assert await seen("user:ann", limit=1) == [hidden]


async def test_a_failed_attempt_to_replace_marks_nothing(stores: Stores) -> None:
    collection = await create(stores, "unmarked")
    secret = replace(a_version("a.md", "secret"), allowed_principals=("user:ann",))
    [(document_id, _)] = await stores.versions.store(collection, [a_new(secret, "secret")])
    before = await stores.documents.find("unmarked", document_id)
    job = await stores.jobs.enqueue(collection, [a_hand_in("a.md")], ("user:bob",), "")
    crawl_id = await stores.crawls.enqueue(collection, CRAWL, ("user:bob",), "")
    leased = await next_crawl(stores)
    [item] = await lease(stores)
    await stores.queue.fail(item.claim, FAILURE, job_pb2.ChunkCounts())
    await stores.crawls.add_page(leased[0].claim, collection, a_hand_in("a.md"))
    [page] = await lease(stores)
    await stores.queue.fail(page.claim, FAILURE, job_pb2.ChunkCounts())
    assert (item.document_id, page.document_id) == ("", "")
    assert (page.claim.job_id, page.principals[0]) == (crawl_id, "user:bob")
    assert await stores.documents.find("unmarked", document_id) == before
    [seen] = await stores.jobs.items(job.job_id, ("user:bob",), after=-1, limit=10)
    assert (seen.state, seen.document_id) == (document_pb2.INGESTION_STATE_FAILED, "")
    assert await stores.jobs.items(job.job_id, ("user:carl",), after=-1, limit=10) == []


async def test_a_writer_may_hand_in_what_only_others_may_read(stores: Stores) -> None:
    collection = await create(stores, "for-others")
    handed_in = _for_ann(a_hand_in("a.md"))
    await stores.jobs.enqueue(collection, [handed_in], ("user:bob",), "")
    [item] = await lease(stores)
    assert list(item.principals) == ["user:bob"]
    new = replace(a_new(handed_in.version, "text"), claim=item.claim, principals=item.principals)
    [(_, outcome)] = await stores.versions.store(collection, [new])
    assert outcome == job_pb2.INGESTION_OUTCOME_CREATED


async def test_a_large_content_is_stored_without_holding_much_of_it(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "large_content")
    content = FileContent(io.BytesIO(bytes(range(256)) * (24 * 4096)), 24 * 2**20)
    handed_in = HandedIn(GivenDocument(content, uri="large.txt"), a_version("large.txt", "large"))
    tracemalloc.start()
    try:
        await stores.jobs.enqueue(collection, [handed_in], ("user:ann",), "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20
    async with acquire(pool) as connection:
        stored = await connection.fetchval("SELECT sum(length(data)) FROM ingestion_payloads")
    assert stored == content.size
