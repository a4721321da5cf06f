"""Workers: items leased, prepared one by one, embedded in groups, stored while the next group is embedded."""

import asyncio
import time
import uuid
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import batched
from traceback import extract_tb
from typing import Any, Final

import numpy as np
import structlog
from groundline_runtime.errors import Code, GroundlineError, NotFoundError, UnavailableError
from opentelemetry import metrics, trace

from groundline_ingestor.domain import (
    ChunkCounts,
    Claim,
    Collection,
    IngestionError,
    IngestionFailure,
    IngestionState,
    JobKind,
    LeasedItem,
    NewVersion,
    Progress,
    Usage,
    Vectors,
    ingestion_hash,
)
from groundline_ingestor.ports import (
    ClaimLostError,
    CollectionRepository,
    DocumentRepository,
    EmbeddingCache,
    ReindexRepository,
    WorkQueue,
)
from groundline_ingestor.service.collections import require_running_model
from groundline_ingestor.service.contextualization import Contextualization
from groundline_ingestor.service.embedding import RememberingEmbedder
from groundline_ingestor.service.preparation import Preparation, Prepared, identify

__all__ = ["Worker", "WorkerOptions"]

GROUP_CHUNKS: Final = 256
"""Chunks that are embedded together; enough for the embedder to batch by length, little enough to store
meanwhile."""

TRANSACTION_CHUNKS: Final = 64
"""Chunks of small documents that are stored in one transaction; each costs the lexical index a segment."""

STORING_CONNECTIONS: Final = 4
"""Transactions of one group at a time."""

LEASED_ITEMS: Final = 16
PROGRESS_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 1.0
CLEANING_SECONDS: Final = 60.0
CLEANED_VECTORS: Final = 10_000
LONGEST_PAUSE_SECONDS: Final = 300.0

_TRANSIENT: Final = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED, Code.ABORTED)

_log = structlog.get_logger(__name__)
_tracer = trace.get_tracer("groundline_ingestor")
_meter = metrics.get_meter("groundline_ingestor")
_documents_counter = _meter.create_counter(
    "groundline.ingestion.documents", description="Ingested documents by outcome"
)
_chunks_counter = _meter.create_counter("groundline.ingestion.chunks", description="Chunks stored")


@dataclass(frozen=True)
class WorkerOptions:
    """How a process works; see its settings."""

    workers: int = 2
    lease_seconds: float = 30.0
    max_attempts: int = 5
    poll_seconds: float = 0.5
    retry_seconds: float = 2.0
    reindex_grace_seconds: float = 60.0
    payload_seconds: float = 7 * 86400.0
    cache_seconds: float = 30 * 86400.0


@dataclass
class _Work:
    """An item on its way."""

    item: LeasedItem
    collection: Collection
    """By the settings and with the partition that it is built for."""
    prepared: Prepared
    version_number: int = 0
    vectors: Vectors = field(default_factory=lambda: np.empty((0, 0), np.float16))
    token_count: int = 0

    @property
    def counts(self) -> ChunkCounts:
        count = len(self.prepared.chunks)
        return ChunkCounts(count, count, len(self.vectors))

    @property
    def new_version(self) -> NewVersion:
        return NewVersion(
            self.prepared.version,
            self.prepared.chunks,
            self.vectors,
            self.prepared.extraction,
            self.token_count,
            claim=self.item.claim,
        )


class Worker:
    """All that one process does for jobs."""

    def __init__(
        self,
        queue: WorkQueue,
        collections: CollectionRepository,
        documents: DocumentRepository,
        reindex: ReindexRepository,
        embedder: RememberingEmbedder,
        cache: EmbeddingCache,
        preparation: Preparation,
        contextualization: Contextualization,
        options: WorkerOptions,
    ) -> None:
        self._queue = queue
        self._collections = collections
        self._documents = documents
        self._reindex = reindex
        self._embedder = embedder
        self._cache = cache
        self._preparation = preparation
        self._contextualization = contextualization
        self._options = options
        self._held: dict[Claim, Progress] = {}
        self._shown: dict[Claim, Progress] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look for work now."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; what is held then goes back to the queue."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._options.workers):
                    tasks.create_task(self._pipeline())
                if self._options.workers:
                    tasks.create_task(self._repeat(PROGRESS_SECONDS, self._show_progress))
                    tasks.create_task(self._repeat(self._options.lease_seconds / 3, self._extend))
                    tasks.create_task(self._repeat(SETTLE_SECONDS, self._settle))
                    tasks.create_task(self._repeat(CLEANING_SECONDS, self._clean))
        finally:
            if self._held:
                with suppress(UnavailableError, TimeoutError):
                    async with asyncio.timeout(5):
                        await self._queue.release(self._lease_ids())

    # --- the pipeline ---

    async def _pipeline(self) -> None:
        prepared: asyncio.Queue[list[_Work]] = asyncio.Queue(1)
        embedded: asyncio.Queue[list[_Work]] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._prepare_items(prepared))
            tasks.create_task(self._embed_groups(prepared, embedded))
            tasks.create_task(self._store_groups(embedded))

    async def _prepare_items(self, prepared: "asyncio.Queue[list[_Work]]") -> None:
        group: list[_Work] = []
        while True:
            items = await self._lease()
            collections: dict[str, Collection | None] = {}
            for item in items:
                work = await self._guarded(item, self._prepare(item, collections))
                if work:
                    group.append(work)
                if sum(len(one.prepared.chunks) for one in group) >= GROUP_CHUNKS:
                    await prepared.put(group)
                    group = []
            if not items:
                if group:
                    await prepared.put(group)
                    group = []
                await self._wait_for_work()

    async def _embed_groups(
        self, prepared: "asyncio.Queue[list[_Work]]", embedded: "asyncio.Queue[list[_Work]]"
    ) -> None:
        while True:
            group = await self._embed(await prepared.get())
            if group:
                await embedded.put(group)

    async def _store_groups(self, embedded: "asyncio.Queue[list[_Work]]") -> None:
        while True:
            await self._store(await embedded.get())

    async def _lease(self) -> Sequence[LeasedItem]:
        self._wake.clear()
        try:
            items = await self._queue.lease(
                str(uuid.uuid4()),
                limit=LEASED_ITEMS,
                seconds=self._options.lease_seconds,
                max_attempts=self._options.max_attempts,
            )
        except UnavailableError as error:
            _log.warning("lease_failed", reason=error.reason)
            return ()
        for item in items:
            progress = Progress(item.claim, IngestionState.EXTRACTING, ChunkCounts())
            self._held[item.claim] = self._shown[item.claim] = progress
        return items

    async def _wait_for_work(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.poll_seconds):
                await self._wake.wait()

    async def _prepare(self, item: LeasedItem, collections: dict[str, Collection | None]) -> _Work | None:
        if item.collection_id not in collections:
            collections[item.collection_id] = await self._collections.find(item.collection_id)
        collection = collections[item.collection_id]
        if collection is None:
            raise ClaimLostError(item.claim)

        def on_stage(stage: IngestionState) -> None:
            self._at(item.claim, stage)

        if item.kind is JobKind.REINDEX:
            return await self._prepare_again(item, collection)
        require_running_model(collection, self._embedder.embedder)
        given, version = await asyncio.to_thread(identify, await self._queue.given(item), collection)
        refreshed = await self._documents.refresh(collection, version, item.claim)
        if refreshed is not None:
            self._ended(item, str(refreshed[1]))
            return None
        prepared = await asyncio.to_thread(self._preparation.prepare, given, version, collection, on_stage)
        return await self._contextualized(_Work(item, collection, prepared))

    async def _prepare_again(self, item: LeasedItem, collection: Collection) -> _Work | None:
        """The chunks of a document for another partition, from the text that is kept of it."""
        assert item.partition is not None, "items of a reindex have one"
        assert item.document_id is not None, "items of a reindex have one"
        target = replace(collection, partition=item.partition, settings=item.settings or {})
        require_running_model(target, self._embedder.embedder)
        stored = await self._reindex.text(item.collection_id, item.document_id)
        if stored is None:
            await self._reindex.skip(item)
            self._ended(item, "skipped")
            return None
        version = replace(
            stored.version,
            ingestion_hash=ingestion_hash(stored.version.input_hash, target.settings, target.partition),
        )
        prepared = await asyncio.to_thread(self._preparation.chunk, stored.extraction, version, target)
        return await self._contextualized(_Work(item, target, prepared, stored.version_number))

    async def _contextualized(self, work: _Work) -> _Work:
        count = len(work.prepared.chunks)
        self._at(work.item.claim, IngestionState.CONTEXTUALIZING, ChunkCounts(count))

        async def on_usage(usage: Usage) -> None:
            await self._queue.spend(work.item.claim, usage)

        chunks = await self._contextualization.contextualize(work.prepared, work.collection, on_usage)
        work.prepared = replace(work.prepared, chunks=chunks)
        return work

    async def _embed(self, group: Sequence[_Work]) -> list[_Work]:
        """The items of the group that could be embedded."""
        for work in group:
            self._at(work.item.claim, IngestionState.EMBEDDING, work.counts)
        try:
            texts = [chunk.embedded_text for work in group for chunk in work.prepared.chunks]
            with _tracer.start_as_current_span("embed_chunks", attributes={"chunks": len(texts)}):
                parts = [await self._embedder.embed(some) for some in batched(texts, GROUP_CHUNKS)]
            tokens = await asyncio.to_thread(self._embedder.embedder.count_tokens, texts)
        except Exception as error:
            if len(group) == 1:
                await self._failed(group[0].item, IngestionState.EMBEDDING, error, group[0].counts)
                return []
            # One of them may be to blame: the others get through alone.
            return [embedded for work in group for embedded in await self._embed([work])]
        vectors: Vectors = np.concatenate(parts).astype(np.float16, copy=False)
        end = 0
        for work in group:
            begin, end = end, end + len(work.prepared.chunks)
            work.vectors = vectors[begin:end]
            work.token_count = sum(tokens[begin:end])
        return list(group)

    async def _store(self, group: Sequence[_Work]) -> None:
        for work in group:
            self._at(work.item.claim, IngestionState.STORING, work.counts)
        connections = asyncio.Semaphore(STORING_CONNECTIONS)

        async def store(batch: list[_Work]) -> None:
            async with connections:
                await self._store_batch(batch)

        async with asyncio.TaskGroup() as tasks:
            for batch in _transactions(group):
                tasks.create_task(store(batch))

    async def _store_batch(self, batch: list[_Work]) -> None:
        [first, *others] = batch
        try:
            if first.item.kind is JobKind.REINDEX:
                await self._reindex.store(first.item, first.version_number, first.new_version)
            else:
                await self._documents.store(first.collection, [work.new_version for work in batch])
        except Exception as error:
            if not others:
                await self._failed(first.item, IngestionState.STORING, error, first.counts)
                return
            # One of them may be to blame, or no longer ours.
            for work in batch:
                await self._store_batch([work])
            return
        for work in batch:
            _chunks_counter.add(len(work.prepared.chunks))
            self._ended(work.item, "stored")

    # --- what becomes of items ---

    async def _guarded[T](self, item: LeasedItem, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await work
        except Exception as error:
            stage = self._held[item.claim].state if item.claim in self._held else IngestionState.EXTRACTING
            await self._failed(item, stage, error, ChunkCounts())
            return None

    async def _failed(
        self, item: LeasedItem, stage: IngestionState, error: Exception, counts: ChunkCounts
    ) -> None:
        """End an item, or put it off where trying again may help."""
        gone = isinstance(error, NotFoundError) and error.reason == "COLLECTION_NOT_FOUND"
        if gone or isinstance(error, ClaimLostError):
            self._ended(item, "lost")
            return
        failure = _failure_of(error, stage)
        transient = isinstance(error, OSError | TimeoutError) or (
            isinstance(error, GroundlineError) and error.code in _TRANSIENT
        )
        try:
            if transient and item.attempts < self._options.max_attempts:
                pause = min(self._options.retry_seconds * 2 ** (item.attempts - 1), LONGEST_PAUSE_SECONDS)
                asked = getattr(error, "retry_after_seconds", None) or 0.0
                await self._queue.postpone(item.claim, max(pause, asked), failure)
                self._ended(item, "postponed")
            else:
                await self._queue.fail(item.claim, failure, counts)
                self._ended(item, "failed")
        except ClaimLostError:
            self._ended(item, "lost")
        except UnavailableError:
            # Nobody hears of it now; the lease runs out, and the item is begun again.
            self._ended(item, "lost")

    def _ended(self, item: LeasedItem, outcome: str) -> None:
        self._held.pop(item.claim, None)
        self._shown.pop(item.claim, None)
        _documents_counter.add(1, {"outcome": outcome})
        _log.info("item_ended", job_id=item.claim.job_id, item=item.claim.item_index, outcome=outcome)

    def _at(self, claim: Claim, stage: IngestionState, counts: ChunkCounts | None = None) -> None:
        if claim in self._held:
            self._held[claim] = Progress(claim, stage, counts or self._held[claim].chunks)

    # --- beside the pipeline ---

    def _lease_ids(self) -> list[str]:
        return list({claim.lease_id for claim in self._held})

    async def _repeat(self, seconds: float, work: Any) -> None:
        while True:
            begun = time.monotonic()
            try:
                await work()
            except UnavailableError as error:
                _log.warning("upkeep_failed", work=work.__name__, reason=error.reason)
            except Exception as error:
                _log.error("upkeep_failed", work=work.__name__, error=type(error).__qualname__)
            await asyncio.sleep(max(0.0, seconds - (time.monotonic() - begun)))

    async def _show_progress(self) -> None:
        changed = [one for claim, one in self._held.items() if self._shown.get(claim) != one]
        if changed:
            await self._queue.progress(changed)
            self._shown.update({one.claim: one for one in changed if one.claim in self._held})

    async def _extend(self) -> None:
        if self._held:
            await self._queue.extend(self._lease_ids(), self._options.lease_seconds)

    async def _settle(self) -> None:
        for job_id in await self._reindex.settle(self._options.reindex_grace_seconds):
            _log.info("reindex_ended", job_id=job_id)

    async def _clean(self) -> None:
        await self._queue.discard(self._options.payload_seconds)
        await self._cache.discard(self._options.cache_seconds, CLEANED_VECTORS)
        await self._contextualization.discard(self._options.cache_seconds)


def _transactions(group: Sequence[_Work]) -> Iterator[list[_Work]]:
    """The group in pieces that are stored together: of one collection, each uri once."""
    batches: dict[str, list[_Work]] = {}
    for work in group:
        if work.item.kind is JobKind.REINDEX:
            yield [work]
            continue
        batch = batches.setdefault(work.item.collection_id, [])
        batch.append(work)
        if sum(len(one.prepared.chunks) for one in batch) >= TRANSACTION_CHUNKS:
            yield batches.pop(work.item.collection_id)
    yield from batches.values()


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
