import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from groundline.v1 import collector_service_pb2 as collector_pb
from groundline.v1 import document_pb2, job_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedder
from groundline_embedding.ports import Vectors
from groundline_extraction.documents import GivenDocument
from groundline_ingestor.__main__ import working
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.ports import Collected, Collector, SeenPages
from groundline_ingestor.service.collections import CollectionService
from groundline_ingestor.service.documents import DocumentService
from groundline_ingestor.service.ingestion import IngestionService
from groundline_ingestor.service.jobs import JobService
from groundline_ingestor.service.reindex import ReindexService
from groundline_ingestor.service.worker.worker import Worker
from groundline_ingestor.settings import IngestorSettings
from groundline_runtime.context import Caller

from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.messages import settings_of

ANYBODY, ANN, BOB = Caller(), Caller(("user:ann",)), Caller(("user:bob",))
STAFF = Caller(("user:carl", "group:staff"))
POISON = "poison"
ONLY_ANNS: Mapping[str, Any] = {"readers": ["*"], "writers": ["user:ann"], "admins": ["user:ann"]}
type Ended = tuple[job_pb2.IngestionJob, Sequence[job_pb2.IngestionItem]]


class FaultyEmbedder(FakeEmbedder):
    """Refuses texts that hold POISON; notes how many texts it was given at once."""

    def __init__(self, model: str = FakeEmbedder().model, dimensions: int = 256) -> None:
        super().__init__(model, dimensions)
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
        self,
        collector: Collector | None = None,
        embedder: FaultyEmbedder | None = None,
        others: Sequence[Embedder] = (),
        **settings: Any,
    ) -> Services: ...


# --- documents and jobs ---


async def chunks_of(
    services: Services, document_id: str, caller: Caller = ANYBODY
) -> Sequence[passage_pb2.Chunk]:
    request = pb.ListChunksRequest(collection_id="docs", document_id=document_id, page_size=100)
    return (await services.documents.chunks(caller, request)).chunks


async def listed(services: Services, **page: Any) -> Sequence[document_pb2.Document]:
    request = pb.ListDocumentsRequest(collection_id="docs", **page)
    return (await services.documents.list(ANN, request)).documents


# --- crawls ---


def page(path: str, text: str = "Some text of a page.") -> GivenDocument:
    return GivenDocument(
        text.encode(),
        uri=f"https://site.test{path}",
        mime_type="text/plain",
        source_type=passage_pb2.SOURCE_TYPE_WEB,
    )


def slow_documents(count: int) -> list[GivenDocument]:
    return [GivenDocument(f"slow {number}", uri=f"slow {number}") for number in range(count)]
