"""Workers: items leased, prepared side by side, embedded in groups, stored while others are embedded."""

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import batched
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

import numpy as np
import structlog
from groundline_runtime.errors import Code, GroundlineError, NotFoundError, UnavailableError
from opentelemetry import metrics, trace

from groundline_ingestor.crawling import CrawlRequest
from groundline_ingestor.domain import (
    Chunk,
    ChunkCounts,
    Claim,
    Collection,
    DocumentText,
    DocumentVersion,
    FileContent,
    IngestionError,
    IngestionFailure,
    IngestionState,
    JobKind,
    LeasedItem,
    NewVersion,
    Progress,
    Series,
    Stretch,
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
    VectorIndexes,
    WorkQueue,
)
from groundline_ingestor.service.collections import require_running_model
from groundline_ingestor.service.contextualization import Contextualization
from groundline_ingestor.service.crawls import Crawling
from groundline_ingestor.service.embedding import RememberingEmbedder
from groundline_ingestor.service.finished import FinishedChunks
from groundline_ingestor.service.preparation import Preparation, Prepared, identify

__all__ = ["Worker", "WorkerOptions"]

GROUP_CHUNKS: Final = 256
"""Chunks that are embedded together; enough for the embedder to batch by length, little enough to store
meanwhile."""

TRANSACTION_CHUNKS: Final = 128
"""Chunks of small documents that are stored in one transaction; each costs the lexical index a segment."""

STORING_CONNECTIONS: Final = 4
"""Transactions of one group at a time."""

PREPARED_ITEMS: Final = 16
"""Items that a line of work prepares at a time; of each no more than one stretch is in memory."""

LARGE_ITEMS: Final = 4
"""Documents of more than a part that a process reads at a time, and long texts that it works through: they
take memory and disk."""

GATHERING_SECONDS: Final = 0.1
"""How long what is ready waits for more to be embedded with."""

PROGRESS_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 1.0
RESTART_SECONDS: Final = 1.0
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
    crawls: int = 2
    lease_seconds: float = 30.0
    max_attempts: int = 5
    poll_seconds: float = 0.5
    spool_directory: Path | None = None
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
    stretches: Series[Stretch]
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
            self.stretches,
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
        vector_indexes: VectorIndexes,
        embedder: RememberingEmbedder,
        cache: EmbeddingCache,
        preparation: Preparation,
        contextualization: Contextualization,
        options: WorkerOptions,
        *,
        crawling: Crawling,
    ) -> None:
        self._queue = queue
        self._collections = collections
        self._documents = documents
        self._reindex = reindex
        self._vector_indexes = vector_indexes
        self._embedder = embedder
        self._cache = cache
        self._preparation = preparation
        self._contextualization = contextualization
        self._options = options
        self._crawling = crawling
        self._threads: ThreadPoolExecutor | None = None
        # More threads that compute only keep each other, and the event loop, waiting for the interpreter.
        self._computing = asyncio.Semaphore(max(1, options.workers))
        self._reading = asyncio.Semaphore(LARGE_ITEMS)
        self._finishing_long = asyncio.Semaphore(LARGE_ITEMS)
        self._held: dict[Claim, Progress] = {}
        self._shown: dict[Claim, Progress] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look for work now."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; what is held then goes back to the queue.

        An error that nobody foresaw is logged, and work begins anew: a process that lives but does nothing
        would hide it.
        """
        while True:
            try:
                await self._work()
            except Exception as error:
                _log.error("worker_failed", **_whereabouts(error))
            await asyncio.sleep(RESTART_SECONDS)

    async def _work(self) -> None:
        # As many as may be at it, so that none waits for another that waits for its file to be read.
        threads = ThreadPoolExecutor(max(1, self._options.workers) * PREPARED_ITEMS, "prepare")
        self._threads = threads
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._options.workers):
                    tasks.create_task(self._pipeline())
                if self._options.workers:
                    for _ in range(self._options.crawls):
                        tasks.create_task(self._crawl_sites())
                    tasks.create_task(self._repeat(PROGRESS_SECONDS, self._show_progress))
                    tasks.create_task(self._repeat(self._options.lease_seconds / 3, self._extend))
                    tasks.create_task(self._repeat(SETTLE_SECONDS, self._settle))
                    tasks.create_task(self._repeat(SETTLE_SECONDS, self._vector_indexes.build_due))
                    tasks.create_task(self._repeat(CLEANING_SECONDS, self._clean))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            if self._held:
                with suppress(UnavailableError, TimeoutError):
                    async with asyncio.timeout(5):
                        await self._queue.release(self._lease_ids())
            self._held.clear()
            self._shown.clear()

    # --- the pipeline ---

    async def _pipeline(self) -> None:
        prepared: asyncio.Queue[list[_Work]] = asyncio.Queue(1)
        embedded: asyncio.Queue[list[_Work]] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._prepare_items(prepared))
            tasks.create_task(self._embed_groups(prepared, embedded))
            tasks.create_task(self._store_groups(embedded))

    async def _prepare_items(self, prepared: "asyncio.Queue[list[_Work]]") -> None:
        """Items side by side, so that a slow one holds up none of the others; ready ones go on in groups, or
        as they are when nothing else has become ready for a while."""
        group: list[_Work] = []
        running: set[asyncio.Task[_Work | None]] = set()
        found_work = stalled = True
        async with asyncio.TaskGroup() as tasks:
            while True:
                free = PREPARED_ITEMS - len(running)
                # Several at a time, but one where the others are slow.
                wanted = found_work and (stalled or free >= PREPARED_ITEMS // 2)
                if free > 0 and (wanted or self._wake.is_set()):
                    items = await self._lease(free)
                    found_work = bool(items)
                    collections = _Collections(self._collections)
                    running |= {
                        tasks.create_task(self._guarded(item, self._prepare(item, collections)))
                        for item in items
                    }
                if not running:
                    if group:
                        await prepared.put(group)
                        group = []
                    await self._wait_for_work()
                    found_work = stalled = True
                    continue
                more = bool(group) or (found_work and len(running) < PREPARED_ITEMS)
                done, running = await asyncio.wait(
                    running,
                    timeout=GATHERING_SECONDS if more else self._options.poll_seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                stalled = not done
                group += [work for work in (task.result() for task in done) if work]
                if sum(len(one.prepared.chunks) for one in group) >= GROUP_CHUNKS or (group and stalled):
                    await prepared.put(group)
                    group = []
                found_work = found_work or (stalled and not more)

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

    async def _lease(self, limit: int) -> Sequence[LeasedItem]:
        self._wake.clear()
        try:
            items = await self._queue.lease(
                str(uuid.uuid4()),
                model=self._embedder.embedder.model,
                limit=limit,
                seconds=self._options.lease_seconds,
                max_attempts=self._options.max_attempts,
            )
        except UnavailableError as error:
            _log.warning("lease_failed", reason=error.reason)
            return ()
        for item in items:
            self._hold(item)
        return items

    def _hold(self, item: LeasedItem) -> None:
        progress = Progress(item.claim, IngestionState.EXTRACTING, ChunkCounts())
        self._held[item.claim] = self._shown[item.claim] = progress

    async def _wait_for_work(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.poll_seconds):
                await self._wake.wait()

    async def _prepare(self, item: LeasedItem, collections: "_Collections") -> _Work | None:
        """The item, ready to be embedded with others; None when nothing is left to be done for it."""
        collection = await collections.find(item.collection_id)
        if collection is None:
            raise ClaimLostError(item.claim)
        if item.kind is JobKind.REINDEX:
            return await self._prepare_again(item, collection)
        require_running_model(collection, self._embedder.embedder)
        given = await self._queue.given(item)
        try:
            given, version = await self._computed(identify, given, collection)
            refreshed = await self._documents.refresh(collection, version, item.claim)
            if refreshed is not None:
                self._ended(item, str(refreshed[1]))
                return None
            is_large = isinstance(given.content, FileContent)
            async with self._reading if is_large else nullcontext():
                text, version = await self._in_thread(self._preparation.read, given, version)
        finally:
            if isinstance(given.content, FileContent):
                given.content.file.close()
        return await self._chunked(item, collection, text, version)

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
        return await self._chunked(item, target, stored.text, version, stored.version_number)

    async def _chunked(
        self,
        item: LeasedItem,
        collection: Collection,
        text: DocumentText,
        version: DocumentVersion,
        version_number: int = 0,
    ) -> _Work | None:
        """A document of one stretch with its chunks. A longer one is brought to its end here, stretch by
        stretch, since it is a group of its own and others should not wait for it."""

        def on_stage(stage: IngestionState) -> None:
            self._at(item.claim, stage)

        with closing(text.stretches):
            parts = self._preparation.chunk(text, version, collection, on_stage)
            if len(text.stretches) > 1:
                async with self._finishing_long:
                    await self._finish_long(item, collection, text, version, parts, version_number)
                return None
            [prepared] = await self._computed(list, parts)
        chunks = await self._contextualized(item, collection, prepared, ChunkCounts())
        return _Work(item, collection, replace(prepared, chunks=chunks), text.stretches, version_number)

    async def _finish_long(
        self,
        item: LeasedItem,
        collection: Collection,
        text: DocumentText,
        version: DocumentVersion,
        parts: Iterator[Prepared],
        version_number: int,
    ) -> None:
        with FinishedChunks(self._options.spool_directory) as finished:
            token_count = 0
            while (prepared := await self._computed(next, parts, None)) is not None:
                await self._queue.require(item.claim)  # else a cancelled document would go on for hours
                before = len(finished.chunks)
                chunks = await self._contextualized(
                    item, collection, prepared, ChunkCounts(before, before, before)
                )
                count = before + len(chunks)
                self._at(item.claim, IngestionState.EMBEDDING, ChunkCounts(count, count, before))
                vectors, tokens = await self._vectors([chunk.embedded_text for chunk in chunks])
                token_count += sum(tokens)
                await self._in_thread(finished.append, chunks, vectors)
            count = len(finished.chunks)
            self._at(item.claim, IngestionState.STORING, ChunkCounts(count, count, count))
            new = NewVersion(
                version, finished.chunks, finished.vectors, text.stretches, token_count, item.claim
            )
            if item.kind is JobKind.REINDEX:
                await self._reindex.store(item, version_number, new)
            else:
                await self._documents.store(collection, [new])
        _chunks_counter.add(count)
        self._ended(item, "stored")

    async def _contextualized(
        self, item: LeasedItem, collection: Collection, prepared: Prepared, before: ChunkCounts
    ) -> Sequence[Chunk]:
        """The chunks of a document or stretch with their contexts; `before` counts those of earlier ones."""
        counts = before + ChunkCounts(len(prepared.chunks))
        self._at(item.claim, IngestionState.CONTEXTUALIZING, counts)

        async def on_usage(usage: Usage) -> None:
            await self._queue.spend(item.claim, usage)

        return await self._contextualization.contextualize(prepared, collection, on_usage)

    async def _computed[**P, T](self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What takes no longer than its computing, when it is its turn."""
        async with self._computing:
            return await self._in_thread(work, *arguments, **named)

    async def _in_thread[**P, T](self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """In a thread of preparations: where slow ones wait, no other work of the process waits for them."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, partial(work, *arguments, **named)
        )

    async def _embed(self, group: Sequence[_Work]) -> list[_Work]:
        """The items of the group that could be embedded."""
        for work in group:
            self._at(work.item.claim, IngestionState.EMBEDDING, work.counts)
        try:
            texts = [chunk.embedded_text for work in group for chunk in work.prepared.chunks]
            vectors, tokens = await self._vectors(texts)
        except Exception as error:
            if len(group) == 1:
                await self._failed(group[0].item, IngestionState.EMBEDDING, error, group[0].counts)
                return []
            # One of them may be to blame: the others get through alone.
            return [embedded for work in group for embedded in await self._embed([work])]
        end = 0
        for work in group:
            begin, end = end, end + len(work.prepared.chunks)
            work.vectors = vectors[begin:end]
            work.token_count = sum(tokens[begin:end])
        return list(group)

    async def _vectors(self, texts: Sequence[str]) -> tuple[Vectors, Sequence[int]]:
        """Vectors of at least one text, and the tokens of each."""
        with _tracer.start_as_current_span("embed_chunks", attributes={"chunks": len(texts)}):
            parts = [await self._embedder.embed(some) for some in batched(texts, GROUP_CHUNKS)]
        tokens = await asyncio.to_thread(self._embedder.embedder.count_tokens, texts)
        return np.concatenate(parts).astype(np.float16, copy=False), tokens

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

    # --- crawls ---

    async def _crawl_sites(self) -> None:
        while True:
            leased = await self._lease_crawl()
            if leased is None:
                await self._wait_for_work()
            else:
                await self._guarded(leased[0], self._crawl(*leased))

    async def _lease_crawl(self) -> tuple[LeasedItem, CrawlRequest] | None:
        try:
            leased = await self._crawling.lease(
                str(uuid.uuid4()),
                seconds=self._options.lease_seconds,
                max_attempts=self._options.max_attempts,
            )
        except UnavailableError as error:
            _log.warning("lease_failed", reason=error.reason)
            return None
        if leased:
            self._hold(leased[0])
        return leased

    async def _crawl(self, item: LeasedItem, request: CrawlRequest) -> None:
        collection = await self._collections.find(item.collection_id)
        if collection is None:
            raise ClaimLostError(item.claim)
        await self._crawling.crawl(item.claim, request, collection)
        self._ended(item, "crawled")

    # --- what becomes of items ---

    async def _guarded[T](self, item: LeasedItem, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await work
        except Exception as error:
            begun = Progress(item.claim, IngestionState.EXTRACTING, ChunkCounts())
            reached = self._held.get(item.claim, begun)
            await self._failed(item, reached.state, error, reached.chunks)
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


class _Collections:
    """Looks each collection up once."""

    def __init__(self, collections: CollectionRepository) -> None:
        self._collections = collections
        self._found: dict[str, asyncio.Task[Collection | None]] = {}

    async def find(self, collection_id: str) -> Collection | None:
        if collection_id not in self._found:
            self._found[collection_id] = asyncio.ensure_future(self._collections.find(collection_id))
        return await asyncio.shield(self._found[collection_id])


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
    _log.error("document_failed", error_id=error_id, stage=stage, **_whereabouts(error))
    return IngestionFailure(
        stage, "INTERNAL", f"internal error {error_id}; the service's log holds its cause"
    )


def _whereabouts(error: BaseException) -> dict[str, Any]:
    """What of an error may be logged: neither its text nor local variables, which may quote a document."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = extract_tb(error.__traceback__)
    return {
        "error": type(error).__qualname__,
        "frames": [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames],
    }
