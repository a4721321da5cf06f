"""Work that is left behind because it took too long."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any


class LateTasks:
    """Tasks that were cancelled and have not ended. Nobody waits for them: a database that hangs may take
    long to acknowledge a cancellation."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(self._tasks)

    def leave(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Cancel those that have not ended."""
        for task in tasks:
            if not task.done():
                self._tasks.add(task)
                task.add_done_callback(self._forget)
                task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would report it as lost
