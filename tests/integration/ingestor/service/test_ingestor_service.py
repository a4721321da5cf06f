"""The use cases over the stores: what is refused, what is isolated, what is left alone."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from email.message import EmailMessage
from functools import partial
from typing import Any, Protocol

import pytest
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from groundline.v1 import collector_service_pb2 as collector_pb
from groundline.v1 import document_pb2, error_pb2, job_pb2, options_pb2, passage_pb2, quota_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_embedding.ports import Vectors
from groundline_extraction.documents import GivenDocument
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.segments import SEGMENT_CHARACTERS
from groundline_extraction.texts import TextStream
from groundline_indexing import preparation
from groundline_ingestor.__main__ import wire_on, working
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.ports import Collected, Collector, SeenPages
from groundline_ingestor.service import jobs
from groundline_ingestor.service.collections import CollectionService
from groundline_ingestor.service.documents import DocumentService
from groundline_ingestor.service.ingestion import IngestionService
from groundline_ingestor.service.jobs import JobService
from groundline_ingestor.service.reindex import ReindexService
from groundline_ingestor.service.worker import upkeep
from groundline_ingestor.service.worker.items import ITEMS_PER_CLIENT, PREPARED_ITEMS, Work
from groundline_ingestor.service.worker.leases import Leases, Shares
from groundline_ingestor.service.worker.ready import ReadyWork
from groundline_ingestor.service.worker.worker import Worker
from groundline_ingestor.settings import IngestorSettings
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_runtime.paging import PageTokens
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.messages import settings_of
from groundline_tests.metrics import Metrics
from pydantic import SecretStr
from structlog.testing import capture_logs

ANYBODY, ANN, BOB = Caller(), Caller(("user:ann",)), Caller(("user:bob",))
STAFF = Caller(("user:carl", "group:staff"))
POISON = "poison"


ONLY_ANNS: Mapping[str, Any] = {"readers": ["*"], "writers": ["user:ann"], "admins": ["user:ann"]}
NO_OUTCOME = job_pb2.INGESTION_OUTCOME_UNSPECIFIED

type Ended = tuple[job_pb2.IngestionJob, Sequence[job_pb2.IngestionItem]]


class FaultyEmbedder(FakeEmbedder):
    """Refuses texts that hold POISON; notes how many texts it was given at once."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.texts: list[str] = []

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(len(texts))
        self.texts += texts
        if any(POISON in text for text in texts):
            raise ValueError(f"cannot embed {texts!r}")
        return await super().embed_documents(texts)


@dataclass
class Services:
    settings: IngestorSettings
    stores: Stores
    embedder: FaultyEmbedder
    collections: CollectionService
    documents: DocumentService
    ingestion: IngestionService
    jobs: JobService
    reindex: ReindexService
    worker: Worker

    def working(self) -> AbstractAsyncContextManager[None]:
        """Have the worker at work while within."""
        return working(self.worker, self.settings)

    async def ingest(
        self,
        *inputs: GivenDocument,
        collection_id: str = "docs",
        caller: Caller = ANYBODY,
        request_id: str = "",
    ) -> Sequence[job_pb2.IngestionItem]:
        _, items = await self.ingest_job(
            *inputs, collection_id=collection_id, caller=caller, request_id=request_id
        )
        return items

    async def ingest_job(
        self,
        *inputs: GivenDocument,
        collection_id: str = "docs",
        caller: Caller = ANYBODY,
        request_id: str = "",
    ) -> Ended:
        """Hand in and work until the job has ended."""
        taken = await self.ingestion.ingest(caller, collection_id, inputs, request_id)
        return await self.ended(taken.job, caller)

    async def crawl(self, crawl: pb.WebCrawl) -> Ended:
        """Crawl and work until the job has ended."""
        return await self.ended((await self.ingestion.crawl(ANYBODY, crawling(crawl))).job)

    async def ended(self, job: job_pb2.IngestionJob, caller: Caller = ANYBODY) -> Ended:
        """Work until the job has ended."""
        async with self.working(), asyncio.timeout(20):
            states = [state.job async for state in self.jobs.watch(caller, job.job_id)]
        return states[-1], await self.stores.jobs.items(job.job_id, None, after=-1, limit=1000)


def new(
    collection_id: str = "docs",
    *,
    name: str = "",
    request_id: str = "",
    readers: Sequence[str] = (),
    writers: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> pb.CreateCollectionRequest:
    """Return a collection, everyone's unless named; writers may administer it."""
    chosen = settings_of(settings or {})
    chosen.access.readers.extend(readers or ("*",))
    for more in (chosen.access.writers, chosen.access.admins):
        more.extend(writers or readers or ("*",))
    return pb.CreateCollectionRequest(
        collection_id=collection_id, name=name, settings=chosen, request_id=request_id
    )


def change(name: str = "", **settings: Any) -> pb.UpdateCollectionRequest:
    """Return a change of the collection docs; `settings` by their JSON names."""
    return pb.UpdateCollectionRequest(collection_id="docs", name=name, settings=settings_of(settings))


def crawling(crawl: pb.WebCrawl) -> pb.IngestDocumentsRequest:
    return pb.IngestDocumentsRequest(collection_id="docs", crawl=crawl)


class FakeCollector:
    """A Collector of a site that the test sets; after `stays_at` pages it waits for what does not come."""

    def __init__(
        self, *found: GivenDocument | collector_pb.SourceChange, stays_at: int | None = None
    ) -> None:
        self.found = found
        self.stays_at = stays_at
        self.private: list[bool] = []
        self.begun: list[str] = []
        self.stays = asyncio.Event()
        self.closed = asyncio.Event()

    async def changes(
        self, start: collector_pb.CollectStart, pages: SeenPages | None = None
    ) -> AsyncGenerator[Collected, None]:
        self.private.append(start.private_addresses)
        self.begun.append(start.source.web.start_url)
        try:
            for number, one in enumerate(self.found):
                if number == self.stays_at:
                    self.stays.set()
                    await asyncio.Event().wait()
                if isinstance(one, GivenDocument):
                    change = collector_pb.SourceChange(found=collector_pb.FoundDocument(uri=one.uri))
                    yield Collected((change,), partial(self._load, change.found, one))
                else:
                    yield Collected((one,), partial(self._load, None, None))
        finally:
            self.closed.set()

    async def _load(self, found: Any, given: Any, positions: Sequence[int]) -> AsyncGenerator[Any, None]:
        for _ in positions:
            yield found, given

    async def require_available(self, source: Any) -> None:
        raise NotImplementedError

    async def send(self, delivery: Any) -> None:
        raise NotImplementedError


class Start(Protocol):
    """Makes the use cases and a worker that is not at work; `settings` are the ingestor's."""

    def __call__(
        self, collector: Collector | None = None, embedder: FaultyEmbedder | None = None, **settings: Any
    ) -> Services: ...


@pytest.fixture
def start(stores: Stores, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    with Sandbox(ReaderLimits()) as sandbox:

        def start(
            collector: Collector | None = None, embedder: FaultyEmbedder | None = None, **settings: Any
        ) -> Services:
            chosen = IngestorSettings(
                database_url=SecretStr(database_url),
                **{"workers": 1, "max_document_bytes": 20_000, "max_chunks_per_document": 10, **settings},
            )
            embedder = embedder or FaultyEmbedder()
            monkeypatch.setattr(jobs, "WATCH_SECONDS", 0.02)
            page_tokens = PageTokens(bytes(32))
            servicer, worker = wire_on(
                chosen, stores, embedder, sandbox, page_tokens, collector=collector or FakeCollector()
            )
            return Services(
                chosen,
                stores,
                embedder,
                servicer._collections,
                servicer._documents,
                servicer._ingestion,
                servicer._jobs,
                servicer._reindex,
                worker,
            )

        yield start


@pytest.fixture
def services(start: Start) -> Services:
    return start()


# --- collections ---


async def test_another_model_than_the_running_one_is_refused_by_both_names(services: Services) -> None:
    with pytest.raises(FailedPreconditionError) as raised:
        await services.collections.create(ANYBODY, new(settings={"embedding": {"model": "gemini-embedding"}}))
    assert raised.value.reason == "EMBEDDING_MODEL_MISMATCH"
    assert "gemini-embedding" in raised.value.message
    assert services.embedder.model in raised.value.message


async def test_contexts_by_a_model_take_a_generator(services: Services) -> None:
    settings = {"contextualization": {"mode": "CONTEXTUALIZATION_MODE_LLM"}}
    await services.collections.create(ANYBODY, new(settings=settings))
    with pytest.raises(FailedPreconditionError) as raised:
        await services.ingest(GivenDocument("text"))
    assert raised.value.reason == "GENERATOR_NOT_CONFIGURED"


async def test_settings_that_do_not_fit_each_other_are_refused_also_by_a_change(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkOverlap": 150}}))
    with pytest.raises(InvalidArgumentError) as raised:
        await services.collections.update(ANYBODY, change(chunking={"chunkSize": 200}))
    assert [violation.field for violation in raised.value.violations] == ["settings.chunking.chunk_overlap"]


async def test_a_request_id_opens_no_other_collection_and_is_not_known_to_others(services: Services) -> None:
    await services.collections.create(ANN, new("private", readers=("user:ann",), request_id="r"))
    with pytest.raises(AlreadyExistsError) as raised:
        await services.collections.create(ANN, new("other", request_id="r"))
    assert raised.value.reason == "REQUEST_ID_USED"
    for request_id in ("r", ""):
        with pytest.raises(AlreadyExistsError) as raised:
            await services.collections.create(BOB, new("private", request_id=request_id))
        assert raised.value.reason == "COLLECTION_EXISTS"
    assert (await services.collections.create(BOB, new("other", request_id="r"))).collection_id == "other"


async def test_a_request_id_is_its_callers_own_and_swallows_no_others_request(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    first, second = [
        (await services.ingest_job(GivenDocument("text", uri=uri), caller=caller, request_id="r"))[0]
        for caller, uri in ((ANN, "a"), (BOB, "b"))
    ]
    assert first.job_id != second.job_id
    repeated, _ = await services.ingest_job(GivenDocument("more", uri="c"), caller=ANN, request_id="r")
    assert repeated.job_id == first.job_id

    for caller, uri in ((ANN, "a"), (BOB, "b")):
        request = pb.DeleteDocumentsRequest(collection_id="docs", request_id="r")
        request.filter.update({"$uri": uri})
        assert await services.documents.delete_selected(caller, request) == 1


async def test_who_may_use_a_collection_of_a_caller_without_principals_has_to_be_said(
    services: Services,
) -> None:
    request = pb.CreateCollectionRequest(
        collection_id="docs", settings=settings_of({"access": {"writers": ["user:ann"]}})
    )
    with pytest.raises(InvalidArgumentError) as raised:
        await services.collections.create(ANYBODY, request)
    assert [violation.field for violation in raised.value.violations] == [
        "settings.access.readers",
        "settings.access.admins",
    ]


async def test_a_collection_is_its_creators_unless_others_are_named(services: Services) -> None:
    created = await services.collections.create(STAFF, pb.CreateCollectionRequest(collection_id="docs"))
    access = created.settings.access
    assert access.readers == access.writers == access.admins == ["user:carl"]
    for stranger in (ANYBODY, ANN, Caller(("group:staff",))):
        with pytest.raises(NotFoundError):
            await services.collections.get(stranger, "docs")
    shared = await services.collections.update(STAFF, change(access={"readers": ["*", "user:ann"]}))
    assert shared.settings.access.readers == ["*"]
    assert (await services.collections.get(ANYBODY, "docs")).collection_id == "docs"
    taken_back = pb.UpdateCollectionRequest(
        collection_id="docs", update_mask=FieldMask(paths=["settings.access"])
    )
    assert (await services.collections.update(STAFF, taken_back)).settings.access == access


@pytest.mark.parametrize(
    ("access", "wrong"),
    [
        ({"readers": ["user:bob"], "writers": ["*"]}, ["readers"]),
        ({"readers": ["*"], "admins": ["*"]}, ["writers"]),
        ({"writers": ["*"], "admins": ["*"]}, ["readers"]),
        ({"admins": ["*", "user:ann"]}, ["writers"]),
    ],
)
async def test_what_everyone_may_write_cannot_be_kept_from_readers(
    services: Services, access: dict[str, Any], wrong: list[str]
) -> None:
    request = pb.CreateCollectionRequest(collection_id="docs", settings=settings_of({"access": access}))
    with pytest.raises(InvalidArgumentError) as raised:
        await services.collections.create(ANN, request)
    assert [one.field.removeprefix("settings.access.") for one in raised.value.violations] == wrong
    await services.collections.create(ANN, new())
    restricting = change(access={"readers": ["user:ann"]})
    with pytest.raises(InvalidArgumentError):
        await services.collections.update(ANN, restricting)


async def test_administering_is_a_right_of_its_own(services: Services) -> None:
    access = {"readers": ["user:bob"], "writers": ["user:ann"], "admins": ["user:carl"]}
    request = pb.CreateCollectionRequest(collection_id="docs", settings=settings_of({"access": access}))
    await services.collections.create(STAFF, request)
    for caller in (ANN, BOB):
        for call in (
            services.collections.update(caller, change(name="mine")),
            services.collections.update(caller, change(access={"admins": ["user:ann", "user:bob"]})),
            services.collections.delete(caller, "docs"),
            services.reindex.begin(caller, pb.ReindexCollectionRequest(collection_id="docs")),
        ):
            with pytest.raises(PermissionDeniedError) as raised:
                await call
            assert raised.value.reason == "COLLECTION_NOT_ADMINISTRABLE"
    assert await services.ingest(GivenDocument("text"), caller=ANN)
    # An admin could give itself the others.
    assert await services.ingest(GivenDocument("text"), caller=STAFF)
    assert (await services.collections.update(STAFF, change(name="ours"))).name == "ours"
    await services.collections.delete(STAFF, "docs")


async def test_what_a_caller_may_not_read_it_cannot_overwrite(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    secret = GivenDocument("secret", uri="plan.md", allowed_principals=("user:ann",))
    [before] = await services.ingest(secret, caller=ANN)
    for attempt in (GivenDocument("mine", uri="plan.md"), replace(secret, allowed_principals=())):
        job, [item] = await services.ingest_job(attempt, caller=BOB)
        assert (job.state, item.failure.reason) == (job_pb2.JOB_STATE_FAILED, error_pb2.DOCUMENT_NOT_WRITABLE)
    document = await services.documents.get(ANN, "docs", before.document_id)
    assert document.state == document_pb2.INGESTION_STATE_DONE
    assert document.allowed_principals == ["user:ann"]


async def test_who_hands_in_again_what_only_others_may_read_is_told_which_key_it_takes(
    services: Services,
) -> None:
    """As `groundline sync` does with a file whose description names none of the key's principals."""
    await services.collections.create(ANYBODY, new())
    restricted = GivenDocument("secret", uri="plan.md", allowed_principals=("user:ann",))
    await services.ingest(restricted, caller=BOB)
    _, [refused] = await services.ingest_job(restricted, caller=BOB)
    assert refused.failure.reason == error_pb2.DOCUMENT_NOT_WRITABLE
    assert "with a key of one of user:ann" in refused.failure.message
    _, [unchanged] = await services.ingest_job(restricted, caller=ANN)
    assert unchanged.outcome == job_pb2.INGESTION_OUTCOME_UNCHANGED


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


@pytest.mark.parametrize("settings", [{"embedding": {"model": "other"}}, {"lexical": {"language": "german"}}])
async def test_what_needs_a_new_index_is_not_just_changed(
    services: Services, settings: dict[str, Any]
) -> None:
    await services.collections.create(ANYBODY, new())
    with pytest.raises(FailedPreconditionError) as raised:
        await services.collections.update(ANYBODY, change(**settings))
    assert raised.value.reason == "REINDEX_REQUIRED"


async def test_what_may_not_be_read_does_not_exist(services: Services) -> None:
    await services.collections.create(ANN, new(readers=("user:ann",)))
    for call in (
        services.collections.get(BOB, "docs"),
        services.collections.update(BOB, change(name="x")),
        services.collections.delete(BOB, "docs"),
        services.ingest(GivenDocument("text"), caller=BOB),
        services.documents.list(BOB, pb.ListDocumentsRequest(collection_id="docs")),
        services.jobs.list(BOB, pb.ListJobsRequest(collection_id="docs")),
    ):
        with pytest.raises(NotFoundError) as raised:
            await call
        assert raised.value.reason == "COLLECTION_NOT_FOUND"


async def test_what_may_only_be_read_may_not_be_changed(services: Services) -> None:
    await services.collections.create(ANN, new(writers=("user:ann",)))
    [item] = await services.ingest(GivenDocument("text"), caller=ANN)
    assert item.document_id
    for call in (
        services.collections.update(BOB, change(name="x")),
        services.collections.delete(BOB, "docs"),
        services.ingest(GivenDocument("text"), caller=BOB),
        services.documents.delete(BOB, "docs", item.document_id),
    ):
        with pytest.raises(PermissionDeniedError):
            await call
    assert (await services.collections.get(BOB, "docs")).document_count == 1


async def test_an_update_changes_what_it_names(services: Services) -> None:
    created = await services.collections.create(ANN, new(name="Docs", settings={"rerank": {"topK": 5}}))
    access = {"readers": ["user:ann"], "writers": ["user:ann"], "admins": ["user:ann"]}
    updated = await services.collections.update(ANN, change(rerank={"rrfK": 10}, access=access))
    assert (updated.name, updated.settings.rerank) == ("Docs", options_pb2.RerankOptions(top_k=5, rrf_k=10))
    assert updated.settings.access.readers == ["user:ann"]
    assert updated.settings.embedding == created.settings.embedding


# --- ingestion ---


async def test_vectors_of_another_model_are_not_mixed_in(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    services.embedder.model = "another"
    with pytest.raises(FailedPreconditionError) as raised:
        await services.ingest(GivenDocument("text"))
    assert raised.value.reason == "EMBEDDING_MODEL_MISMATCH"


async def test_a_failing_document_does_not_touch_the_others(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkSize": 50}}))
    job, items = await services.ingest_job(
        *[
            GivenDocument("good one", uri="1"),
            GivenDocument("", uri="2"),
            GivenDocument("nul \x00", uri="3"),
            GivenDocument(f"a {POISON} word", uri="4"),
            GivenDocument("x" * 20_001, uri="5"),
            GivenDocument("word " * 200, uri="6"),
            GivenDocument(b"%PDF-", uri="7"),
            GivenDocument("good two", uri="8"),
        ]
    )
    assert [(item.uri, item.failure.reason or item.outcome) for item in items] == [
        ("1", job_pb2.INGESTION_OUTCOME_CREATED),
        ("2", error_pb2.EMPTY_TEXT),
        ("3", error_pb2.INVALID_TEXT),
        ("4", error_pb2.INTERNAL),
        ("5", error_pb2.DOCUMENT_TOO_LARGE),
        ("6", error_pb2.TOO_MANY_CHUNKS),
        ("7", error_pb2.CORRUPT_DOCUMENT),
        ("8", job_pb2.INGESTION_OUTCOME_CREATED),
    ]
    stages = [item.failure.stage for item in items if item.HasField("failure")]
    assert stages[2] == document_pb2.INGESTION_STATE_EMBEDDING
    assert stages[4] == document_pb2.INGESTION_STATE_CHUNKING
    assert (job.state, job.done_count, job.failed_count) == (job_pb2.JOB_STATE_DONE, 2, 6)
    assert items[3].chunks.parsed == 1
    assert items[3].chunks.embedded == 0


async def test_no_text_of_a_document_is_logged(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    with capture_logs() as logs:
        await services.ingest(
            GivenDocument(f"a {POISON} secret", uri="private.md", title="confidential"),
            GivenDocument("another secret"),
        )
    [failed] = [entry for entry in logs if entry["event"] == "document_failed"]
    assert failed["error"] == "ValueError"
    for word in (POISON, "secret", "private", "confidential"):
        assert word not in str(logs)


async def test_a_job_without_a_done_document_failed(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    job, _ = await services.ingest_job(GivenDocument("", uri="1"))
    assert job.state == job_pb2.JOB_STATE_FAILED
    assert job.HasField("end_time")


async def test_a_request_has_no_more_documents_than_the_setting_allows(start: Start) -> None:
    services = start(max_documents_per_request=3)
    with pytest.raises(InvalidArgumentError) as raised:
        await services.ingest(*[GivenDocument("x")] * 4)
    assert [violation.field for violation in raised.value.violations] == ["documents"]


async def test_the_content_is_hashed_once(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    await services.collections.create(ANYBODY, new())
    taken = await services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("text", uri="1")], "")
    monkeypatch.setattr(preparation, "content_hash", lambda content: pytest.fail("it was hashed at hand-in"))
    _, [item] = await services.ended(taken.job)
    assert item.outcome == job_pb2.INGESTION_OUTCOME_CREATED


async def test_the_same_again_is_left_alone(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    given = [GivenDocument("one", uri="1"), GivenDocument("two")]
    first = await services.ingest(*given)
    services.embedder.calls.clear()
    again = await services.ingest(*given)
    assert [item.outcome for item in again] == [job_pb2.INGESTION_OUTCOME_UNCHANGED] * 2
    assert [item.document_id for item in again] == [item.document_id for item in first]
    assert services.embedder.calls == []


async def test_metadata_and_principals_change_without_embedding(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("one", uri="1"))
    services.embedder.calls.clear()
    metadata = {"team": ["ops", 1, 2.5, None]}
    [item] = await services.ingest(
        GivenDocument("one", uri="1", metadata=metadata, allowed_principals=("user:ann",))
    )
    assert item.outcome == job_pb2.INGESTION_OUTCOME_UPDATED
    assert services.embedder.calls == []
    document = await services.documents.get(ANN, "docs", item.document_id)
    assert json_format.MessageToDict(document.metadata) == metadata
    assert document.allowed_principals == ["user:ann"]
    assert [chunk.text for chunk in await chunks_of(services, item.document_id, ANN)] == ["one"]
    with pytest.raises(NotFoundError):
        await chunks_of(services, item.document_id)


async def test_a_changed_setting_makes_the_same_content_new(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("word " * 60, uri="1"))
    await services.collections.update(ANYBODY, change(chunking={"chunkSize": 100}))
    [item] = await services.ingest(GivenDocument("word " * 60, uri="1"))
    assert item.outcome == job_pb2.INGESTION_OUTCOME_UPDATED
    assert item.chunks.stored > 1


async def test_of_a_uri_handed_in_twice_the_later_content_stays(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    first, second = await services.ingest(GivenDocument("old", uri="1"), GivenDocument("new", uri="1"))
    assert (first.outcome, second.outcome) == (
        job_pb2.INGESTION_OUTCOME_CREATED,
        job_pb2.INGESTION_OUTCOME_UPDATED,
    )
    assert first.document_id == second.document_id
    assert first.document_id
    assert [chunk.text for chunk in await chunks_of(services, first.document_id)] == ["new"]


async def test_the_same_request_returns_the_same_job(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    calls = [
        services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("one", uri="1")], "r") for _ in range(3)
    ]
    at_once = await asyncio.gather(*calls)
    later = await services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("two", uri="2")], "r")
    assert len({taken.job.job_id for taken in [*at_once, later]}) == 1


async def test_small_documents_are_embedded_together(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    items = await services.ingest(
        *(GivenDocument(f"text {number}", uri=f"{number:03}") for number in range(300))
    )
    assert sum(services.embedder.calls) == 300
    assert max(services.embedder.calls) <= 256
    assert len(services.embedder.calls) < 100
    assert [item.item_index for item in items] == list(range(300))


@pytest.mark.parametrize(
    ("given", "title"),
    [
        (GivenDocument("# *First*\n\n# Second", uri="a/b.md", title="Given"), "Given"),
        (GivenDocument("text\n\n# *First*\n\n# Second", uri="a/b.md"), "First"),
        (GivenDocument("text", uri="a/b.md"), "b.md"),
    ],
)
async def test_a_title_is_given_or_the_first_heading_or_the_last_part_of_the_uri(
    services: Services, given: GivenDocument, title: str
) -> None:
    await services.collections.create(ANYBODY, new())
    [item] = await services.ingest(given)
    assert item.document_id
    assert (await services.documents.get(ANYBODY, "docs", item.document_id)).title == title


async def test_structural_context_is_embedded_and_indexed_but_not_part_of_the_text(
    services: Services, pool: Pool
) -> None:
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkSize": 50}}))
    text = "# Guide\n\n## Linux\n\n" + "Install the camelCase package first. " * 3
    [item] = await services.ingest(GivenDocument(text, uri="docs/guide.md"))
    assert item.document_id
    chunk = (await chunks_of(services, item.document_id))[-1]
    assert chunk.context == "docs/guide.md\nGuide > Linux"
    assert text[chunk.start_offset : chunk.end_offset] == chunk.text
    assert f"{chunk.context}\n\n{chunk.text}" in services.embedder.texts
    async with acquire(pool) as connection:
        words = await connection.fetchval(
            "SELECT lexical_text FROM chunks WHERE chunk_id = $1", int(chunk.chunk_id)
        )
    assert "camel" in words.split()


# --- documents and jobs ---


async def chunks_of(
    services: Services, document_id: str, caller: Caller = ANYBODY
) -> Sequence[passage_pb2.Chunk]:
    request = pb.ListChunksRequest(collection_id="docs", document_id=document_id, page_size=100)
    return (await services.documents.chunks(caller, request)).chunks


async def listed(services: Services, **page: Any) -> Sequence[document_pb2.Document]:
    request = pb.ListDocumentsRequest(collection_id="docs", **page)
    return (await services.documents.list(ANN, request)).documents


async def test_a_document_for_others_does_not_exist(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    [item] = await services.ingest(GivenDocument("text", uri="1", allowed_principals=("user:ann",)))
    assert item.document_id
    for call in (
        services.documents.get(BOB, "docs", item.document_id),
        services.documents.delete(BOB, "docs", item.document_id),
    ):
        with pytest.raises(NotFoundError) as raised:
            await call
        assert raised.value.reason == "DOCUMENT_NOT_FOUND"
    await services.documents.delete(ANN, "docs", item.document_id)
    assert not await listed(services)


async def test_a_job_of_an_unreadable_collection_does_not_exist(services: Services) -> None:
    await services.collections.create(ANN, new(readers=("user:ann",)))
    job = (await services.ingestion.ingest(ANN, "docs", [GivenDocument("text")], "")).job
    for call in (
        services.jobs.get(BOB, pb.GetJobRequest(job_id=job.job_id)),
        anext(services.jobs.watch(BOB, job.job_id)),
        services.jobs.cancel(BOB, job.job_id),
        services.jobs.retry(BOB, job.job_id),
    ):
        with pytest.raises(NotFoundError) as raised:
            await call
        assert raised.value.reason == "JOB_NOT_FOUND"
    assert not (await services.jobs.list(BOB, pb.ListJobsRequest())).jobs


async def test_pages_follow_each_other_without_gap(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    job, _ = await services.ingest_job(*(GivenDocument("x", uri=uri) for uri in "cab"))
    request = pb.ListDocumentsRequest(collection_id="docs", page_size=2)
    first = await services.documents.list(ANYBODY, request)
    request.page_token = first.next_page_token
    second = await services.documents.list(ANYBODY, request)
    assert [document.uri for document in first.documents] == ["a", "b"]
    assert [document.uri for document in second.documents] == ["c"]
    assert not second.next_page_token
    begin = await services.jobs.get(ANYBODY, pb.GetJobRequest(job_id=job.job_id, page_size=1))
    rest = pb.GetJobRequest(job_id=job.job_id, page_size=2, page_token=begin.next_page_token)
    found = await services.jobs.get(ANYBODY, rest)
    assert ([item.uri for item in found.items], found.next_page_token) == (["a", "b"], "")


async def test_an_oversized_page_is_made_smaller(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("x", uri="a"))
    assert len(await listed(services, page_size=5_000_000)) == 1


async def test_a_token_of_another_list_is_refused_by_every_list(services: Services) -> None:
    collection = await services.collections.create(ANYBODY, new())
    for name in ("one", "two"):
        await services.collections.create(ANYBODY, new(name))
    job, [item, *_] = await services.ingest_job(*(GivenDocument("x", uri=uri) for uri in "cab"))
    docs = collection.collection_id
    page = await services.collections.list(ANYBODY, pb.ListCollectionsRequest(page_size=1))
    of_documents = await services.documents.list(
        ANYBODY, pb.ListDocumentsRequest(collection_id=docs, page_size=1)
    )
    other, its_own = page.next_page_token, of_documents.next_page_token
    for call in (
        services.collections.list(ANYBODY, pb.ListCollectionsRequest(page_token=its_own)),
        services.documents.list(ANYBODY, pb.ListDocumentsRequest(collection_id=docs, page_token=other)),
        services.documents.list(
            ANYBODY, pb.ListDocumentsRequest(collection_id=docs, page_token=its_own, order_by="title")
        ),
        services.documents.list(BOB, pb.ListDocumentsRequest(collection_id=docs, page_token=its_own)),
        services.documents.chunks(
            ANYBODY,
            pb.ListChunksRequest(collection_id=docs, document_id=item.document_id, page_token=other),
        ),
        services.jobs.list(ANYBODY, pb.ListJobsRequest(page_token=other)),
        services.jobs.get(ANYBODY, pb.GetJobRequest(job_id=job.job_id, page_token=other)),
    ):
        with pytest.raises(InvalidArgumentError) as raised:
            await call
        assert [violation.field for violation in raised.value.violations] == ["page_token"]


# --- crawls ---


def page(path: str, text: str = "Some text of a page.") -> GivenDocument:
    return GivenDocument(
        text.encode(),
        uri=f"https://site.test{path}",
        mime_type="text/plain",
        source_type=passage_pb2.SOURCE_TYPE_WEB,
    )


SITE = pb.WebCrawl(start_url="https://site.test/", include_paths=["/docs/**"])
PRIVATE = {"crawl": {"allowPrivateAddresses": True}}


async def test_a_crawl_takes_a_writer(services: Services) -> None:
    await services.collections.create(ANN, new(writers=("user:ann",)))
    with pytest.raises(PermissionDeniedError):
        await services.ingestion.crawl(BOB, crawling(SITE))


async def test_pages_become_documents_and_what_cannot_be_had_a_failed_item(start: Start) -> None:
    failure = document_pb2.IngestionFailure(reason=error_pb2.HTTP_STATUS, message="the server answered 404")
    gone = collector_pb.SourceChange(
        unreadable=collector_pb.UnreadableDocument(uri="https://site.test/gone", failure=failure)
    )
    collector = FakeCollector(page("/a"), gone, page("/empty", ""), page("/b", "Other text."))
    services = start(collector)
    await services.collections.create(ANYBODY, new())
    job, [crawl, *items] = await services.crawl(SITE)
    assert (crawl.is_crawl, crawl.state, crawl.uri) == (
        True,
        document_pb2.INGESTION_STATE_DONE,
        SITE.start_url,
    )
    assert [(item.uri, item.outcome, item.failure.reason) for item in items] == [
        ("https://site.test/a", job_pb2.INGESTION_OUTCOME_CREATED, error_pb2.ERROR_REASON_UNSPECIFIED),
        ("https://site.test/gone", NO_OUTCOME, error_pb2.HTTP_STATUS),
        ("https://site.test/empty", NO_OUTCOME, error_pb2.EMPTY_TEXT),
        ("https://site.test/b", job_pb2.INGESTION_OUTCOME_CREATED, error_pb2.ERROR_REASON_UNSPECIFIED),
    ]
    assert (job.state, job.item_count, job.done_count, job.failed_count) == (job_pb2.JOB_STATE_DONE, 4, 2, 2)
    assert {one.source_type for one in await listed(services)} == {passage_pb2.SOURCE_TYPE_WEB}
    again, _ = await services.crawl(SITE)
    assert (again.done_count, again.unchanged_count) == (2, 2)


async def test_a_crawl_that_takes_no_page_failed_and_says_why(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    job, [crawl] = await services.crawl(SITE)
    assert (job.state, job.failed_count) == (job_pb2.JOB_STATE_FAILED, 1)
    assert crawl.failure.reason == error_pb2.NO_PAGES


async def test_a_cancelled_crawl_stops_where_it_waits(start: Start) -> None:
    collector = FakeCollector(page("/a"), page("/b"), stays_at=1)
    services = start(collector)
    await services.collections.create(ANYBODY, new())
    job = (await services.ingestion.crawl(ANYBODY, crawling(SITE))).job
    async with services.working(), asyncio.timeout(20):
        await collector.stays.wait()
        cancelled = await services.jobs.cancel(ANYBODY, job.job_id)
        await collector.closed.wait()
    assert cancelled.state == job_pb2.JOB_STATE_CANCELLED


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


# --- side by side ---


@pytest.fixture
def may_go_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when documents with "slow" in their uri may be read."""
    may_go_on, read = threading.Event(), DocumentExtractor.read

    def read_late(self: DocumentExtractor, given: GivenDocument, **named: Any) -> TextStream:
        if "slow" in given.uri:
            may_go_on.wait(20)
        return read(self, given, **named)

    monkeypatch.setattr(DocumentExtractor, "read", read_late)
    return may_go_on


def slow_documents(count: int) -> list[GivenDocument]:
    return [GivenDocument(f"slow {number}", uri=f"slow {number}") for number in range(count)]


async def test_one_clients_slow_documents_hold_up_no_other_client(
    services: Services, may_go_on: threading.Event
) -> None:
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


async def test_slow_documents_hold_up_none_of_the_others(
    services: Services, may_go_on: threading.Event
) -> None:
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


async def test_a_client_has_a_share_of_what_is_prepared_and_one_of_what_is_held(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    freed: list[int] = []
    leases = Leases(
        services.stores.queue,
        model=FakeEmbedder().model,
        lease_seconds=30,
        maximum_attempts=5,
        shares=Shares(prepared=2, ready_chunks=3, held=4, searches=1),
        on_free=lambda: freed.append(1),
    )
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


async def test_a_client_whose_chunks_wait_to_be_embedded_prepares_no_more_and_others_do(
    services: Services,
) -> None:
    await services.collections.create(ANYBODY, new())
    freed: list[int] = []
    leases = Leases(
        services.stores.queue,
        model=FakeEmbedder().model,
        lease_seconds=30,
        maximum_attempts=5,
        shares=Shares(prepared=2, ready_chunks=100, held=20, searches=1),
        on_free=lambda: freed.append(1),
    )
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


async def test_a_long_text_holds_up_no_small_one_of_the_same_client(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        job = (await services.ingestion.ingest(BOB, "docs", [GivenDocument("single", uri="b")], "")).job
        await is_ready.wait()
        waiting = len(gated.groups)
        for _ in range(100):
            gated.may.release()
        async for watched in services.jobs.watch(BOB, job.job_id):
            if watched.job.HasField("end_time"):
                break
    assert any("single" in text for text in gated.groups[waiting])
    assert len(gated.groups) > waiting + 3, "others were ready before it"


async def test_the_items_of_jobs_by_state_are_a_metric(services: Services) -> None:
    metrics = Metrics(upkeep._items_gauge)
    await services.collections.create(ANYBODY, new())
    await services.ingestion.ingest(ANYBODY, "docs", slow_documents(3), "")
    await services.worker._upkeep._measure()
    points = {
        name: [(point.attributes, point.value) for point in found] for name, found in metrics.points().items()
    }
    assert points == {"groundline.ingestion.items": [({"state": "queued"}, 3)]}


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
    assert collector.begun == ["https://ann.test/0", bobs.start_url]


# --- faults of our own ---


async def test_an_unforeseen_error_ends_neither_the_worker_nor_a_job(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
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
