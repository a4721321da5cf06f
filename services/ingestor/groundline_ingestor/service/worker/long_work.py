"""Work of minutes or hours on one item: a crawl, a run of a source."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

from groundline_runtime.errors import UnavailableError

from groundline_ingestor.domain.work import ClaimLostError, ItemClaim

__all__ = ["CHECK_SECONDS", "while_held"]

CHECK_SECONDS: Final = 1.0
"""Time after which cancelled work ends at the latest, in seconds, whatever it waits for."""


class _Claims(Protocol):
    async def is_held(self, claim: ItemClaim) -> bool: ...


async def while_held(
    work: Coroutine[Any, Any, None], claim: ItemClaim, claims: _Claims, check_seconds: float = CHECK_SECONDS
) -> None:
    """Do the work to its end, or until the claim is no longer held.

    Raises what the work raises, and ClaimLostError.
    """
    working = asyncio.create_task(work)
    loss = asyncio.create_task(_until_lost(claim, claims, check_seconds))
    try:
        done, _ = await asyncio.wait({working, loss}, return_when=asyncio.FIRST_COMPLETED)
        await (working if working in done else loss)
    finally:
        for task in (working, loss):
            task.cancel()
        await asyncio.gather(working, loss, return_exceptions=True)


async def _until_lost(claim: ItemClaim, claims: _Claims, check_seconds: float) -> None:
    while True:
        await asyncio.sleep(check_seconds)
        with suppress(UnavailableError):
            if not await claims.is_held(claim):
                raise ClaimLostError(claim)
