"""Ingestion: documents in, chunks stored, a job that says what became of each."""

import asyncio
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import batched
from traceback import extract_tb
from typing import Final

import numpy as np
import structlog
from groundline_embedding import Embedder
from groundline_runtime.context import Caller
from groundline_runtime.errors import GroundlineError
from opentelemetry import metrics, trace

from groundline_ingestor.domain import (
    Chunk,
    ChunkCounts,
    Collection,
    DocumentInput,
    DocumentVersion,
    IngestionError,
    IngestionFailure,
    IngestionState,
    Item,
    Job,
    JobState,
    Vectors,
)
from groundline_ingestor.ports import CollectionRepository, DocumentRepository, JobRepository
from groundline_ingestor.service.access import writable_collection
from groundline_ingestor.service.collections import require_running_model
from groundline_ingestor.service.preparation import Preparation, identify

__all__ = ["IngestionService"]

GROUP_CHUNKS: Final = 256
"""Chunks that are embedded together; enough for the embedder to batch by length, little enough to store
meanwhile."""

STORING_CONNECTIONS: Final = 4
"""Documents that one request stores at a time."""

MAX_RETURNED_ITEMS: Final = 1000

_log = structlog.get_logger(__name__)
_tracer = trace.get_tracer("groundline_ingestor")
_meter = metrics.get_meter("groundline_ingestor")
_documents_counter = _meter.create_counter(
    "groundline.ingestion.documents", description="Ingested documents by outcome"
)
_chunks_counter = _meter.create_counter("groundline.ingestion.chunks", description="Chunks stored")


class IngestionService:
    """Takes documents in. The request does the work itself and answers when its job has ended."""

    def __init__(
        self,
        collections: CollectionRepository,
        documents: DocumentRepository,
        jobs: JobRepository,
        embedder: Embedder,
        preparation: Preparation,
    ) -> None:
        self._collections = collections
        self._documents = documents
        self._jobs = jobs
        self._embedder = embedder
        self._preparation = preparation

    async def ingest(
        self, caller: Caller, collection_id: str, inputs: Sequence[DocumentInput], request_id: str
    ) -> tuple[Job, Sequence[Item]]:
        """Ingest documents one after the other; the job that has ended, and its first items.

        A job is recorded when all its documents have ended: a request that is cut short leaves what it
        stored, and no job. The same `request_id` returns the job it made. Raises NotFoundError,
        PermissionDeniedError, FailedPreconditionError (EMBEDDING_MODEL_MISMATCH), UnavailableError,
        AbortedError.
        """
        collection = await writable_collection(self._collections, caller, collection_id)
        if request_id and (earlier := await self._jobs.find_by_request_id(collection_id, request_id)):
            return earlier, await self._items_of(earlier)
        require_running_model(collection, self._embedder)
        started = datetime.now(UTC)
        run = _Run(collection, self._documents, self._embedder, self._preparation)
        items = await run.ingest(inputs)
        failed = bool(items) and all(item.state is IngestionState.FAILED for item in items)
        job = Job(
            job_id=str(uuid.uuid4()),
            collection_id=collection_id,
            state=JobState.FAILED if failed else JobState.DONE,
            create_time=started,
            start_time=started,
            end_time=datetime.now(UTC),
        )
        recorded = await self._jobs.record(job, items, request_id)
        run.report(job.job_id)
        if recorded.job_id != job.job_id:  # the same request ran twice at once
            return recorded, await self._items_of(recorded)
        return recorded, items[:MAX_RETURNED_ITEMS]

    async def _items_of(self, job: Job) -> Sequence[Item]:
        return await self._jobs.items(job.job_id, None, after=-1, limit=MAX_RETURNED_ITEMS)


@dataclass(frozen=True)
class _Prepared:
    index: int
    version: DocumentVersion
    chunks: Sequence[Chunk]


@dataclass(frozen=True)
class _Embedded:
    document: _Prepared
    vectors: Vectors


class _Run:
    """One request's documents on their way: prepared one by one, embedded in groups, stored while the next
    group is prepared and embedded."""

    def __init__(
        self,
        collection: Collection,
        documents: DocumentRepository,
        embedder: Embedder,
        preparation: Preparation,
    ) -> None:
        self._collection = collection
        self._documents = documents
        self._embedder = embedder
        self._preparation = preparation
        self._items: dict[int, Item] = {}
        self._group: list[_Prepared] = []
        self._uris: set[str] = set()  # of documents that are not stored yet
        self._storing: asyncio.Task[None] | None = None
        self._connections = asyncio.Semaphore(STORING_CONNECTIONS)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    async def ingest(self, inputs: Sequence[DocumentInput]) -> list[Item]:
        """An item for each input, in their order."""
        try:
            for index, given in enumerate(inputs):
                await self._take(index, given)
            await self._drain()
        finally:
            if self._storing is not None:
                self._storing.cancel()
                await asyncio.gather(self._storing, return_exceptions=True)
        return [self._items[index] for index in range(len(inputs))]

    def report(self, job_id: str) -> None:
        """Log and count what became of the documents, and where the time went (stages overlap)."""
        outcomes = Counter(str(item.outcome or item.state) for item in self._items.values())
        stored = sum(item.chunks.stored for item in self._items.values())
        for outcome, count in outcomes.items():
            _documents_counter.add(count, {"outcome": outcome})
        _chunks_counter.add(stored)
        _log.info(
            "documents_ingested",
            job_id=job_id,
            collection_id=self._collection.collection_id,
            outcomes=dict(outcomes),
            chunks=stored,
            seconds={stage: round(seconds, 3) for stage, seconds in self._seconds.items()},
        )

    async def _take(self, index: int, given: DocumentInput) -> None:
        given, version = await asyncio.to_thread(identify, given, self._collection)
        if version.uri in self._uris:  # handed in twice: the later one replaces the earlier one
            await self._drain()
        refreshed = await self._documents.refresh(self._collection, version)
        if refreshed is not None:
            document_id, outcome = refreshed
            self._items[index] = Item(index, version.uri, document_id, IngestionState.DONE, outcome)
            return
        try:
            with self._timed("prepare"):
                version, chunks = await asyncio.to_thread(
                    self._preparation.prepare, given, version, self._collection
                )
        except Exception as error:
            await self._fail(_Prepared(index, version, ()), IngestionState.EXTRACTING, error)
            return
        self._group.append(_Prepared(index, version, chunks))
        self._uris.add(version.uri)
        if sum(len(document.chunks) for document in self._group) >= GROUP_CHUNKS:
            await self._flush()

    async def _flush(self) -> None:
        """Embed the group, and store it once the group before is stored."""
        group, self._group = self._group, []
        if not group:
            return
        embedded = await self._embed(group)
        await self._wait_for_storing()
        self._uris = {document.version.uri for document in group}
        self._storing = asyncio.create_task(self._store(embedded))

    async def _drain(self) -> None:
        await self._flush()
        await self._wait_for_storing()

    async def _wait_for_storing(self) -> None:
        if self._storing is not None:
            storing, self._storing = self._storing, None
            with self._timed("wait_for_storing"):
                await storing

    async def _embed(self, group: Sequence[_Prepared]) -> list[_Embedded]:
        """The documents of the group that could be embedded."""
        try:
            vectors = await self._vectors([chunk for document in group for chunk in document.chunks])
        except Exception as error:
            if len(group) == 1:
                await self._fail(group[0], IngestionState.EMBEDDING, error)
                return []
            # One of them may be to blame: the others get through alone.
            return [embedded for document in group for embedded in await self._embed([document])]
        ends = np.cumsum([len(document.chunks) for document in group])
        return [
            _Embedded(document, part)
            for document, part in zip(group, np.split(vectors, ends[:-1]), strict=True)
        ]

    async def _vectors(self, chunks: Sequence[Chunk]) -> Vectors:
        """Half precision, as they are stored."""
        parts = [np.empty((0, self._embedder.dimensions), np.float16)]
        with (
            self._timed("embed"),
            _tracer.start_as_current_span("embed_chunks", attributes={"chunks": len(chunks)}),
        ):
            for batch in batched(chunks, GROUP_CHUNKS):
                vectors = await self._embedder.embed_documents([chunk.embedded_text for chunk in batch])
                parts.append(vectors.astype(np.float16))
        return np.concatenate(parts)

    async def _store(self, embedded: Sequence[_Embedded]) -> None:
        with self._timed("store"):
            tasks = [asyncio.create_task(self._store_document(one)) for one in embedded]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _store_document(self, embedded: _Embedded) -> None:
        document, count = embedded.document, len(embedded.document.chunks)
        async with self._connections:
            try:
                document_id, outcome = await self._documents.replace(
                    self._collection, document.version, document.chunks, embedded.vectors
                )
            except GroundlineError:
                raise  # of the collection or the database, not of this document
            except Exception as error:
                await self._fail(document, IngestionState.STORING, error)
                return
        self._items[document.index] = Item(
            document.index,
            document.version.uri,
            document_id,
            IngestionState.DONE,
            outcome,
            chunks=ChunkCounts(count, count, count, count),
        )

    async def _fail(self, document: _Prepared, stage: IngestionState, error: Exception) -> None:
        failure = _failure_of(error, stage)
        document_id = await self._documents.record_failure(self._collection, document.version, failure)
        count = len(document.chunks)
        self._items[document.index] = Item(
            document.index,
            document.version.uri,
            document_id,
            IngestionState.FAILED,
            failure=failure,
            chunks=ChunkCounts(count, count, count if stage is IngestionState.STORING else 0),
        )

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[stage] += time.perf_counter() - begun


def _failure_of(error: Exception, stage: IngestionState) -> IngestionFailure:
    """What a document's item says of an error; of an unexpected one no more than where to look for it."""
    if isinstance(error, IngestionError):
        return error.failure
    if isinstance(error, GroundlineError):
        return IngestionFailure(stage, error.reason, error.message)
    error_id = str(uuid.uuid4())
    # Neither the error's text nor local variables: both may quote the document.
    frames = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in extract_tb(error.__traceback__)
    ]
    _log.error(
        "document_failed", error_id=error_id, stage=stage, error=type(error).__qualname__, frames=frames
    )
    return IngestionFailure(
        stage, "INTERNAL", f"internal error {error_id}; the service's log holds its cause"
    )
