"""An ingestor and its worker, on the module's database."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2, options_pb2
from groundline_database import DatabaseSettings, Pool, acquire
from groundline_embedding import Embedders
from groundline_embedding.ports import Vectors
from groundline_extraction.documents import GivenDocument
from groundline_indexing.partitions import chunk_table
from groundline_indexing.preparation import open_sandbox
from groundline_ingestor.__main__ import wire_on
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.settings import IngestorSettings
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.arms import Arms
from groundline_retriever.domain import Selection
from groundline_retriever.ports import QueryEmbedder
from groundline_runtime.context import Caller
from groundline_runtime.paging import PageTokens
from pydantic import SecretStr

from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.messages import settings_of
from groundline_tests.ingestor.worker_process import worker_process

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
        self,
        collection_id: str,
        settings: Mapping[str, Any] | None = None,
        request_id: str = "",
        *,
        hold: bool = False,
        keep_previous: bool = False,
    ) -> job_pb2.IngestionJob:
        request = pb.ReindexCollectionRequest(
            collection_id=collection_id,
            settings=settings_of(settings or {}),
            request_id=request_id,
            hold=hold,
            keep_previous=keep_previous,
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
                lists, _ = await arms.search("paragraph of its own", groups, selection, {})
                found.append(sum(len(each.hits) for each in lists))

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
        database_url=SecretStr(database_url), **{"lease_seconds": 1, "reindex_grace_seconds": 0, **settings}
    )
    embedder = CountingEmbedder(model, dimensions)
    async with open_sandbox(chosen) as sandbox:
        servicer, worker = wire_on(chosen, stores, Embedders([embedder]), sandbox, PageTokens(bytes(32)))
        yield Ingestor(chosen, stores, embedder, servicer, worker)


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
    with worker_process(database_url, stage) as arriving:
        assert await asyncio.to_thread(arriving.poll, 60)
        assert arriving.recv() == stage
        yield
