"""Pipeline of items: prepared concurrently, embedded in groups, stored while others are embedded."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from groundline.v1 import document_pb2
from groundline_indexing.collections import StoredCollection
from groundline_runtime.context import queued_work
from groundline_runtime.turns import RecentUse
from groundline_runtime.waking import Waking
from opentelemetry import trace

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.domain.work import ClaimLostError, LeasedItem
from groundline_ingestor.service.worker.embedding import GROUP_CHUNKS
from groundline_ingestor.service.worker.items import PREPARED_ITEMS, ItemWork, Unembedded, Work
from groundline_ingestor.service.worker.leases import Leases
from groundline_ingestor.service.worker.outcomes import Outcomes
from groundline_ingestor.service.worker.ready import ReadyWork
from groundline_ingestor.settings import IngestorSettings

TRANSACTION_CHUNKS: Final = GROUP_CHUNKS
"""Chunks of small documents that are stored in one transaction. Each costs the lexical index a segment, which
is merged with others later: half as many chunks take PostgreSQL a third more time."""

STORING_CONNECTIONS: Final = 4
"""Maximum concurrent transactions of one group."""

GATHERING_SECONDS: Final = 0.1
"""Time for which ready items wait for more to be embedded with, in seconds."""

BUSY_SECONDS: Final = 0.5
"""Time between two looks for work of a line whose items are slow, in seconds."""

_tracer = trace.get_tracer("groundline_ingestor")


class Pipeline:
    """Lines of work of one process, which share its threads."""

    def __init__(
        self,
        collections: PostgresCollections,
        items: ItemWork,
        leases: Leases,
        outcomes: Outcomes,
        waking: Waking,
        settings: IngestorSettings,
    ) -> None:
        self._collections = collections
        self._items = items
        self._leases = leases
        self._outcomes = outcomes
        self._waking = waking
        self._settings = settings
        self._used = RecentUse()

    async def run(self) -> None:
        """Work until cancelled."""
        async with self._items.threads(), asyncio.TaskGroup() as tasks:
            for _ in range(self._settings.workers):
                tasks.create_task(self._line())

    async def _line(self) -> None:
        ready = ReadyWork(self._used)
        embedded: asyncio.Queue[list[Work]] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._prepare_items(ready))
            tasks.create_task(self._embed_groups(ready, embedded))
            tasks.create_task(self._store_groups(embedded))

    async def _prepare_items(self, ready: ReadyWork) -> None:
        """Prepare items concurrently, so that a slow one holds up none of the others; ready ones continue in
        groups, or as they are when no other has become ready for a while."""
        group: list[Work] = []
        running: set[asyncio.Task[Work | None]] = set()
        found_work = stalled = True
        seen = self._waking.calls
        async with asyncio.TaskGroup() as tasks:
            while True:
                free = PREPARED_ITEMS - len(running)
                found_work = found_work or self._waking.calls != seen
                # Several at a time, but one while the others are slow.
                if free > 0 and found_work and (stalled or free >= PREPARED_ITEMS // 2):
                    seen = self._waking.calls
                    items = await self._leases.lease(free)
                    found_work = bool(items)
                    collections = _Collections(self._collections)
                    running |= {
                        tasks.create_task(self._outcomes.guarded(item, self._prepare(item, collections)))
                        for item in items
                    }
                if not running:
                    ready.add(group)
                    group = []
                    await self._waking.wait(seen)
                    found_work = stalled = True
                    continue
                more = bool(group) or (found_work and len(running) < PREPARED_ITEMS)
                done, running = await asyncio.wait(
                    running,
                    timeout=GATHERING_SECONDS if more else BUSY_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                stalled = not done
                for work in (task.result() for task in done):
                    if work:
                        self._leases.prepared(work.item.claim, len(work.new.chunks))
                        group.append(work)
                if stalled or sum(len(one.new.chunks) for one in group) >= GROUP_CHUNKS:
                    ready.add(group)
                    group = []
                found_work = found_work or (stalled and not more)

    async def _embed_groups(self, ready: ReadyWork, embedded: "asyncio.Queue[list[Work]]") -> None:
        while True:
            taken = await ready.take()
            counts = [(work.item.owner, work.next_count) for work in taken]
            self._leases.embedding(work.item.claim for work in taken)
            begun = self._used.clock()
            group = await self._embed(taken)
            ready.charge(counts, self._used.clock() - begun)
            begun_only = [work for work in group if not work.is_embedded]
            self._leases.embedded_in_part(work.item.claim for work in begun_only)
            ready.add(begun_only)
            if whole := [work for work in group if work.is_embedded]:
                await embedded.put(whole)

    async def _store_groups(self, embedded: "asyncio.Queue[list[Work]]") -> None:
        while True:
            group = await embedded.get()
            while not embedded.empty():  # embedded while the one before was stored
                group += embedded.get_nowait()
            await self._store(group)

    async def _embed(self, group: Sequence[Work]) -> list[Work]:
        """Embed the next chunks of the group, and return the items for which it worked."""
        for work in group:
            self._leases.at(work.item.claim, document_pb2.INGESTION_STATE_EMBEDDING, work.counts)
        try:
            with _work_on(group, "embed_items"):
                embedded = await self._items.embed(
                    [Unembedded(work.item, work.collection, work.next_chunks) for work in group]
                )
        except Exception as error:
            if len(group) == 1:
                await self._outcomes.failed(
                    group[0].item, document_pb2.INGESTION_STATE_EMBEDDING, error, group[0].counts
                )
                return []
            # One of them may be to blame: the others get through alone.
            return [one for work in group for one in await self._embed([work])]
        for work, (vectors, token_count) in zip(group, embedded, strict=True):
            work.embedded(vectors, token_count)
        return list(group)

    async def _store(self, group: Sequence[Work]) -> None:
        for work in group:
            self._leases.at(work.item.claim, document_pb2.INGESTION_STATE_STORING, work.counts)
        connections = asyncio.Semaphore(STORING_CONNECTIONS)

        async def store(batch: list[Work]) -> None:
            async with connections:
                await self._store_batch(batch)

        async with asyncio.TaskGroup() as tasks:
            for batch in _transactions(group):
                tasks.create_task(store(batch))

    async def _store_batch(self, batch: list[Work]) -> None:
        [first, *others] = batch
        try:
            with _work_on(batch, "store_items"):
                await self._items.store(batch)
        except Exception as error:
            if not others:
                await self._outcomes.failed(
                    first.item, document_pb2.INGESTION_STATE_STORING, error, first.counts
                )
                return
            # One of them may be to blame, or no longer ours.
            for work in batch:
                await self._store_batch([work])
            return
        for work in batch:
            self._outcomes.ended(work.item, "stored")

    async def _prepare(self, item: LeasedItem, collections: "_Collections") -> Work | None:
        collection = await collections.find(item.collection_id)
        if collection is None:
            raise ClaimLostError(item.claim)
        return await self._items.prepare(item, collection)


class _Collections:
    """Collections, each looked up once."""

    def __init__(self, collections: PostgresCollections) -> None:
        self._collections = collections
        self._found: dict[str, asyncio.Task[StoredCollection | None]] = {}

    async def find(self, collection_id: str) -> StoredCollection | None:
        if collection_id not in self._found:
            self._found[collection_id] = asyncio.ensure_future(self._collections.find(collection_id))
        return await asyncio.shield(self._found[collection_id])


def _work_on(group: Sequence[Work], name: str) -> AbstractContextManager[None]:
    """Return the span of work on items of several requests."""
    return queued_work(_tracer, name, (work.item.traceparent for work in group), items=len(group))


def _transactions(group: Sequence[Work]) -> Iterator[list[Work]]:
    """Yield the group in pieces that are stored together: of one collection, each uri once."""
    batches: dict[str, list[Work]] = {}
    for work in group:
        if work.item.target is not None:
            yield [work]
            continue
        batch = batches.setdefault(work.item.collection_id, [])
        batch.append(work)
        if sum(len(one.new.chunks) for one in batch) >= TRANSACTION_CHUNKS:
            yield batches.pop(work.item.collection_id)
    yield from batches.values()
