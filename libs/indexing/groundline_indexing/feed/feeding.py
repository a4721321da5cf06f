"""Delivery of changes to a search index outside PostgreSQL, and its comparison with PostgreSQL."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final

import structlog
from groundline_runtime.errors import FailedPreconditionError, GroundlineError, whereabouts
from groundline_runtime.waking import Waking
from groundline_weaviate import IndexedChunk

from groundline_indexing.feed.changes import Batch, FedPartition, FeedState, IndexWriter, Refusals
from groundline_indexing.feed.metrics import INDEX_LAG, INDEX_OBJECTS, INDEX_PENDING, INDEX_SET_ASIDE
from groundline_indexing.feed.state import HeldFeed, IndexFeed

BATCH: Final = 1_000
"""Chunks in one delivery: some two seconds' work, for which changes wait while an index is filled. With
fewer, the wait for the last vectors of a batch takes a larger share of the time."""

COMPARED: Final = 1_000
"""Chunks and objects that a comparison holds in memory."""

POLL_SECONDS: Final = 5.0
"""Time between two looks for changes without a notification, and for refused ones that are due again, in
seconds."""

MAX_PAUSE_SECONDS: Final = 10.0
"""Maximum pause between two attempts while the index is out of reach, in seconds; it doubles from one
second."""

STATE_SECONDS: Final = 10.0
LATE_SECONDS: Final = 60.0
"""Delay from which on the log says that the index is behind, in seconds."""

_chunk_id: Final = attrgetter("chunk_id")

_log = structlog.get_logger(__name__)


class Feeding:
    """Delivery of chunks' changes to the index, for as long as the process lives."""

    def __init__(self, feed: IndexFeed, index: IndexWriter) -> None:
        self._feed = feed
        self._index = index
        self._waking = Waking()
        self._state: FeedState | None = None

    def wake(self) -> None:
        """Look for changes now."""
        self._waking.wake()

    async def run(self) -> None:
        """Deliver changes until cancelled; log failures and try again."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._watch())

    async def round(self) -> bool:
        """Deliver a batch of changes and a page of a fill for each partition that has some; return whether
        there was any.

        Raises GroundlineError when the database or the index is out of reach.
        """
        await self._feed.begin()
        worked = False
        failures: list[GroundlineError] = []
        for partition, is_gone in await self._feed.due():
            try:
                async with self._feed.hold(partition) as held:
                    if held is not None:
                        work = self._drop if is_gone else self._take
                        worked |= await work(partition, held)
            except FailedPreconditionError as error:  # of this partition's objects; others may succeed
                failures.append(error)
        if failures:
            raise failures[0]
        return worked

    async def _follow(self) -> None:
        pause = 1.0
        while True:
            seen = self._waking.calls
            try:
                if not await self.round():
                    await self._waking.wait(seen, POLL_SECONDS)
                pause = 1.0
            except Exception as error:
                _log.warning("search_index_feed_failed", pause_seconds=pause, **_why(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _take(self, partition: FedPartition, held: HeldFeed) -> bool:
        if changes := await held.changes(BATCH):
            await held.settle(changes, await self._apply(partition, changes))
        page = await held.fill_page(BATCH)
        if page is not None:
            await held.settle_fill(page, await self._apply(partition, page), BATCH)
        return bool(changes or page)

    async def _drop(self, partition: FedPartition, held: HeldFeed) -> bool:
        await self._index.delete_partition(partition)
        await held.forget()
        _log.info("search_index_partition_deleted", partition_id=partition.partition_id)
        return True

    async def _apply(self, partition: FedPartition, batch: Batch) -> Refusals:
        refused: Refusals = {}
        if batch.chunks:
            refused = await self._write(partition, batch.chunks)
        if batch.gone:
            await self._index.delete(partition, batch.gone)
        for outcome, count in (
            ("written", len(batch.chunks) - len(refused)),
            ("deleted", len(batch.gone)),
            ("refused", len(refused)),
        ):
            if count:
                INDEX_OBJECTS.add(count, {"outcome": outcome})
        if refused:
            _log.warning(
                "search_index_refused",
                partition_id=partition.partition_id,
                chunks=len(refused),
                first=min(refused),
                failure=refused[min(refused)],
            )
        return refused

    async def _write(self, partition: FedPartition, chunks: Sequence[IndexedChunk]) -> Refusals:
        """Write chunks. If a call is refused whole, try each chunk alone, so that one does not keep the
        others out; if all are refused, the chunks are not the cause, and the error is raised."""
        try:
            return await self._index.write(partition, chunks)
        except FailedPreconditionError as error:
            if len(chunks) == 1:
                raise
            refused: dict[int, str] = {}
            for chunk in chunks:
                try:
                    refused |= await self._index.write(partition, [chunk])
                except FailedPreconditionError as of_chunk:
                    refused[chunk.chunk_id] = of_chunk.message
            if len(refused) == len(chunks):
                raise error from None
            return refused

    async def _watch(self) -> None:
        was_late = False
        while True:
            try:
                self._state = await self._feed.state()
            except Exception as error:
                _log.warning("search_index_state_unknown", **_why(error))
            else:
                INDEX_LAG.set(self._state.behind_seconds)
                INDEX_PENDING.set(self._state.pending_count)
                INDEX_SET_ASIDE.set(self._state.set_aside_count)
                is_late = self._state.behind_seconds > LATE_SECONDS
                if is_late:
                    _log.warning(
                        "search_index_late",
                        behind_seconds=round(self._state.behind_seconds),
                        pending=self._state.pending_count,
                        set_aside=self._state.set_aside_count,
                    )
                elif was_late:
                    _log.info("search_index_caught_up")
                was_late = is_late
            await asyncio.sleep(STATE_SECONDS)


def _why(error: Exception) -> dict[str, Any]:
    """Return fields for the log; without the text of an unexpected error."""
    return {"reason": error.reason} if isinstance(error, GroundlineError) else whereabouts(error)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between a partition and its objects, so far."""

    compared: int = 0
    missing: int = 0
    """Number of chunks without an object."""
    different: int = 0
    """Number of chunks whose object has another state."""
    surplus: int = 0
    """Number of objects without a chunk."""

    @property
    def repaired(self) -> int:
        return self.missing + self.different + self.surplus

    def __add__(self, other: "Comparison") -> "Comparison":
        return Comparison(
            self.compared + other.compared,
            self.missing + other.missing,
            self.different + other.different,
            self.surplus + other.surplus,
        )


async def compare(feed: IndexFeed, index: IndexWriter, partition: FedPartition) -> AsyncIterator[Comparison]:
    """Compare all chunks of a partition with all its objects, by id and content hash, and queue the differing
    ones for the index again; yield the counts as they grow.

    Concurrent changes may count as different, and are then delivered twice. Raises UnavailableError.
    """
    chunks = _paged(partial(feed.chunks, partition), _chunk_id)
    entries = _paged(partial(index.entries, partition), itemgetter(0))
    totals = Comparison()
    chunk, entry = await anext(chunks, None), await anext(entries, None)
    wrong: list[int] = []
    while chunk is not None or entry is not None:
        if entry is None or (chunk is not None and chunk.chunk_id < entry[0]):
            assert chunk is not None, "one of both is there"
            totals = replace(totals, compared=totals.compared + 1, missing=totals.missing + 1)
            wrong.append(chunk.chunk_id)
            chunk = await anext(chunks, None)
        elif chunk is None or entry[0] < chunk.chunk_id:
            totals = replace(totals, surplus=totals.surplus + 1)
            wrong.append(entry[0])
            entry = await anext(entries, None)
        else:
            is_same = chunk.content_hash == entry[1]
            totals = replace(totals, compared=totals.compared + 1, different=totals.different + (not is_same))
            if not is_same:
                wrong.append(chunk.chunk_id)
            chunk, entry = await anext(chunks, None), await anext(entries, None)
        if len(wrong) == COMPARED:
            await feed.record(partition, wrong)
            wrong = []
        if (totals.compared + totals.surplus) % COMPARED == 0:
            yield totals
    if wrong:
        await feed.record(partition, wrong)
    yield totals


async def _paged[T](
    page: Callable[..., Awaitable[Sequence[T]]], chunk_id: Callable[[T], int]
) -> AsyncGenerator[T, None]:
    last = 0
    while found := await page(after=last, limit=COMPARED):
        for each in found:
            yield each
        last = chunk_id(found[-1])
