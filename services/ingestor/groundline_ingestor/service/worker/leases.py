"""Leases of this process: taken, extended, shown, given back."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import structlog
from groundline.v1 import document_pb2, job_pb2
from groundline_runtime.errors import UnavailableError

from groundline_ingestor.adapters.postgres.queue import PostgresQueue
from groundline_ingestor.domain.work import ItemClaim, LeasedItem, Progress

__all__ = ["Leases", "Searched"]

RELEASE_SECONDS: Final = 5.0
"""Maximum time for a process that ends to give back its leases, in seconds; after that they run out."""

DRAINING_SECONDS: Final = 30.0
"""Time for which a process begins nothing new while suspects wait, in seconds, and for which it then
continues as usual if long documents keep it from being idle."""


_log = structlog.get_logger(__name__)


class Searched[Request](Protocol):
    """Queue of searches for documents: crawls, or runs of sources."""

    async def lease(self, lease_id: str, *, seconds: float, alone: bool) -> tuple[LeasedItem, Request] | None:
        """Claim the first that waits; see PostgresCrawls.lease."""


class Leases:
    """Items that this process works on, with their progress.

    A suspect, which is an item that was at work when a worker was lost, is worked on alone: if the process is
    lost again, it is at fault. A crawl or run of a source that is a suspect may take hours, so only others of
    these wait for it.
    """

    def __init__(
        self,
        queue: PostgresQueue,
        *,
        model: str,
        lease_seconds: float,
        maximum_attempts: int,
        prepared_per_client: int,
        held_per_client: int,
        on_free: Callable[[], None],
    ) -> None:
        """Take the queue and its limits. `model` is the running embedding model; `prepared_per_client` and
        `held_per_client` are the maxima of a client's documents that are being prepared, and that are held in
        all. `on_free` is called when items can be taken again."""
        self._queue = queue
        self._model = model
        self._lease_seconds = lease_seconds
        self._maximum_attempts = maximum_attempts
        self._prepared_per_client = prepared_per_client
        self._held_per_client = held_per_client
        self._on_free = on_free
        self._held: dict[ItemClaim, Progress] = {}
        self._shown: dict[ItemClaim, Progress] = {}
        self._documents: dict[ItemClaim, str] = {}
        """Owner of each document's claim."""
        self._preparing: dict[ItemClaim, str] = {}
        """Documents that are not ready to be embedded yet, with their owners."""
        self._crowded: set[str] = set()
        """Clients that may have more waiting than their share let this process take."""
        self._searches: set[ItemClaim] = set()
        self._suspect: ItemClaim | None = None
        self._suspects_wait = False
        self._leasing = asyncio.Lock()
        self._advanced = asyncio.Event()

    async def lease(self, limit: int) -> Sequence[LeasedItem]:
        """Take documents to work on, of one client no more than its share; none while the store is down."""
        async with self._leasing:
            is_suspect = self._suspects_wait and not self._documents
            if self._suspect or (self._suspects_wait and not is_suspect and _is_draining()):
                return ()
            if is_suspect:
                items = [*await self._take(1, suspect=True)]
                self._suspect = items[0].claim if items else None
                return items
            items = [*await self._take(min(limit, self._room()))]
            if len(items) < limit and (crowding := self._crowding()):
                self._crowded.update(crowding)
                items += await self._take(limit - len(items), passed_over=crowding)
            return items

    async def _take(
        self, limit: int, *, suspect: bool = False, passed_over: Sequence[str] = ()
    ) -> Sequence[LeasedItem]:
        if limit <= 0:
            return ()
        try:
            items = await self._queue.lease(
                str(uuid.uuid4()),
                model=self._model,
                limit=limit,
                seconds=self._lease_seconds,
                suspect=suspect,
                passed_over=passed_over,
            )
        except UnavailableError as error:
            _log.warning("lease_failed", reason=error.reason)
            return ()
        for item in items:
            self._hold(item)
            self._documents[item.claim] = self._preparing[item.claim] = item.owner
        return items

    def _room(self) -> int:
        """Return how many documents may be taken, even if all are of the client that has the most."""
        return min(
            maximum - max(Counter(documents.values()).values(), default=0)
            for documents, maximum in self._shares()
        )

    def _crowding(self) -> list[str]:
        """Return the clients that have reached their maximum of held or prepared documents."""
        return [
            client
            for documents, maximum in self._shares()
            for client, count in Counter(documents.values()).items()
            if count >= maximum
        ]

    def _shares(self) -> Sequence[tuple[Mapping[ItemClaim, str], int]]:
        """Return the counted documents, with the maximum of one client's."""
        return (self._preparing, self._prepared_per_client), (self._documents, self._held_per_client)

    def prepared(self, claim: ItemClaim) -> None:
        """Record that a document is ready to be embedded, so that its client may have another one
        prepared."""
        self._preparing.pop(claim, None)

    async def lease_search[Request](self, searched: Searched[Request]) -> tuple[LeasedItem, Request] | None:
        """Take a crawl or the run of a source to do. None begins while documents are suspects, which would be
        charged for its faults, or while the store is down."""
        async with self._leasing:
            if self._suspect or self._suspects_wait:
                return None
            try:
                leased = await searched.lease(
                    str(uuid.uuid4()), seconds=self._lease_seconds, alone=not self._searches
                )
            except UnavailableError as error:
                _log.warning("lease_failed", reason=error.reason)
                return None
            if leased:
                self._hold(leased[0])
                self._searches.add(leased[0].claim)
            return leased

    def _hold(self, item: LeasedItem) -> None:
        """Count an item that was just leased."""
        progress = Progress(item.claim, document_pb2.INGESTION_STATE_EXTRACTING, job_pb2.ChunkCounts())
        self._held[item.claim] = self._shown[item.claim] = progress

    def drop(self, claim: ItemClaim) -> None:
        """Forget an item that has ended or is another worker's."""
        self._held.pop(claim, None)
        self._shown.pop(claim, None)
        client = self._documents.pop(claim, None)
        self._preparing.pop(claim, None)
        self._searches.discard(claim)
        if self._suspect == claim:
            self._suspect = None
        # Not with each document: the next are taken several at a time.
        held = sum(other == client for other in self._documents.values())
        is_uncrowded = client in self._crowded and held <= self._held_per_client // 2
        if is_uncrowded:
            self._crowded.discard(client)
        if is_uncrowded or self._suspects_wait:
            self._on_free()

    def at(
        self,
        claim: ItemClaim,
        stage: document_pb2.IngestionState.ValueType,
        counts: job_pb2.ChunkCounts | None = None,
    ) -> None:
        """Record the progress of an item; without counts the earlier ones stay."""
        if claim in self._held:
            self._held[claim] = Progress(claim, stage, counts or self._held[claim].chunks)
            self._advanced.set()

    def reached(self, claim: ItemClaim) -> Progress:
        """Return the progress of an item."""
        begun = Progress(claim, document_pb2.INGESTION_STATE_EXTRACTING, job_pb2.ChunkCounts())
        return self._held.get(claim, begun)

    async def show_progress(self) -> None:
        """Wait for a change since the last call, and store it. Raises UnavailableError."""
        await self._advanced.wait()
        changed = [one for claim, one in self._held.items() if self._shown.get(claim) != one]
        if changed:
            await self._queue.progress(changed)
            self._shown.update({one.claim: one for one in changed if one.claim in self._held})
        if all(self._shown[claim] == one for claim, one in self._held.items()):
            self._advanced.clear()

    async def extend(self) -> None:
        """Extend the leases by another term. Raises UnavailableError."""
        if self._held:
            await self._queue.extend(self._ids())

    async def expire(self) -> None:
        """Take items from lost workers, and check whether suspects wait. Raises UnavailableError."""
        await self._queue.expire(self._maximum_attempts)
        self._suspects_wait = await self._queue.has_suspects(self._model)

    async def release(self) -> None:
        """Give back the leases, if the store answers soon."""
        if self._held:
            with suppress(UnavailableError, TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._queue.release(self._ids())
        self._held.clear()
        self._shown.clear()
        self._documents.clear()
        self._preparing.clear()
        self._crowded.clear()
        self._searches.clear()
        self._suspect = None

    def _ids(self) -> list[str]:
        return list({claim.lease_id for claim in self._held})


def _is_draining() -> bool:
    return int(time.monotonic() / DRAINING_SECONDS) % 2 == 0
