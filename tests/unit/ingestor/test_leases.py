"""Leases of a process, over a queue that fails at times."""

from collections.abc import Callable, Sequence
from typing import Any

from groundline_ingestor.domain.work import ItemClaim, LeasedItem
from groundline_ingestor.service.worker.leases import Leases, Shares
from groundline_runtime.errors import UnavailableError

ITEM = LeasedItem(ItemClaim("job", 0, "lease"), "docs", "a.md", "", 1, principals=("user:ann",))


class FailingQueue:
    """A queue that has one document, and is down when it is asked for those of others."""

    async def lease(
        self, lease_id: str, *, passed_over: Sequence[str] = (), **_: Any
    ) -> Sequence[LeasedItem]:
        if passed_over:
            raise UnavailableError("DATABASE_UNAVAILABLE", "down")
        return [ITEM]

    async def expire(self, maximum_attempts: int) -> int:
        return 1

    async def has_suspects(self, model: str) -> bool:
        return True


def leases_on(queue: Any, on_free: Callable[[], None]) -> Leases:
    return Leases(
        queue,
        models=["model"],
        lease_seconds=1,
        maximum_attempts=1,
        shares=Shares(prepared=1, ready_chunks=1, held=1, searches=1),
        on_free=on_free,
    )


async def test_documents_that_were_leased_before_the_store_went_down_are_worked_on() -> None:
    assert await leases_on(FailingQueue(), lambda: None).lease(2) == [ITEM]


async def test_work_is_looked_for_once_as_soon_as_a_lost_worker_has_left_some() -> None:
    woken: list[int] = []
    leases = leases_on(FailingQueue(), lambda: woken.append(1))
    await leases.expire()
    await leases.expire()
    assert woken == [1]
