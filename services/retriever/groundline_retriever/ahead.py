"""Work that begins with what is expected, while it is looked up whether that is still so."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

__all__ = ["begun_ahead"]


async def begun_ahead[Found, Result](
    expected: Found | None,
    look_up: Awaitable[Found],
    is_same: Callable[[Found, Found], bool],
    work: Callable[[Found], Coroutine[Any, Any, Result]],
) -> Result:
    """What `work` makes of what is looked up.

    It begins with `expected`, unless that is None. What it makes of that counts, failures included, only if
    what is looked up is the same; else, and where looking up fails, it is cancelled and forgotten.
    """
    if expected is None:
        return await work(await look_up)
    ahead = asyncio.create_task(work(expected))
    try:
        found = await look_up
    except BaseException:
        await _given_up(ahead)
        raise
    if is_same(expected, found):
        return await ahead
    await _given_up(ahead)
    return await work(found)


async def _given_up(task: asyncio.Task[Any]) -> None:
    """Cancelled, and what it raised is nobody's concern."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
