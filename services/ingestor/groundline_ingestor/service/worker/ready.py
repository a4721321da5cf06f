"""Items that wait to be embedded, of which the next group is taken by clients."""

import asyncio
from collections.abc import Sequence

from groundline_runtime.turns import RecentUse

from groundline_ingestor.service.worker.embedding import GROUP_CHUNKS
from groundline_ingestor.service.worker.items import Work


class ReadyWork:
    """Items of one line of work that are ready to be embedded."""

    def __init__(self, used: RecentUse) -> None:
        """Take the time for which each client's items were embedded."""
        self._used = used
        self._works: list[Work] = []
        self._added = asyncio.Event()

    def add(self, works: Sequence[Work]) -> None:
        """Have items embedded."""
        self._works += works
        if self._works:
            self._added.set()

    async def take(self) -> list[Work]:
        """Wait for items, and return those whose next chunks to embed together: first of the client that has
        lately used least, in the order in which they were added. A long one is added again with what is left
        of it, behind those that became ready meanwhile."""
        await self._added.wait()
        group: list[Work] = []
        chunks = 0
        for work in sorted(self._works, key=lambda work: self._used.level(work.item.owner)):
            if group and chunks + work.next_count > GROUP_CHUNKS:
                break
            group.append(work)
            chunks += work.next_count
        taken = {id(work) for work in group}
        self._works = [work for work in self._works if id(work) not in taken]
        if not self._works:
            self._added.clear()
        return group

    def charge(self, counts: Sequence[tuple[str, int]], seconds: float) -> None:
        """Charge clients for the time of a group, by their chunks."""
        chunks = sum(count for _, count in counts)
        for client, count in counts:
            self._used.add(client, seconds * count / max(1, chunks))
