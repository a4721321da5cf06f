"""Looking up, before the first event, what a request names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groundline.v1 import options_pb2
from groundline_runtime.context import Caller, deadline_within
from groundline_runtime.errors import DeadlineExceededError, NotFoundError, UnavailableError

from groundline_coordinator.domain.options import plan_of
from groundline_coordinator.domain.turns import Inquiry, Plan
from groundline_coordinator.ports import CollectionCatalog


async def scope_of(
    catalog: CollectionCatalog, caller: Caller, inquiry: Inquiry, generation: options_pb2.GenerationOptions
) -> Plan:
    """Return the plan of a request. Raises NotFoundError (COLLECTION_NOT_FOUND) for a collection that the
    caller may not read, and InvalidArgumentError for values beyond a collection's limits."""
    found = await catalog.readable(caller.principals, inquiry.collection_ids)
    known = {collection.collection_id for collection in found}
    if missing := [name for name in inquiry.collection_ids if name not in known]:
        raise NotFoundError("COLLECTION_NOT_FOUND", f"no such collection: {', '.join(missing)}")
    return plan_of(inquiry, generation, found)


@asynccontextmanager
async def looking_up(timeout_seconds: float) -> AsyncIterator[None]:
    """Bound the block, in which only the database is asked."""
    try:
        async with deadline_within(timeout_seconds):
            yield
    except DeadlineExceededError:
        raise UnavailableError(
            "DATABASE_BUSY", "the database did not answer in time", retry_after_seconds=1.0
        ) from None
