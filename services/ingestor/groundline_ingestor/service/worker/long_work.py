"""Work of minutes or hours on one item: a crawl, a run of a source."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from groundline_runtime.errors import UnavailableError

from groundline_ingestor.adapters.postgres.collecting.crawls import PostgresCrawls
from groundline_ingestor.domain.work import ClaimLostError, ItemClaim

__all__ = ["CHECK_SECONDS", "while_held"]

CHECK_SECONDS: Final = 1.0
"""Time after which cancelled work ends at the latest, in seconds, whatever it waits for."""


async def while_held(
    work: Coroutine[Any, Any, None],
    claim: ItemClaim,
    crawls: PostgresCrawls,
    check_seconds: float = CHECK_SECONDS,
) -> None:
    """Do the work to its end, or until the claim is no longer held.

    Raises what the work raises, and ClaimLostError.
    """
    working = asyncio.create_task(work)
    loss = asyncio.create_task(_until_lost(claim, crawls, check_seconds))
    try:
        done, _ = await asyncio.wait({working, loss}, return_when=asyncio.FIRST_COMPLETED)
        await (working if working in done else loss)
    finally:
        for task in (working, loss):
            task.cancel()
        await asyncio.gather(working, loss, return_exceptions=True)


async def _until_lost(claim: ItemClaim, crawls: PostgresCrawls, check_seconds: float) -> None:
    while True:
        await asyncio.sleep(check_seconds)
        with suppress(UnavailableError):
            if not await crawls.is_held(claim):
                raise ClaimLostError(claim)
