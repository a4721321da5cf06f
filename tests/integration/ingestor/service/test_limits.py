import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from email.message import EmailMessage
from functools import partial
from typing import Any

import pytest
from groundline.v1 import chat_pb2, document_pb2, error_pb2, job_pb2, quota_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding.ports import Vectors
from groundline_extraction.documents import GivenDocument
from groundline_indexing import preparation
from groundline_runtime.charges import charge
from groundline_runtime.errors import ResourceExhaustedError, UnavailableError
from groundline_runtime.quotas import Budgets, Spent
from groundline_tests.ingestor.services import (
    ANN,
    ANYBODY,
    BOB,
    STAFF,
    FakeCollector,
    FaultyEmbedder,
    Services,
    Start,
    new,
    page,
)
from structlog.testing import capture_logs

# --- faults of our own ---


async def test_an_unforeseen_error_ends_nothing(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    lease, failed = services.stores.queue.lease, False

    async def stumble(*arguments: Any, **named: Any) -> Any:
        nonlocal failed
        if not failed:
            failed = True
            raise RuntimeError("nobody foresaw this")
        return await lease(*arguments, **named)

    monkeypatch.setattr(services.stores.queue, "lease", stumble)
    await services.collections.create(ANYBODY, new())
    [item] = await services.ingest(GivenDocument("text", uri="a"))
    assert failed
    assert item.outcome == job_pb2.INGESTION_OUTCOME_CREATED


# --- uploads ---


async def test_an_upload_that_the_disk_has_no_room_for_can_be_tried_again_and_leaves_nothing(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk = partial(open, "/dev/full", "w+b", buffering=0)
    monkeypatch.setattr(preparation, "open_spool_file", lambda _: full_disk())
    await services.collections.create(ANYBODY, new())

    async def parts() -> AsyncGenerator[bytes]:
        yield b"A long text."

    described = GivenDocument("", uri="large.md")
    with pytest.raises(UnavailableError) as raised:
        await services.ingestion.upload(ANYBODY, "docs", described, parts(), "")
    assert raised.value.reason == "DISK_FULL"
    assert raised.value.retry_after_seconds
    assert not (await services.jobs.list(ANYBODY, pb.ListJobsRequest(collection_id="docs"))).jobs


# --- quotas ---


async def exhausted(call: Awaitable[Any]) -> Mapping[str, str]:
    with pytest.raises(ResourceExhaustedError) as raised:
        await call
    assert raised.value.reason == "QUOTA_EXHAUSTED"
    assert raised.value.metadata["quota"] in raised.value.message
    frees_itself = raised.value.metadata["quota"] == "jobs"
    assert (raised.value.wait_seconds is not None) == frees_itself
    return raised.value.metadata


class PricedEmbedder(FaultyEmbedder):
    """A model of which a token costs a cent."""

    def cost(self, tokens: int) -> float:
        return tokens / 100


async def test_documents_of_a_client_with_a_spent_budget_wait_until_it_begins_anew(start: Start) -> None:
    services = start(embedder=PricedEmbedder())
    services.stores.quotas.spending.budgets = Budgets(day_usd=0.05)
    await services.collections.create(ANYBODY, new())
    [item] = await services.ingest(GivenDocument("one two three four five six", uri="a"), caller=ANN)
    assert item.usage.cost_usd == pytest.approx(0.07)
    assert await services.stores.quotas.spending.spent(ANN.owner) == Spent(0.07, 0.07)
    with pytest.raises(ResourceExhaustedError) as refused:
        await services.ingestion.ingest(ANN, "docs", [GivenDocument("more", uri="b")], "")
    assert refused.value.metadata == {"quota": "cost_day", "used": "0.07", "limit": "0.05"}
    assert refused.value.retry_after_seconds
    [other] = await services.ingest(GivenDocument("another text", uri="c"), caller=BOB)
    assert other.outcome == job_pb2.INGESTION_OUTCOME_CREATED


async def test_documents_that_wait_while_their_budget_is_spent_are_not_embedded(start: Start) -> None:
    services = start(embedder=PricedEmbedder())
    services.stores.quotas.spending.budgets = Budgets(day_usd=0.05)
    await services.collections.create(ANYBODY, new())
    taken = await services.ingestion.ingest(ANN, "docs", [GivenDocument("text", uri="a")], "")
    await services.stores.quotas.spending.spend(ANN.owner, 0.05)
    _, [item] = await services.ended(taken.job, ANN)
    assert item.failure.reason == error_pb2.QUOTA_EXHAUSTED
    assert not services.embedder.texts


async def test_documents_cost_by_the_providers_count_each_its_share(start: Start) -> None:
    class Billed(PricedEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> Vectors:
            charge(chat_pb2.Usage(embedding_tokens=50 * len(texts), cost_usd=0.25 * len(texts)))
            return await super().embed_documents(texts)

    services = start(embedder=Billed())
    await services.collections.create(ANYBODY, new())
    jobs = [
        (await services.ingestion.ingest(caller, "docs", [GivenDocument(f"words {uri}", uri=uri)], "")).job
        for caller, uri in ((ANN, "a"), (BOB, "b"))
    ]
    for job, caller in zip(jobs, (ANN, BOB), strict=True):
        _, [item] = await services.ended(job, caller)
        assert item.usage == chat_pb2.Usage(embedding_tokens=50, cost_usd=0.25)
        services.stores.quotas.spending.budgets = Budgets(day_usd=1)
        assert (await services.stores.quotas.spending.spent(caller.owner)).day_usd == 0.25


async def test_a_spent_budget_stops_no_documents_that_cost_nothing(services: Services) -> None:
    services.stores.quotas.spending.budgets = Budgets(day_usd=0.05, all_day_usd=0.05)
    await services.stores.quotas.spending.spend(ANN.owner, 1.0)
    await services.collections.create(ANYBODY, new())
    [item] = await services.ingest(GivenDocument("text", uri="a"), caller=ANN)
    assert item.outcome == job_pb2.INGESTION_OUTCOME_CREATED
    assert not item.usage.HasField("cost_usd")


async def test_documents_without_a_known_price_do_not_count_and_the_log_says_so(start: Start) -> None:
    class Unpriced(FaultyEmbedder):
        def cost(self, tokens: int) -> None:
            return None

    services = start(embedder=Unpriced())
    services.stores.quotas.spending.budgets = Budgets(day_usd=0.05)
    await services.collections.create(ANYBODY, new())
    with capture_logs() as logged:
        items = await services.ingest(
            GivenDocument("text", uri="a"), GivenDocument("other", uri="b"), caller=ANN
        )
    assert not any(item.usage.HasField("cost_usd") for item in items)
    assert [entry["client"] for entry in logged if entry["event"] == "price_not_known"] == [ANN.owner]


async def test_what_is_within_a_document_counts(start: Start) -> None:
    services = start(max_documents_per_collection=2)
    await services.collections.create(ANYBODY, new())
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Hello", "ann@example.org"
    mail.set_content("Please see what is attached.\n")
    mail.add_attachment("one", filename="a.txt")
    fits = GivenDocument(mail.as_bytes(), uri="m.eml")
    mail.add_attachment("two", filename="b.txt")
    [item] = await services.ingest(GivenDocument(mail.as_bytes(), uri="m.eml"))
    assert item.failure.reason == error_pb2.QUOTA_EXHAUSTED
    items = await services.ingest(fits)
    assert [(one.uri, one.state) for one in items] == [
        ("m.eml", document_pb2.INGESTION_STATE_DONE),
        ("m.eml!/a.txt", document_pb2.INGESTION_STATE_DONE),
    ]


async def test_a_caller_creates_only_so_many_collections(start: Start) -> None:
    services = start(max_collections_per_caller=1)
    first = await services.collections.create(ANN, new("first", request_id="one"))
    assert await exhausted(services.collections.create(ANN, new("second"))) == {
        "quota": "collections",
        "used": "1",
        "limit": "1",
    }
    await services.collections.create(BOB, new("third"))
    # A retry makes none.
    assert await services.collections.create(ANN, new("first", request_id="one")) == first
    await services.collections.delete(ANN, "first")
    await services.collections.create(ANN, new("second"))
    await exhausted(services.collections.create(ANN, new("fourth")))


async def test_requests_at_once_create_no_more_collections_than_a_caller_may_have(start: Start) -> None:
    services = start(max_collections_per_caller=3)
    wanted = [services.collections.create(ANN, new(f"one-{number}")) for number in range(10)]
    answered = await asyncio.gather(*wanted, return_exceptions=True)
    refused = [one for one in answered if isinstance(one, ResourceExhaustedError)]
    assert (len(answered) - len(refused), len(refused)) == (3, 7)


async def test_a_caller_has_only_so_many_jobs_at_work(start: Start) -> None:
    services = start(max_jobs_per_caller=1)
    await services.collections.create(ANYBODY, new())
    taken = await services.ingestion.ingest(ANN, "docs", [GivenDocument("text", uri="a")], "one")
    hand_in = services.ingestion.ingest
    assert (await exhausted(hand_in(ANN, "docs", [GivenDocument("text", uri="b")], "")))["quota"] == "jobs"
    assert await hand_in(ANN, "docs", [GivenDocument("text", uri="a")], "one") == taken
    await hand_in(BOB, "docs", [GivenDocument("text", uri="b")], "")
    await services.ended(taken.job, ANN)
    await hand_in(ANN, "docs", [GivenDocument("text", uri="c")], "")


async def test_a_collection_holds_only_so_many_documents(start: Start) -> None:
    services = start(max_documents_per_collection=2)
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("one", uri="a"), GivenDocument("two", uri="b"))
    more = services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("three", uri="c")], "")
    assert await exhausted(more) == {"quota": "documents", "used": "2", "limit": "2"}
    [replaced] = await services.ingest(GivenDocument("other", uri="a"))
    assert replaced.outcome == job_pb2.INGESTION_OUTCOME_UPDATED


async def test_a_collection_holds_only_so_many_bytes(start: Start) -> None:
    services = start(max_bytes_per_collection=10)
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("12345678", uri="a"))
    more = services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("123", uri="b")], "")
    assert await exhausted(more) == {"quota": "bytes", "used": "8", "limit": "10"}
    await services.ingest(GivenDocument("1234567890", uri="a"))


async def test_a_crawl_ends_where_its_collection_is_full(start: Start) -> None:
    services = start(FakeCollector(page("/a", "One."), page("/b", "Two.")), max_documents_per_collection=1)
    await services.collections.create(ANYBODY, new())
    _, items = await services.crawl(pb.WebCrawl(start_url="https://example.com/"))
    reasons = [item.failure.reason for item in items if item.HasField("failure")]
    assert reasons == [error_pb2.QUOTA_EXHAUSTED]
    assert (await services.documents.stats(ANYBODY, "docs")).quotas[2].used == 1


async def test_stats_show_a_writer_its_own_quotas_and_an_administrator_the_collections(start: Start) -> None:
    services = start(max_documents_per_collection=3)
    request = new(readers=["user:ann", "user:bob", "user:carl"], writers=["user:ann"])
    request.settings.access.admins[:] = ["user:bob"]
    await services.collections.create(BOB, request)
    await services.ingest(GivenDocument("text", uri="a"), caller=ANN)
    assert not (await services.documents.stats(STAFF, "docs")).quotas
    assert [each.quota for each in (await services.documents.stats(ANN, "docs")).quotas] == [
        quota_pb2.QUOTA_COLLECTIONS,
        quota_pb2.QUOTA_JOBS,
    ]
    shown = {
        each.quota: (each.used, each.limit) for each in (await services.documents.stats(BOB, "docs")).quotas
    }
    assert shown[quota_pb2.QUOTA_DOCUMENTS] == (1, 3)
    assert shown[quota_pb2.QUOTA_COLLECTIONS] == (1, 1000)
    assert shown[quota_pb2.QUOTA_BYTES] == (4, 100 * 1024**3)
    assert shown[quota_pb2.QUOTA_JOBS] == (0, 1000)
