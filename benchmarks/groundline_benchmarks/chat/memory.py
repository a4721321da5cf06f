"""Growth of the services' memory with the chats they have served."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import psutil
from groundline_client import AsyncClient, JsonObject

from groundline_benchmarks.chat.chats import timed_chat


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Resident memory in MiB by process: after the warm-up, half-way, and at the end."""

    chats: int
    processes: Mapping[str, tuple[float, float, float]]


async def measure_memory(
    client: AsyncClient,
    requests: Sequence[JsonObject],
    pids: Mapping[str, int],
    *,
    chats: int,
    warm_up: int,
    concurrency: int,
    on_chat: Callable[[], None] = lambda: None,
) -> MemoryGrowth:
    """Run `chats` chats, `concurrency` at a time, after `warm_up` that fill caches and pools."""
    source = cycle(requests)
    await _run(client, islice(source, warm_up), concurrency, on_chat)
    before = _resident(pids)
    await _run(client, islice(source, chats // 2), concurrency, on_chat)
    middle = _resident(pids)
    await _run(client, islice(source, chats - chats // 2), concurrency, on_chat)
    after = _resident(pids)
    return MemoryGrowth(chats, {name: (before[name], middle[name], after[name]) for name in pids})


async def _run(
    client: AsyncClient, requests: Iterator[JsonObject], concurrency: int, on_chat: Callable[[], None]
) -> None:
    async def worker() -> None:
        for request in requests:
            await timed_chat(client, request)
            on_chat()

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())


def _resident(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the memory of each process; for PostgreSQL only the postmaster's, whose backends come and go."""
    return {name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in pids.items()}
