"""Crawls as they are stored."""

from dataclasses import replace
from uuid import uuid4

import pytest
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.work import ClaimLostError, ClientUse, OrderedCrawl
from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import (
    CRAWL,
    FAILURE,
    MAXIMUM_ATTEMPTS,
    a_hand_in,
    a_new,
    begin_crawl,
    create,
    expire,
    job_of,
    lease,
    lease_crawl,
    loses_claim,
    next_crawl,
)


async def test_a_crawl_is_leased_by_itself_and_its_pages_as_documents(stores: Stores) -> None:
    collection = await create(stores, "site")
    asked = pb.WebCrawl(
        start_url="https://a.test/",
        max_pages=5,
        max_depth=0,
        include_paths=["/docs/**"],
        exclude_paths=["/old"],
        delay_seconds=0.5,
    )
    job_id = await stores.crawls.enqueue(collection, OrderedCrawl(asked), (), "same")
    assert await stores.crawls.enqueue(collection, replace(CRAWL, is_dry_run=True), (), "same") == job_id
    assert await lease(stores) == []
    item, ordered = await next_crawl(stores)
    assert ordered == OrderedCrawl(asked)
    assert (item.collection_id, item.uri) == ("site", asked.start_url)
    assert await lease_crawl(stores) is None
    await stores.crawls.add_page(item.claim, collection, a_hand_in("https://a.test/"))
    assert [page.uri for page in await lease(stores)] == ["https://a.test/"]
    await stores.crawls.finish(item.claim)
    with pytest.raises(ClaimLostError):
        await stores.crawls.require_allowed(item.claim)
    items = await stores.jobs.items(job_id, None, after=-1, limit=10)
    assert [(one.uri, one.is_crawl, one.state) for one in items] == [
        (asked.start_url, True, document_pb2.INGESTION_STATE_DONE),
        ("https://a.test/", False, document_pb2.INGESTION_STATE_EXTRACTING),
    ]


async def test_a_dry_crawl_notes_what_would_become_of_pages_and_takes_none_in(stores: Stores) -> None:
    collection = await create(stores, "dry")
    known, changed, refused = (f"https://a.test/{name}" for name in ("known", "changed", "refused"))
    for uri, principals in ((known, ()), (changed, ()), (refused, ("user:bob",))):
        version = replace(a_version(uri, "text"), allowed_principals=principals)
        new = replace(a_new(version, "text"), principals=principals)
        await stores.versions.store(collection, [new])
    ordered = OrderedCrawl(pb.WebCrawl(start_url="https://a.test/"), is_dry_run=True)
    job_id = await stores.crawls.enqueue(collection, ordered, ("user:ann",), "")
    leased = await next_crawl(stores)
    assert leased[1] == ordered
    claim = leased[0].claim
    for uri, text in ((known, "text"), (changed, "other"), (refused, "other"), ("https://a.test/new", "x")):
        await stores.crawls.add_preview(claim, a_version(uri, text))
    await stores.crawls.add_preview(claim, a_version(known, "text"))
    await stores.crawls.finish(claim)
    assert await loses_claim(stores.crawls.add_preview(claim, a_version(known, "text")))
    items = await stores.jobs.items(job_id, None, after=0, limit=10)
    assert [(one.uri, one.outcome, one.failure.reason) for one in items] == [
        (known, job_pb2.INGESTION_OUTCOME_UNCHANGED, 0),
        (changed, job_pb2.INGESTION_OUTCOME_UPDATED, 0),
        (refused, job_pb2.INGESTION_OUTCOME_UNSPECIFIED, error_pb2.DOCUMENT_NOT_WRITABLE),
        ("https://a.test/new", job_pb2.INGESTION_OUTCOME_CREATED, 0),
    ]
    assert items[2].document_id == ""
    job = await job_of(stores, job_id)
    assert (job.is_dry_run, job.state, job.done_count, job.unchanged_count, job.failed_count) == (
        True,
        job_pb2.JOB_STATE_DONE,
        3,
        1,
        1,
    )
    assert await lease(stores) == []
    assert await stores.jobs.retry(job_id) == 0


async def test_a_job_is_under_way_until_its_crawl_and_its_pages_have_ended(stores: Stores) -> None:
    collection = await create(stores, "underway")
    job_id, item = await begin_crawl(stores, collection)

    async def seen() -> tuple[int, int, int, int]:
        job = await job_of(stores, job_id)
        return job.state, job.item_count, job.done_count, job.failed_count

    assert await seen() == (job_pb2.JOB_STATE_RUNNING, 0, 0, 0)
    await stores.crawls.add_page(item.claim, collection, a_hand_in("https://a.test/one"))
    [page] = await lease(stores)
    new = replace(a_new(a_version(page.uri, "text"), "text"), claim=page.claim)
    await stores.versions.store(collection, [new])
    assert (await seen())[0] == job_pb2.JOB_STATE_RUNNING
    await stores.crawls.add_failure(item.claim, "https://a.test/two", FAILURE)
    await stores.crawls.finish(item.claim)
    assert await seen() == (job_pb2.JOB_STATE_DONE, 2, 1, 1)


async def test_a_crawl_that_begins_again_doubles_no_page(stores: Stores) -> None:
    collection = await create(stores, "again-crawl")
    job_id, first = await begin_crawl(stores, collection)
    await stores.crawls.add_page(first.claim, collection, a_hand_in("https://a.test/kept"))
    await stores.crawls.add_failure(first.claim, "https://a.test/late", FAILURE)
    await stores.queue.release([first.claim.lease_id])
    second, _ = await next_crawl(stores)
    for claim, is_lost in ((first.claim, True), (second.claim, False)):
        try:
            await stores.crawls.add_page(claim, collection, a_hand_in("https://a.test/kept"))
            await stores.crawls.add_page(claim, collection, a_hand_in("https://a.test/late"))
            await stores.crawls.add_failure(claim, "https://a.test/kept", FAILURE)
            assert not is_lost
        except ClaimLostError:
            assert is_lost
    items = await stores.jobs.items(job_id, None, after=0, limit=10)
    assert [(one.item_index, one.uri, one.state, one.HasField("failure")) for one in items] == [
        (1, "https://a.test/kept", document_pb2.INGESTION_STATE_QUEUED, False),
        (2, "https://a.test/late", document_pb2.INGESTION_STATE_QUEUED, False),
    ]


async def test_a_cancelled_crawl_takes_no_more_pages_and_counts(stores: Stores) -> None:
    collection = await create(stores, "cancelled-crawl")
    job_id, item = await begin_crawl(stores, collection)
    await stores.crawls.add_page(item.claim, collection, a_hand_in("https://a.test/one"))
    await stores.crawls.require_allowed(item.claim)
    await stores.jobs.cancel(job_id)
    with pytest.raises(ClaimLostError):
        await stores.crawls.require_allowed(item.claim)
    for call in (
        stores.crawls.add_page(item.claim, collection, a_hand_in("https://a.test/two")),
        stores.crawls.add_failure(item.claim, "https://a.test/two", FAILURE),
        stores.crawls.finish(item.claim),
    ):
        assert await loses_claim(call)
    job = await job_of(stores, job_id)
    assert (job.state, job.item_count, job.cancelled_count) == (job_pb2.JOB_STATE_CANCELLED, 2, 2)


async def test_a_crawl_whose_worker_was_lost_is_tried_alone_and_fails_in_the_end(stores: Stores) -> None:
    collection = await create(stores, "charged-crawl")
    job_id = await stores.crawls.enqueue(collection, CRAWL, (), "")
    assert await lease_crawl(stores, seconds=0.01) is not None
    await expire(stores)
    assert await lease_crawl(stores, alone=False) is None
    for attempt in range(MAXIMUM_ATTEMPTS):
        leased = await next_crawl(stores, seconds=0.01)
        assert leased[0].attempts == attempt + 1
        await expire(stores)
    assert await lease_crawl(stores) is None
    [crawl] = await stores.jobs.items(job_id, None, after=-1, limit=1)
    assert (crawl.state, crawl.failure.reason) == (
        document_pb2.INGESTION_STATE_FAILED,
        error_pb2.ATTEMPTS_EXHAUSTED,
    )
    job = await job_of(stores, job_id)
    assert (job.state, job.failed_count) == (job_pb2.JOB_STATE_FAILED, 1)


async def test_of_crawls_that_wait_that_of_the_client_with_the_least_use_is_leased(stores: Stores) -> None:
    collection = await create(stores, "shared-crawl")
    for client in ("user:ann", "user:bob", "user:carl"):
        await stores.crawls.enqueue(collection, CRAWL, [client], "")
    uses = [
        (ClientUse({"user:ann": 90.0, "user:bob": 2.0, "user:carl": 1.0}), "user:carl"),
        (ClientUse({"user:ann": 90.0}, ["user:bob"]), "user:ann"),
        (ClientUse({}), "user:bob"),
    ]
    for use, client in uses:
        leased = await stores.crawls.lease(str(uuid4()), seconds=30, alone=True, use=use)
        assert leased
        assert leased[0].owner == client
