import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_extraction.documents import GivenDocument
from groundline_runtime.errors import PermissionDeniedError
from groundline_tests.ingestor.services import (
    ANN,
    ANYBODY,
    BOB,
    ONLY_ANNS,
    FakeCollector,
    Services,
    Start,
    change,
    crawling,
    new,
    page,
    slow_documents,
)


async def test_a_crawl_or_upload_overwrites_nothing_that_its_caller_may_not_read(start: Start) -> None:
    services = start(FakeCollector(page("/a", "Other text.")))
    await services.collections.create(ANYBODY, new())
    uri = page("/a").uri
    secret = GivenDocument("secret", uri=uri, allowed_principals=("user:ann",))
    await services.ingest(secret, caller=ANN)
    _, [crawl, crawled] = await services.crawl(SITE)

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"mine"

    taken = await services.ingestion.upload(BOB, "docs", GivenDocument("", uri=uri), parts(), "")
    _, [uploaded] = await services.ended(taken.job, BOB)
    assert crawl.state == document_pb2.INGESTION_STATE_DONE
    for item in (crawled, uploaded):
        assert item.failure.reason == error_pb2.DOCUMENT_NOT_WRITABLE
    [kept] = (await services.documents.list(ANN, pb.ListDocumentsRequest(collection_id="docs"))).documents
    assert kept.allowed_principals == ["user:ann"]


SITE = pb.WebCrawl(start_url="https://site.test/", include_paths=["/docs/**"])
PRIVATE = {"crawl": {"allowPrivateAddresses": True}}


async def test_a_crawl_takes_a_writer(services: Services) -> None:
    await services.collections.create(ANN, new(writers=("user:ann",)))
    with pytest.raises(PermissionDeniedError):
        await services.ingestion.crawl(BOB, crawling(SITE))


async def test_a_crawl_that_takes_no_page_failed_and_says_why(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    job, [crawl] = await services.crawl(SITE)
    assert (job.state, job.failed_count) == (job_pb2.JOB_STATE_FAILED, 1)
    assert crawl.failure.reason == error_pb2.NO_PAGES


async def test_documents_of_a_caller_that_may_no_longer_write_are_not_taken_in(services: Services) -> None:
    await services.collections.create(ANN, new(readers=("*",), writers=("user:ann", "user:bob")))
    await services.ingest(GivenDocument("first", uri="a"), caller=ANN)
    taken = await services.ingestion.ingest(
        BOB, "docs", [GivenDocument("second", uri=uri) for uri in ("a", "b")], ""
    )
    await services.collections.update(ANN, change(access=ONLY_ANNS))
    _, items = await services.ended(taken.job, ANN)
    assert [item.failure.reason for item in items] == [error_pb2.COLLECTION_NOT_WRITABLE] * 2
    assert not any("second" in text for text in services.embedder.texts)


async def test_a_document_that_is_worked_on_is_not_stored_after_its_caller_may_no_longer_write(
    services: Services, may_go_on: threading.Event
) -> None:
    await services.collections.create(ANN, new(readers=("*",), writers=("user:ann", "user:bob")))
    taken = await services.ingestion.ingest(BOB, "docs", slow_documents(1), "")
    async with services.working(), asyncio.timeout(20):
        async for watched in services.jobs.watch(BOB, taken.job.job_id):
            if watched.job.HasField("start_time"):
                break
        await services.collections.update(ANN, change(access=ONLY_ANNS))
        may_go_on.set()
    _, [item] = await services.ended(taken.job, ANN)
    assert item.failure.reason == error_pb2.COLLECTION_NOT_WRITABLE


async def test_a_crawl_ends_when_who_asked_for_it_may_no_longer_write(start: Start) -> None:
    collector = FakeCollector(page("/a"), page("/b"), stays_at=1)
    services = start(collector)
    await services.collections.create(ANN, new(readers=("*",), writers=("user:ann", "user:bob")))
    job = (await services.ingestion.crawl(BOB, crawling(SITE))).job
    async with services.working(), asyncio.timeout(20):
        await collector.stays.wait()
        await services.collections.update(ANN, change(access=ONLY_ANNS))
        await collector.closed.wait()
        async for watched in services.jobs.watch(ANN, job.job_id):
            if watched.job.HasField("end_time"):
                break
    _, [item, *_] = await services.ended(job, ANN)
    assert item.failure.reason == error_pb2.COLLECTION_NOT_WRITABLE


@pytest.mark.parametrize(("settings", "allowed"), [({}, False), (PRIVATE, True)])
async def test_private_addresses_take_the_collection(
    start: Start, settings: Mapping[str, Any], allowed: bool
) -> None:
    collector = FakeCollector(page("/a"))
    services = start(collector)
    await services.collections.create(ANYBODY, new(settings=settings))
    await services.crawl(SITE)
    assert collector.private == [allowed]


async def test_one_clients_crawls_leave_places_to_others(start: Start) -> None:
    collector = FakeCollector(page("/a"), stays_at=0)
    services = start(collector, crawls=2)
    await services.collections.create(ANYBODY, new())
    for number in range(3):
        anns = pb.WebCrawl(start_url=f"https://ann.test/{number}")
        await services.ingestion.crawl(ANN, crawling(anns))
    bobs = pb.WebCrawl(start_url="https://bob.test/")
    await services.ingestion.crawl(BOB, crawling(bobs))
    async with services.working(), asyncio.timeout(20):
        while bobs.start_url not in collector.begun:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    # Both begin side by side, in any order.
    assert sorted(collector.begun) == ["https://ann.test/0", bobs.start_url]
