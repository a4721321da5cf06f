"""Crawls as jobs: a real site, real PostgreSQL, workers that are killed and jobs that are cancelled."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import json_format
from groundline.v1 import document_pb2, error_pb2, job_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_tests.ingestor.messages import EVERYONES_ACCESS, settings_of
from groundline_tests.ingestor.replica import collector, replica
from groundline_tests.ingestor.site import Site, serving
from groundline_tests.ingestor.worker_process import worker_process
from groundline_tests.listening import listening
from groundline_tests.runtime import refusal


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as site:
        yield site


@pytest.fixture
def handbook(site: Site) -> Site:
    site.put("/", "Welcome to the handbook.", "/leave", "/travel", "/secret/plan", "/gone")
    site.put("/leave", "Everybody has twenty-seven days of leave.", "/")
    site.put("/travel", "Travel is by train.", "/leave")
    site.put("/secret/plan", "Nobody is to read this.")
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /secret/"
    return site


@pytest.fixture(scope="module")
async def front(pool: Pool, database_url: str) -> AsyncIterator[Any]:
    """An ingestor that answers and does no work."""
    async with replica(pool, database_url, workers=0) as stub:
        yield stub


@pytest.fixture
async def collection_id(front: Any, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    settings = {"crawl": {"allowPrivateAddresses": True}, "access": EVERYONES_ACCESS}
    message = json_format.ParseDict(
        {"name": request.node.name[:60], "settings": settings}, pb.CreateCollectionRequest()
    )
    created = await front.CreateCollection(message)
    yield created.collection.collection_id
    await front.DeleteCollection(pb.DeleteCollectionRequest(collection_id=created.collection.collection_id))


async def crawl(stub: Any, collection_id: str, url: str, **options: Any) -> str:
    """Id of the job."""
    request = {"collectionId": collection_id, "crawl": {"startUrl": url, "delaySeconds": 0, **options}}
    answer = await stub.IngestDocuments(json_format.ParseDict(request, pb.IngestDocumentsRequest()))
    return str(answer.job.job_id)


async def ended(stub: Any, job_id: str) -> tuple[Any, list[Any]]:
    """Return the job and its items, when it has ended."""
    async with asyncio.timeout(60):
        async for _ in stub.WatchJob(pb.WatchJobRequest(job_id=job_id)):
            pass
    found = await stub.GetJob(pb.GetJobRequest(job_id=job_id, page_size=1000))
    return found.job, list(found.items)


def outcomes(items: list[Any]) -> dict[str, str]:
    """Return the outcomes or failures of all items but the crawl, by path."""
    return {
        "/" + item.uri.split("/", 3)[3]: error_pb2.ErrorReason.Name(item.failure.reason)
        if item.HasField("failure")
        else job_pb2.IngestionOutcome.Name(item.outcome).removeprefix("INGESTION_OUTCOME_")
        for item in items
        if not item.is_crawl
    }


async def documents(stub: Any, collection_id: str) -> list[Any]:
    return list((await stub.ListDocuments(pb.ListDocumentsRequest(collection_id=collection_id))).documents)


async def test_a_dry_run_tells_what_would_come_in_and_takes_nothing_in(
    front: Any, pool: Pool, database_url: str, collection_id: str, handbook: Site
) -> None:
    def request() -> Any:
        options = {"startUrl": f"{handbook.url}/", "delaySeconds": 0}
        asked = {"collectionId": collection_id, "crawl": options, "dryRun": True}
        return json_format.ParseDict(asked, pb.IngestDocumentsRequest())

    async with replica(pool, database_url) as stub:
        job, items = await ended(stub, (await front.IngestDocuments(request())).job.job_id)
        assert job.is_dry_run
        assert outcomes(items) == {
            "/": "CREATED",
            "/leave": "CREATED",
            "/travel": "CREATED",
            "/gone": "HTTP_STATUS",
        }
        assert await documents(stub, collection_id) == []

        await ended(stub, await crawl(front, collection_id, f"{handbook.url}/"))
        handbook.put("/leave", "Everybody has thirty days of leave.", "/")
        before = await documents(stub, collection_id)
        _, items = await ended(stub, (await front.IngestDocuments(request())).job.job_id)
        assert outcomes(items) == {
            "/": "UNCHANGED",
            "/leave": "UPDATED",
            "/travel": "UNCHANGED",
            "/gone": "HTTP_STATUS",
        }
        assert await documents(stub, collection_id) == before


@pytest.mark.parametrize(
    ("operator", "collection"), [(False, True), (True, False)], ids=["the operator", "the collection"]
)
async def test_a_private_address_is_not_reached_when_one_does_not_allow_it(
    pool: Pool, database_url: str, front: Any, handbook: Site, operator: bool, collection: bool
) -> None:
    request = pb.CreateCollectionRequest(
        collection_id="private", settings=settings_of({"access": EVERYONES_ACCESS})
    )
    request.settings.crawl.allow_private_addresses = collection
    await front.CreateCollection(request)
    async with replica(pool, database_url, collecting={"private_addresses": operator}) as stub:
        job, items = await ended(stub, await crawl(stub, "private", handbook.url))
    await front.DeleteCollection(pb.DeleteCollectionRequest(collection_id="private"))
    assert (job.state, outcomes(items)) == (job_pb2.JOB_STATE_FAILED, {"/": "ADDRESS_NOT_ALLOWED"})
    assert not handbook.asked


async def test_a_site_becomes_documents_and_what_has_not_changed_costs_nothing_again(
    pool: Pool, database_url: str, collection_id: str, handbook: Site
) -> None:
    async with replica(pool, database_url) as stub:
        job_id = await crawl(stub, collection_id, handbook.url)
        watched = [state.job async for state in stub.WatchJob(pb.WatchJobRequest(job_id=job_id))]
        job, items = await ended(stub, job_id)
        assert (watched[-1].state, watched[-1].chunks) == (job.state, job.chunks)
        assert items[0].is_crawl
        assert items[0].uri == f"{handbook.url}/"
        assert outcomes(items) == {
            "/": "CREATED",
            "/leave": "CREATED",
            "/travel": "CREATED",
            "/gone": "HTTP_STATUS",
        }
        assert (job.state, job.item_count) == (job_pb2.JOB_STATE_DONE, 4)
        assert (job.done_count, job.failed_count, job.cancelled_count) == (3, 1, 0)
        assert job.chunks.parsed == job.chunks.embedded == job.chunks.stored == 3
        assert "/secret/plan" not in handbook.asked
        found = await documents(stub, collection_id)
        assert [(one.uri, one.title, one.mime_type) for one in found] == [
            (f"{handbook.url}{path}", f"Page {path}", "text/html") for path in ("/", "/leave", "/travel")
        ]
        assert {passage_pb2.SourceType.Name(one.source_type) for one in found} == {"SOURCE_TYPE_WEB"}

        handbook.put("/travel", "Travel is by bicycle.", "/leave")
        _, items = await ended(stub, await crawl(stub, collection_id, handbook.url))
        assert outcomes(items) == {
            "/": "UNCHANGED",
            "/leave": "UNCHANGED",
            "/travel": "UPDATED",
            "/gone": "HTTP_STATUS",
        }


async def test_what_is_said_of_a_crawl_is_said_of_its_pages(
    pool: Pool, database_url: str, collection_id: str, handbook: Site
) -> None:
    said = {"metadata": {"site": "handbook", "year": 2024}, "allowedPrincipals": ["group:web"]}
    async with replica(pool, database_url) as stub:
        await ended(stub, await crawl(stub, collection_id, handbook.url, **said))
        assert await documents(stub, collection_id) == []
        request = pb.ListDocumentsRequest(collection_id=collection_id, filter_json='{"site": "handbook"}')
        web = (("x-groundline-principals", "group:web"),)
        found = list((await stub.ListDocuments(request, metadata=web)).documents)
        assert len(found) == 3
        for one in found:
            assert json_format.MessageToDict(one.metadata) == said["metadata"]
            assert one.allowed_principals == ["group:web"]


async def test_retrying_looks_again_for_the_pages_that_could_not_be_had(
    pool: Pool, database_url: str, collection_id: str, handbook: Site
) -> None:
    async with replica(pool, database_url) as stub:
        job_id = await crawl(stub, collection_id, handbook.url)
        await ended(stub, job_id)
        handbook.put("/gone", "It was away for a while.")
        await stub.RetryJob(pb.RetryJobRequest(job_id=job_id))
        job, items = await ended(stub, job_id)
        error = await refusal(stub.RetryJob(pb.RetryJobRequest(job_id=job_id)))
    assert outcomes(items)["/gone"] == "CREATED"
    assert (job.item_count, job.done_count, job.failed_count) == (4, 4, 0)
    assert error.reason == "NOTHING_TO_RETRY"


async def killed_while_it_crawls(database_url: str, handbook: Site) -> None:
    """Have a worker process crawl up to /travel, which the site holds, and kill it."""
    async with collector() as target:
        with worker_process(database_url, "crawling", target):
            await handbook.is_asked_for("/travel")


async def test_another_worker_begins_a_killed_ones_crawl_again_and_doubles_nothing(
    pool: Pool, database_url: str, front: Any, collection_id: str, handbook: Site
) -> None:
    hold = handbook.hold("/travel")
    job_id = await crawl(front, collection_id, handbook.url)
    await killed_while_it_crawls(database_url, handbook)
    hold.set()
    begun = await front.GetJob(pb.GetJobRequest(job_id=job_id))
    assert begun.job.state == job_pb2.JOB_STATE_RUNNING
    assert begun.job.item_count == 2
    async with replica(pool, database_url) as stub:
        job, items = await ended(stub, job_id)
    assert items[0].attempts == 2
    assert [item.uri.removeprefix(handbook.url) for item in items] == ["/", "/", "/leave", "/travel", "/gone"]
    assert (job.done_count, job.failed_count) == (3, 1)
    assert len(await documents(front, collection_id)) == 3


async def test_another_worker_goes_on_with_a_killed_ones_run_of_a_source_and_doubles_nothing(
    pool: Pool, database_url: str, front: Any, collection_id: str, handbook: Site
) -> None:
    hold = handbook.hold("/travel")
    source = {"name": "handbook", "web": {"startUrl": handbook.url, "delaySeconds": 0}}
    request = {"collectionId": collection_id, "source": source}
    created = await front.CreateSource(json_format.ParseDict(request, pb.CreateSourceRequest()))
    run = pb.RunSourceRequest(collection_id=collection_id, source_id=created.source.source_id)
    job_id = (await front.RunSource(run)).job.job_id
    await killed_while_it_crawls(database_url, handbook)
    hold.set()
    assert (await front.RunSource(run)).job.job_id == job_id
    async with replica(pool, database_url) as stub:
        job, items = await ended(stub, job_id)
    assert items[0].attempts == 2
    assert (job.done_count, job.failed_count) == (3, 1)
    assert len(await documents(front, collection_id)) == 3


async def test_a_crawl_that_takes_longer_than_a_lease_is_not_begun_twice(
    pool: Pool, database_url: str, front: Any, collection_id: str, handbook: Site
) -> None:
    hold = handbook.hold("/leave")
    async with replica(pool, database_url) as stub, replica(pool, database_url):
        job_id = await crawl(stub, collection_id, handbook.url)
        await handbook.is_asked_for("/leave")
        await asyncio.sleep(1.6)  # longer than a lease: nothing else shows that it was extended
        hold.set()
        _, items = await ended(front, job_id)
    assert items[0].attempts == 1
    assert handbook.asked.count("/leave") == 1


async def test_a_cancelled_crawl_ends_while_it_waits_and_can_be_retried(
    pool: Pool, database_url: str, front: Any, collection_id: str, handbook: Site
) -> None:
    hold = handbook.hold("/leave")
    async with replica(pool, database_url, crawls=1) as stub:
        job_id = await crawl(stub, collection_id, handbook.url)
        await handbook.is_asked_for("/leave")
        cancelled = (await stub.CancelJob(pb.CancelJobRequest(job_id=job_id))).job
        assert cancelled.state == job_pb2.JOB_STATE_CANCELLED
        # The only crawl that the replica does at a time ends, although the site holds it: the next begins.
        other = await crawl(stub, collection_id, f"{handbook.url}/travel", maxPages=1)
        await ended(stub, other)
        assert not hold.is_set()
        hold.set()
        await stub.RetryJob(pb.RetryJobRequest(job_id=job_id))
        job, items = await ended(stub, job_id)
    assert job.state == job_pb2.JOB_STATE_DONE
    assert set(outcomes(items)) == {"/", "/leave", "/travel", "/gone"}


async def test_a_page_being_added_is_cancelled_as_well(pool: Pool, front: Any, collection_id: str) -> None:
    job_id = await crawl(front, collection_id, "https://site.test/")
    async with acquire(pool) as adding, acquire(pool) as looking:
        async with adding.transaction():
            await adding.execute(
                "SELECT FROM ingestion_items WHERE job_id = $1::uuid AND item_index = 0 FOR UPDATE", job_id
            )
            await adding.execute(
                """
                INSERT INTO ingestion_items (job_id, item_index, collection_id, uri, state, is_page)
                VALUES ($1::uuid, 1, $2, 'https://site.test/one', 'queued', true)
                """,
                job_id,
                collection_id,
            )
            cancelling = asyncio.ensure_future(front.CancelJob(pb.CancelJobRequest(job_id=job_id)))
            async with asyncio.timeout(20):
                while not await looking.fetchval(  # noqa: ASYNC110 - the database tells nobody
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                    "AND datname = current_database()"
                ):
                    await asyncio.sleep(0.02)
        job = (await cancelling).job
    assert (job.state, job.cancelled_count) == (job_pb2.JOB_STATE_CANCELLED, 2)


async def test_cancelled_runs_of_servers_that_never_end_hold_up_nobody(
    pool: Pool, database_url: str, front: Any, collection_id: str
) -> None:
    connected = asyncio.Queue[None]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n")
        connected.put_nowait(None)
        with suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.1)
        writer.close()

    count = 8  # more than the default executor of a small machine has threads
    async with (
        listening(answer) as port,
        # One client runs in half of the places.
        replica(pool, database_url, crawls=2 * count) as stub,
    ):
        url = f"http://127.0.0.1:{port}/"
        sources = []
        for number in range(count):
            source = {"name": f"feed-{number}", "feed": {"url": url}}
            request = {"collectionId": collection_id, "source": source}
            created = await stub.CreateSource(json_format.ParseDict(request, pb.CreateSourceRequest()))
            sources.append(created.source.source_id)
        async with asyncio.timeout(60):
            for _ in sources:
                await connected.get()
        for source_id in sources:
            run = pb.RunSourceRequest(collection_id=collection_id, source_id=source_id)
            job_id = (await stub.RunSource(run)).job.job_id
            await stub.CancelJob(pb.CancelJobRequest(job_id=job_id))
        given = {"collectionId": collection_id, "documents": [{"uri": "a", "text": "A text."}]}
        answered = await stub.IngestDocuments(json_format.ParseDict(given, pb.IngestDocumentsRequest()))
        job, _ = await ended(stub, answered.job.job_id)
    assert job.done_count == 1


async def test_a_crawl_whose_collector_is_lost_is_put_off_at_no_cost_and_goes_on(
    pool: Pool, database_url: str, collection_id: str, handbook: Site
) -> None:
    async with collector() as target:
        port = int(target.rpartition(":")[2])
    async with replica(pool, database_url, collector_target=target, max_attempts=1) as stub:
        job_id = await crawl(stub, collection_id, handbook.url)
        async with asyncio.timeout(30):
            while True:
                found = await stub.GetJob(pb.GetJobRequest(job_id=job_id))
                if found.items[0].HasField("failure"):
                    break
                await asyncio.sleep(0.05)
        assert found.items[0].failure.reason == error_pb2.SERVICE_UNAVAILABLE
        assert found.items[0].state != document_pb2.INGESTION_STATE_FAILED
        async with collector(port=port):
            job, _ = await ended(stub, job_id)
    assert (job.state, job.done_count) == (job_pb2.JOB_STATE_DONE, 3)
