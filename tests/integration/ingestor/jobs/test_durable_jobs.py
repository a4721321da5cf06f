"""Jobs that survive: killed workers, cancelled and deleted work, failures, changes, re-indexing."""

import asyncio
import io
import sys
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from groundline.v1 import (
    collection_pb2,
    document_pb2,
    error_pb2,
    job_pb2,
    options_pb2,
    passage_pb2,
)
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import DatabaseSettings, Pool, acquire
from groundline_embedding.ports import Vectors
from groundline_extraction.documents import GivenDocument
from groundline_filters import parse
from groundline_indexing.collections import StoredCollection
from groundline_indexing.hashes import content_hash
from groundline_indexing.partitions import chunk_table
from groundline_indexing.preparation import open_sandbox
from groundline_ingestor.__main__ import wire_on, working
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.documents import DocumentOrder
from groundline_ingestor.settings import IngestorSettings
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.arms import Arms, Stopwatch
from groundline_retriever.domain import Selection
from groundline_retriever.ports import QueryEmbedder
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_runtime.paging import PageTokens
from groundline_signatures import signature
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.messages import a_collection, settings_of
from pydantic import SecretStr

ANYBODY = Caller()
SMALLER_CHUNKS = {"chunking": {"chunkSize": 300}}
LONG = "\n\n".join(f"Paragraph {number} says something of its own. " * 8 for number in range(60))


class CountingEmbedder(FakeEmbedder):
    """Notes the texts it embeds; waits, or fails, when it is told to."""

    def __init__(self, model: str = "groundline/fake-bag-of-words", dimensions: int = 256) -> None:
        super().__init__(model, dimensions)
        self.texts: list[str] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.reached = asyncio.Event()
        self.failures: list[Exception] = []
        self.asked = asyncio.Event()

    async def embed_query(self, text: str) -> Vectors:
        self.asked.set()
        return await super().embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.reached.set()
        await self.may_go_on.wait()
        if self.failures:
            raise self.failures.pop()
        self.texts += texts
        return await super().embed_documents(texts)


class Ingestor:
    """A replica of the service without its port."""

    def __init__(
        self,
        settings: IngestorSettings,
        stores: Stores,
        embedder: CountingEmbedder,
        servicer: Any,
        worker: Any,
    ) -> None:
        self.settings = settings
        self.stores = stores
        self.embedder = embedder
        self.worker = worker
        self.ingestion = servicer._ingestion
        self.jobs = servicer._jobs
        self.documents = servicer._documents
        self.reindex = servicer._reindex

    async def hand_in(
        self, collection_id: str, *given: GivenDocument, request_id: str = ""
    ) -> job_pb2.IngestionJob:
        taken = await self.ingestion.ingest(ANYBODY, collection_id, given, request_id)
        assert isinstance(taken, pb.IngestDocumentsResponse)
        return taken.job

    async def reindexing(
        self, collection_id: str, settings: Mapping[str, Any] | None = None, request_id: str = ""
    ) -> job_pb2.IngestionJob:
        request = pb.ReindexCollectionRequest(
            collection_id=collection_id, settings=settings_of(settings or {}), request_id=request_id
        )
        job = await self.reindex.begin(ANYBODY, request)
        assert isinstance(job, job_pb2.IngestionJob)
        return job

    async def ended(
        self, job: job_pb2.IngestionJob
    ) -> tuple[job_pb2.IngestionJob, Sequence[job_pb2.IngestionItem]]:
        async with asyncio.timeout(60):
            states = [state.job async for state in self.jobs.watch(ANYBODY, job.job_id)]
        return states[-1], await self.stores.jobs.items(job.job_id, None, after=-1, limit=1000)

    async def ingest(self, collection_id: str, *given: GivenDocument) -> Sequence[job_pb2.IngestionItem]:
        _, items = await self.ended(await self.hand_in(collection_id, *given))
        return items


@asynccontextmanager
async def searching(
    database_url: str, collection_id: str, *embedders: QueryEmbedder
) -> AsyncIterator[Sequence[int]]:
    """Semantic searches one after the other, while within; how many chunks each has found."""
    found: list[int] = []
    options = options_pb2.RetrievalOptions(mode=options_pb2.RETRIEVAL_MODE_SEMANTIC, semantic_limit=10)
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=4)
    async with open_chunk_store(settings) as store, asyncio.TaskGroup() as group:
        arms = Arms(store, embedders, timeout_seconds=20)

        async def search() -> None:
            while True:
                collections = await store.collections([collection_id], ANYBODY.principals)
                groups, selection = arms.grouped(collections, options), Selection(ANYBODY.principals)
                lists, _ = await arms.search("paragraph of its own", groups, selection, Stopwatch())
                found.append(sum(len(hits) for _, hits in lists))

        task = group.create_task(search())
        yield found
        task.cancel()


@asynccontextmanager
async def ingestor_on(
    stores: Stores,
    database_url: str,
    model: str = "groundline/fake-bag-of-words",
    dimensions: int = 256,
    **settings: Any,
) -> AsyncIterator[Ingestor]:
    chosen = IngestorSettings(
        database_url=SecretStr(database_url),
        **{"lease_seconds": 1, "reindex_grace_seconds": 0, **settings},
    )
    embedder = CountingEmbedder(model, dimensions)
    async with open_sandbox(chosen) as sandbox:
        servicer, worker = wire_on(chosen, stores, embedder, sandbox, PageTokens(bytes(32)))
        yield Ingestor(chosen, stores, embedder, servicer, worker)


@pytest.fixture
async def idle(stores: Stores, database_url: str) -> AsyncIterator[Ingestor]:
    """A replica that does no work until it is told to."""
    async with ingestor_on(stores, database_url) as ingestor:
        yield ingestor


@pytest.fixture
async def busy(idle: Ingestor) -> AsyncIterator[Ingestor]:
    async with working(idle.worker, idle.settings):
        yield idle


@pytest.fixture
async def collection(
    pool: Pool, idle: Ingestor, request: pytest.FixtureRequest
) -> AsyncIterator[StoredCollection]:
    name = request.node.name.split("[")[0].replace("_", "-")[:60].rstrip("-")
    async with acquire(pool) as connection:
        await connection.execute("TRUNCATE embedding_cache")  # the tests have texts in common
    new = a_collection(name, model=idle.embedder.model, dimensions=idle.embedder.dimensions)
    yield await idle.stores.collections.create(new, "", "")
    await idle.stores.collections.delete(name)


async def chunks_of(pool: Pool, collection_id: str) -> list[tuple[str, int, str]]:
    """Uri, index and text of what can be found in the partition in use."""
    async with acquire(pool) as connection:
        partition = await connection.fetchval(
            "SELECT partition_id FROM collections WHERE collection_id = $1", collection_id
        )
        rows = await connection.fetch(
            f"SELECT uri, chunk_index, original_text FROM {chunk_table(partition)} "
            "JOIN documents USING (document_id) ORDER BY uri, chunk_index"
        )
    return [tuple(row) for row in rows]


@asynccontextmanager
async def stuck_worker(database_url: str, stage: str) -> AsyncIterator[None]:
    """Run another replica, and kill it with -9 where it stopped."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("worker_process.py")),
        database_url,
        stage,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    try:
        async with asyncio.timeout(60):
            while (line := await process.stdout.readline()).strip() != stage.encode():
                assert line, "the worker ended by itself"
        yield
    finally:
        process.kill()
        await process.wait()


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


async def test_the_later_of_two_hand_ins_stays(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
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


# --- documents within documents ---


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(zipfile.ZipInfo(name), content)  # without the time, so that equal ones are equal
    return out.getvalue()


def offer(**attachments: str | bytes) -> bytes:
    """Return a mail; in an attachment's name the underscore stands for a dot."""
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@example.org", "Our offer"
    message.set_content("Please find the prices attached.\n")
    for name, content in attachments.items():
        data = content.encode() if isinstance(content, str) else content
        message.add_attachment(
            data, maintype="application", subtype="octet-stream", filename=name.replace("_", ".")
        )
    return message.as_bytes()


PARTS: Mapping[str, str | bytes] = {
    "guide.md": "---\nteam: red\nyear: 1999\n---\n# Valve\n\nOpens at 41 degrees.",
    "tool.bin": b"\x7fELF",
    "offer.eml": offer(prices_csv="Part,Price\nValve,5\n"),
}


async def documents_of(ingestor: Ingestor, collection_id: str) -> dict[str, document_pb2.Document]:
    """Return documents by uri."""
    found = await ingestor.stores.documents.list_readable(
        collection_id, (), selection=parse({}), order=DocumentOrder(), after=None, limit=100
    )
    return {one.uri: one for one in found}


@pytest.mark.parametrize("stage", ["leased", "embedding", "storing"])
async def test_a_worker_killed_over_a_container_leaves_none_of_it_out_and_none_twice(
    pool: Pool, database_url: str, idle: Ingestor, collection: StoredCollection, stage: str
) -> None:
    job = await idle.hand_in(collection.collection_id, GivenDocument(archive(PARTS), uri="a.zip"))
    async with acquire(pool) as connection, connection.transaction():
        if stage == "storing":  # waits for this lock, with its chunks written and its items added
            await connection.execute("LOCK TABLE ingestion_payloads IN EXCLUSIVE MODE")
        async with stuck_worker(database_url, stage):
            pass
    async with working(idle.worker, idle.settings):
        job, items = await idle.ended(job)
    assert (job.state, job.done_count, job.skipped_count) == (job_pb2.JOB_STATE_DONE, 5, 1)
    assert [(item.uri, item.container_uri) for item in items] == [
        ("a.zip", ""),
        ("a.zip!/guide.md", "a.zip"),
        ("a.zip!/tool.bin", "a.zip"),
        ("a.zip!/offer.eml", "a.zip"),
        ("a.zip!/offer.eml!/prices.csv", "a.zip!/offer.eml"),
    ]
    assert (items[0].attempts, items[0].member_count) == (2, 4)
    assert items[2].failure.reason == error_pb2.UNSUPPORTED_TYPE
    assert "program" in items[2].failure.message, "names the format"
    assert await chunks_of(pool, collection.collection_id) == [
        ("a.zip", 0, "- guide.md\n- tool.bin\n- offer.eml"),
        ("a.zip!/guide.md", 0, "---\nteam: red\nyear: 1999\n---\n# Valve\n\nOpens at 41 degrees."),
        (
            "a.zip!/offer.eml",
            0,
            "# Our offer\n\nFrom: ann@example.org\n\nPlease find the prices attached.\n\n"
            "Attachments: prices.csv",
        ),
        ("a.zip!/offer.eml!/prices.csv", 0, "Part: Valve\nPrice: 5"),
    ]


async def test_members_of_a_killed_worker_are_done_by_another(
    pool: Pool, database_url: str, idle: Ingestor, collection: StoredCollection
) -> None:
    given = GivenDocument(archive({"a.txt": "one", "b.txt": "two"}), uri="a.zip")
    job = await idle.hand_in(collection.collection_id, given)
    async with working(idle.worker, idle.settings):
        while job.item_count == 1:
            job = await idle.stores.jobs.find(job.job_id) or job
            await asyncio.sleep(0.01)
    async with stuck_worker(database_url, "leased"):
        pass
    async with working(idle.worker, idle.settings):
        job, items = await idle.ended(job)
    assert (job.state, job.done_count, len(items)) == (job_pb2.JOB_STATE_DONE, 3, 3)
    assert len(await chunks_of(pool, collection.collection_id)) == 3


async def test_what_is_within_a_document_has_what_was_said_of_it(
    busy: Ingestor, collection: StoredCollection
) -> None:
    given = GivenDocument(
        archive(PARTS), uri="a.zip", metadata={"year": 2026}, allowed_principals=("user:ann",)
    )
    given = replace(given, source_type=passage_pb2.SOURCE_TYPE_WEB)
    await busy.ingest(collection.collection_id, replace(given, allowed_principals=()))
    documents = await documents_of(busy, collection.collection_id)
    assert {name: dict(one.metadata) for name, one in documents.items()} == {
        "a.zip": {"year": 2026},
        "a.zip!/guide.md": {"year": 2026, "team": "red"},
        "a.zip!/offer.eml": {"year": 2026},
        "a.zip!/offer.eml!/prices.csv": {"year": 2026},
    }
    titles = {name: (one.title, one.mime_type) for name, one in documents.items()}
    assert titles["a.zip!/guide.md"] == ("Valve", "text/markdown")
    assert titles["a.zip!/offer.eml"] == ("Our offer", "message/rfc822")
    assert titles["a.zip!/offer.eml!/prices.csv"] == ("prices.csv", "text/csv")
    assert {one.source_type for one in documents.values()} == {passage_pb2.SOURCE_TYPE_WEB}
    busy.embedder.texts.clear()
    await busy.ingest(collection.collection_id, replace(given, metadata={"year": 2027}))
    assert await documents_of(busy, collection.collection_id) == {}, "only others may read them"
    found = await busy.stores.documents.list_readable(
        collection.collection_id,
        ["user:ann"],
        selection=parse({"year": 2027}),
        order=DocumentOrder(),
        after=None,
        limit=100,
    )
    assert {one.uri for one in found} == set(documents)
    assert not busy.embedder.texts, "what is said of a document is not embedded"


async def test_a_container_that_has_changed_costs_what_has_changed_in_it(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
    async def ingest(parts: Mapping[str, str | bytes]) -> list[tuple[str, str]]:
        busy.embedder.texts.clear()
        given = GivenDocument(archive(parts), uri="a.zip")
        job, items = await busy.ended(await busy.hand_in(collection.collection_id, given))
        assert job.state == job_pb2.JOB_STATE_DONE
        return [(item.uri, job_pb2.IngestionOutcome.Name(item.outcome)[18:]) for item in items]

    await ingest(PARTS)
    assert await ingest(PARTS) == [("a.zip", "UNCHANGED")]
    assert not busy.embedder.texts
    changed = {**PARTS, "guide.md": "# Valve\n\nOpens at 42 degrees.", "offer.eml": offer(new_txt="New.")}
    assert await ingest(changed) == [
        ("a.zip", "UPDATED"),
        ("a.zip!/guide.md", "UPDATED"),
        ("a.zip!/tool.bin", "SKIPPED"),
        ("a.zip!/offer.eml", "UPDATED"),
        ("a.zip!/offer.eml!/new.txt", "CREATED"),
    ]
    assert "a.zip!/offer.eml!/prices.csv" not in await documents_of(busy, collection.collection_id)
    assert await ingest({**changed, "more.txt": "More."}) == [
        ("a.zip", "UPDATED"),
        ("a.zip!/guide.md", "UNCHANGED"),
        ("a.zip!/tool.bin", "SKIPPED"),
        ("a.zip!/offer.eml", "UNCHANGED"),
        ("a.zip!/offer.eml!/new.txt", "UNCHANGED"),
        ("a.zip!/more.txt", "CREATED"),
    ]
    assert len(busy.embedder.texts) == 2, "the list and the new one"
    job, _ = await busy.ended(await busy.reindexing(collection.collection_id, SMALLER_CHUNKS))
    assert (job.state, job.done_count) == (job_pb2.JOB_STATE_DONE, 5)
    assert len(await chunks_of(pool, collection.collection_id)) == 5


async def test_a_member_that_can_be_read_no_more_goes_and_a_failed_one_is_tried_again(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
    given = GivenDocument(archive({"a.rtf": rb"{\rtf1 Hello.}", "b.txt": "Hello."}), uri="a.zip")
    await busy.ingest(collection.collection_id, given)
    emptied = replace(given, content=archive({"a.rtf": rb"{\rtf1 }", "b.txt": "Hello."}))
    job, items = await busy.ended(await busy.hand_in(collection.collection_id, emptied))
    assert (job.failed_count, job.skipped_count) == (0, 1)
    assert items[1].failure.reason == error_pb2.EMPTY_TEXT
    assert set(await documents_of(busy, collection.collection_id)) == {"a.zip", "a.zip!/b.txt"}
    await pool.execute("UPDATE documents SET state = 'failed' WHERE uri = 'a.zip!/b.txt'")
    job, items = await busy.ended(await busy.hand_in(collection.collection_id, emptied))
    assert len(items) == 3, "an unchanged container is looked into again"
    assert all(
        one.state == document_pb2.INGESTION_STATE_DONE
        for one in (await documents_of(busy, collection.collection_id)).values()
    )


async def test_a_request_takes_a_container_in_once(busy: Ingestor, collection: StoredCollection) -> None:
    given = GivenDocument(archive(PARTS), uri="a.zip")
    jobs = [await busy.hand_in(collection.collection_id, given, request_id="same") for _ in range(2)]
    assert jobs[0].job_id == jobs[1].job_id
    _, items = await busy.ended(jobs[0])
    again = await busy.hand_in(collection.collection_id, given, request_id="same")
    assert (again.job_id, again.item_count) == (jobs[0].job_id, len(items))


async def test_a_members_original_is_kept_with_it(busy: Ingestor, collection: StoredCollection) -> None:
    collection.message.settings.keep_originals = True
    assert await busy.stores.collections.update(collection.message)
    await busy.ingest(collection.collection_id, GivenDocument(archive(PARTS), uri="a.zip"))
    document = (await documents_of(busy, collection.collection_id))["a.zip!/offer.eml!/prices.csv"]
    assert document.has_original
    assert await busy.stores.documents.original(document, (), part=0) == b"Part,Price\nValve,5\n"


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


async def test_a_cancelled_job_stores_nothing_more(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
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


async def test_what_may_pass_is_tried_again_and_what_may_not_fails(
    busy: Ingestor, collection: StoredCollection
) -> None:
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


async def test_tokens_are_counted_of_texts_that_the_model_read(
    busy: Ingestor, collection: StoredCollection
) -> None:
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
