"""What this process holds of the queue: kept, shown, given back."""

import asyncio
from contextlib import suppress
from typing import Final

from groundline_runtime.errors import UnavailableError

from groundline_ingestor.domain import ChunkCounts, Claim, IngestionState, LeasedItem, Progress
from groundline_ingestor.ports import WorkQueue

__all__ = ["Leases"]

RELEASE_SECONDS: Final = 5.0
"""How long a process that ends tries to give back what it holds; after that its leases run out."""


class Leases:
    """The items that this process works on, with how far each has come."""

    def __init__(self, queue: WorkQueue, *, lease_seconds: float) -> None:
        self._queue = queue
        self._lease_seconds = lease_seconds
        self._held: dict[Claim, Progress] = {}
        self._shown: dict[Claim, Progress] = {}

    def hold(self, item: LeasedItem) -> None:
        """Count an item that was just leased."""
        progress = Progress(item.claim, IngestionState.EXTRACTING, ChunkCounts())
        self._held[item.claim] = self._shown[item.claim] = progress

    def drop(self, claim: Claim) -> None:
        """Forget an item that has ended or went to another."""
        self._held.pop(claim, None)
        self._shown.pop(claim, None)

    def at(self, claim: Claim, stage: IngestionState, counts: ChunkCounts | None = None) -> None:
        """Note how far an item has come; without counts those it had."""
        if claim in self._held:
            self._held[claim] = Progress(claim, stage, counts or self._held[claim].chunks)

    def reached(self, claim: Claim) -> Progress:
        """How far an item has come."""
        return self._held.get(claim) or Progress(claim, IngestionState.EXTRACTING, ChunkCounts())

    async def show_progress(self) -> None:
        """Store what has changed since the last call. Raises UnavailableError."""
        changed = [one for claim, one in self._held.items() if self._shown.get(claim) != one]
        if changed:
            await self._queue.progress(changed)
            self._shown.update({one.claim: one for one in changed if one.claim in self._held})

    async def extend(self) -> None:
        """Keep what is held for another term. Raises UnavailableError."""
        if self._held:
            await self._queue.extend(self._ids(), self._lease_seconds)

    async def release(self) -> None:
        """Give back what is held, if the store answers soon."""
        if self._held:
            with suppress(UnavailableError, TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._queue.release(self._ids())
        self._held.clear()
        self._shown.clear()

    def _ids(self) -> list[str]:
        return list({claim.lease_id for claim in self._held})
