"""Concurrency: calls made at the same time, and computing that must not hold up other streams."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final

from groundline.v1 import generator_service_pb2 as pb

_INLINE_CHARACTERS: Final = 20_000
"""Maximum characters that are computed on the event loop, about 4 ms. The interpreter lets a thread run for 5
ms, so a thread would gain nothing."""


async def side_by_side[T](calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Return the results in order. The first failure cancels the other calls and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def computed[T](compute: Callable[[], T], passages: Sequence[pb.NumberedPassage]) -> T:
    """Return the result of `compute` on passages: at once if they are short, else from a thread."""
    if sum(len(passage.text) for passage in passages) <= _INLINE_CHARACTERS:
        return compute()
    return await asyncio.to_thread(compute)
