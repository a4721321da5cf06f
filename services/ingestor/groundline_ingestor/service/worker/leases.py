"""Leases of this process: taken, extended, shown, given back."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from groundline.v1 import document_pb2, job_pb2
from groundline_runtime.errors import UnavailableError
from groundline_runtime.turns import RecentUse

from groundline_ingestor.adapters.postgres.queue import PostgresQueue
from groundline_ingestor.domain.work import ClientUse, ItemClaim, LeasedItem, Progress

RELEASE_SECONDS: Final = 5.0
"""Maximum time for a process that ends to give back its leases, in seconds; after that they run out."""

MAX_READY_CLIENTS: Final = 32
"""Maximum clients whose documents wait to be embedded: nothing more is taken meanwhile."""

MAX_BEGUN: Final = 8
"""Maximum long documents of one client that are embedded in turns, with which it has its share of what waits:
fewer leave room for small ones."""

SEARCH_HALF_LIFE_SECONDS: Final = 3600.0
"""Time after which half of what a client's crawls and runs of sources took is forgotten, in seconds."""

DRAINING_SECONDS: Final = 30.0
"""Time for which a process begins nothing new while suspects wait, in seconds, and for which it then
continues as usual if long documents keep it from being idle."""


_log = structlog.get_logger(__name__)


class Searched[Request](Protocol):
    """Queue of searches for documents: crawls, or runs of sources."""

    async def lease(
        self, lease_id: str, *, seconds: float, alone: bool, use: ClientUse
    ) -> tuple[LeasedItem, Request] | None:
        """Claim the next that waits; see PostgresCrawls.lease."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Maxima of one client in this process."""

    prepared: int
    """Documents that are being prepared."""
    ready_chunks: int
    """Chunks of documents that wait to be embedded; the last document may exceed it."""
    held: int
    """Documents at all stages."""
    searches: int
    """Crawls and runs of sources of all clients; one has half of what the others leave."""


class Leases:
    """Items that this process works on, with their progress.

    Suspects, which are items that were at work when a worker was lost, are worked on beside each other only,
    by halves: if the process is lost again, one of these is at fault, in the end the one that was alone. A
    crawl or run of a source that is a suspect may take hours, so only others of these wait for it.
    """

    def __init__(
        self,
        queue: PostgresQueue,
        *,
        models: Sequence[str],
        lease_seconds: float,
        maximum_attempts: int,
        shares: Shares,
        on_free: Callable[[], None],
    ) -> None:
        """Take the queue and its limits. `models` are the running embedding models. `on_free` is called when
        items can be taken again."""
        self._queue = queue
        self._models = models
        self._lease_seconds = lease_seconds
        self._maximum_attempts = maximum_attempts
        self._shares = shares
        self._on_free = on_free
        self._held: dict[ItemClaim, Progress] = {}
        self._shown: dict[ItemClaim, Progress] = {}
        self._documents: dict[ItemClaim, str] = {}
        """Owner of each document's claim."""
        self._preparing: dict[ItemClaim, str] = {}
        """Documents that are not ready to be embedded yet, with their owners."""
        self._ready: dict[ItemClaim, int] = {}
        """Chunks of documents that wait to be embedded."""
        self._crowded: set[str] = set()
        """Clients that may have more waiting than their share let this process take."""
        self._searches: dict[ItemClaim, tuple[str, float]] = {}
        """Clients of crawls and runs of sources, and when these began."""
        self._search_use = RecentUse(half_life_seconds=SEARCH_HALF_LIFE_SECONDS)
        self._suspects: set[ItemClaim] = set()
        self._suspects_wait = False
        self._leasing = asyncio.Lock()
        self._advanced = asyncio.Event()

    async def lease(self, limit: int) -> Sequence[LeasedItem]:
        """Take documents to work on, of one client no more than its share; none while the store is down."""
        async with self._leasing:
            # One client does not get here: it is passed over when it has its share.
            if len({self._documents[claim] for claim in self._ready}) >= MAX_READY_CLIENTS:
                return ()
            is_free = not self._documents
            if self._suspects or (self._suspects_wait and not is_free and _is_draining()):
                return ()
            if self._suspects_wait and is_free:
                items = [*await self._take(limit, suspects=True)]
                self._suspects = {item.claim for item in items}
                return items
            items = [*await self._take(min(limit, self._room()))]
            if len(items) < limit and (crowding := self._crowding()):
                self._crowded.update(crowding)
                items += await self._take(limit - len(items), passed_over=crowding)
            return items

    async def _take(
        self, limit: int, *, suspects: bool = False, passed_over: Sequence[str] = ()
    ) -> Sequence[LeasedItem]:
        if limit <= 0:
            return ()
        try:
            items = await self._queue.lease(
                str(uuid.uuid4()),
                models=self._models,
                limit=limit,
                seconds=self._lease_seconds,
                suspects=suspects,
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
        rooms = [maximum - max(counts.values(), default=0) for counts, maximum in self._counted()]
        return 0 if min(rooms) <= 0 else min(rooms[:-1])

    def _crowding(self) -> list[str]:
        """Return the clients that have reached one of their maxima."""
        return [
            client
            for counts, maximum in self._counted()
            for client, count in counts.items()
            if count >= maximum
        ]

    def _counted(self) -> Sequence[tuple[Counter[str], int]]:
        """Return what clients have of each thing, with the maximum of one client; chunks are the last."""
        ready = Counter[str]()
        for claim, chunks in self._ready.items():
            ready[self._documents[claim]] += chunks
        return (
            (Counter(self._preparing.values()), self._shares.prepared),
            (Counter(self._documents.values()), self._shares.held),
            (ready, self._shares.ready_chunks),
        )

    def prepared(self, claim: ItemClaim, chunks: int) -> None:
        """Record that a document is ready to be embedded, so that its client may have another one prepared,
        unless too many of its chunks wait."""
        if self._preparing.pop(claim, None) is not None:
            self._ready[claim] = chunks

    def embedding(self, claims: Iterable[ItemClaim]) -> None:
        """Record that documents are being embedded."""
        for claim in claims:
            self._ready.pop(claim, None)
        if self._crowded:
            self._on_free()

    def embedded_in_part(self, claims: Iterable[ItemClaim]) -> None:
        """Record that what is left of long documents waits to be embedded."""
        for claim in claims:
            if claim in self._documents:
                self._ready[claim] = self._shares.ready_chunks // MAX_BEGUN

    async def lease_search[Request](self, searched: Searched[Request]) -> tuple[LeasedItem, Request] | None:
        """Take a crawl or the run of a source to do. None begins while documents are suspects, which would be
        charged for its faults, or while the store is down."""
        async with self._leasing:
            if self._suspects or self._suspects_wait:
                return None
            try:
                leased = await searched.lease(
                    str(uuid.uuid4()),
                    seconds=self._lease_seconds,
                    alone=not self._searches,
                    use=self._use_of_searches(),
                )
            except UnavailableError as error:
                _log.warning("lease_failed", reason=error.reason)
                return None
            if leased:
                self._hold(leased[0])
                self._searches[leased[0].claim] = (leased[0].owner, self._search_use.clock())
            return leased

    def _use_of_searches(self) -> ClientUse:
        """Return for how long each client's crawls and runs have lately been at work, and who has half of
        what the others leave: a newcomer finds a place, however long those of others last."""
        now, used = self._search_use.clock(), dict(self._search_use.of_all())
        counts = Counter(client for client, _ in self._searches.values())
        for client, begun in self._searches.values():
            used[client] = used.get(client, 0.0) + now - begun
        free = self._shares.searches - len(self._searches)
        return ClientUse(used, [client for client, count in counts.items() if count >= max(1, free)])

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
        self._ready.pop(claim, None)
        search = self._searches.pop(claim, None)
        if search is not None:
            self._search_use.add(search[0], self._search_use.clock() - search[1])
        self._suspects.discard(claim)
        # Not with each document: the next are taken several at a time.
        held = sum(other == client for other in self._documents.values())
        is_uncrowded = client in self._crowded and held <= self._shares.held // 2
        if is_uncrowded:
            self._crowded.discard(client)
        if is_uncrowded or self._suspects_wait or search is not None:
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
        known, self._suspects_wait = self._suspects_wait, await self._queue.has_suspects(self._models)
        if self._suspects_wait and not known:
            # Whoever was woken when they were taken from the lost worker has not seen them as suspects.
            self._on_free()

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
        self._ready.clear()
        self._crowded.clear()
        self._searches.clear()
        self._suspects.clear()

    def _ids(self) -> list[str]:
        return list({claim.lease_id for claim in self._held})


def _is_draining() -> bool:
    return int(time.monotonic() / DRAINING_SECONDS) % 2 == 0
