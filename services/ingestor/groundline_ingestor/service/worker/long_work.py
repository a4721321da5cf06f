"""Work of minutes or hours on one item: a crawl, a run of a source."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from groundline_runtime.errors import UnavailableError

from groundline_ingestor.adapters.postgres.collecting.crawls import PostgresCrawls
from groundline_ingestor.domain.work import ItemClaim

CHECK_SECONDS: Final = 1.0
"""Time after which work that was cancelled, or is no longer allowed, ends at the latest, in seconds, whatever
it waits for."""


async def while_held(
    work: Coroutine[Any, Any, None],
    claim: ItemClaim,
    crawls: PostgresCrawls,
    check_seconds: float = CHECK_SECONDS,
) -> None:
    """Do the work to its end, or until the claim is no longer held, or its caller may no longer write.

    Raises what the work raises, ClaimLostError, and PermissionDeniedError (COLLECTION_NOT_WRITABLE).
    """
    try:
        await crawls.require_allowed(claim)
    except BaseException:
        work.close()
        raise
    working = asyncio.create_task(work)
    loss = asyncio.create_task(_until_refused(claim, crawls, check_seconds))
    try:
        done, _ = await asyncio.wait({working, loss}, return_when=asyncio.FIRST_COMPLETED)
        await (working if working in done else loss)
    finally:
        for task in (working, loss):
            task.cancel()
        await asyncio.gather(working, loss, return_exceptions=True)


async def _until_refused(claim: ItemClaim, crawls: PostgresCrawls, check_seconds: float) -> None:
    while True:
        await asyncio.sleep(check_seconds)
        with suppress(UnavailableError):
            await crawls.require_allowed(claim)
