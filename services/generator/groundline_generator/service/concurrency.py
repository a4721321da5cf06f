"""Calls made at the same time."""

import asyncio
from collections.abc import Coroutine, Iterable

__all__ = ["side_by_side"]


async def side_by_side[T](calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """The results in order. The first failure cancels the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
