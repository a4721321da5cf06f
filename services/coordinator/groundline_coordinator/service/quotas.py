"""Quotas of callers: threads, answers, tokens and cost.

Threads, tokens and cost are counted in the database, for all replicas; concurrent requests may exceed them.
The threads of a caller that has many left are not counted at each of its answers. Each replica counts its own
answers under way, so that none stays counted when a process is lost.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from cachetools import TTLCache
from groundline.v1 import chat_pb2, quota_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_contracts import default_of
from groundline_runtime.context import Caller
from groundline_runtime.quotas import Budgets, QuotaWarnings, require_within, seconds_to_renewal

from groundline_coordinator.domain.quotas import QuotaUse
from groundline_coordinator.ports import QuotaStore

RETRY_SECONDS: Final = 1.0
"""Time after which an answer may be asked for again while others are under way, in seconds."""


_UNCOUNTED_SHARE: Final = 1 / 10
_UNCOUNTED_SECONDS: Final = 10.0
"""Time after which a caller's threads are counted again, in seconds. Until then it may begin a share of the
threads left to it; with ten replicas it begins no more than allowed."""

_REMEMBERED_CALLERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Quotas of a caller: `tokens` of a day, None without a limit."""

    threads: int = 10_000
    answers: int = 100
    tokens: int | None = None
    budgets: Budgets = field(default_factory=Budgets)
    warning_share: float = 0.8
    """Share of tokens and US dollars from which the caller is warned."""

    @property
    def are_spent(self) -> bool:
        """Whether answers use up any."""
        return self.tokens is not None or self.budgets.are_set


@dataclass(slots=True)
class _Uncounted:
    """Threads that may begin without a count."""

    left: int


class CallerQuotas:
    """Quotas of callers. Errors are ResourceExhaustedError (QUOTA_EXHAUSTED)."""

    def __init__(self, store: QuotaStore, limits: QuotaLimits) -> None:
        self._store = store
        self._limits = limits
        self._answering: Counter[str] = Counter()
        self._uncounted: TTLCache[str, _Uncounted] = TTLCache(_REMEMBERED_CALLERS, _UNCOUNTED_SECONDS)
        self._warnings = QuotaWarnings(limits.warning_share)

    @contextmanager
    def answering(self, caller: Caller) -> Iterator[None]:
        """Count the block as an answer under way. Raises if the caller has as many as allowed."""
        owner = caller.owner
        require_within(
            quota_pb2.QUOTA_ANSWERS,
            self._answering[owner],
            1,
            self._limits.answers,
            retry_after_seconds=RETRY_SECONDS,
        )
        self._answering[owner] += 1
        try:
            yield
        finally:
            self._answering[owner] -= 1
            if not self._answering[owner]:
                del self._answering[owner]

    async def used(self, owner: str, new_thread_id: str) -> QuotaUse:
        """Return the usage before an answer, and before the thread that begins with it, if one does; a thread
        that an earlier attempt began does not count."""
        if not self._limits.are_spent and (not new_thread_id or self._needs_no_count(owner)):
            return QuotaUse()
        used = await self._store.used(owner, besides=new_thread_id)
        left = int((self._limits.threads - used.threads) * _UNCOUNTED_SHARE)
        self._uncounted[owner] = _Uncounted(left)
        return used

    def _needs_no_count(self, owner: str) -> bool:
        """Tell whether one more thread may begin without a count, and take it."""
        known = self._uncounted.get(owner)
        if known is None or known.left <= 0:
            return False
        known.left -= 1
        return True

    def require_room(self, used: QuotaUse, new_thread_id: str) -> None:
        """Raise unless an answer, and the thread that begins with it, if one does, is within the quotas."""
        limits = self._limits
        if new_thread_id:
            require_within(quota_pb2.QUOTA_THREADS, used.threads, 1, limits.threads)
        if limits.tokens is not None:
            wait = seconds_to_renewal(quota_pb2.QUOTA_TOKENS)
            require_within(quota_pb2.QUOTA_TOKENS, used.tokens, 1, limits.tokens, retry_after_seconds=wait)
        limits.budgets.require(used.spent)

    async def spend(self, owner: str, usage: chat_pb2.Usage, searches: chat_pb2.Usage | None = None) -> None:
        """Count an answer's usage. What it cost counts without a limit, too, for one that is set later.

        `searches`: what its searches took; their cost is counted by the retriever.
        """
        tokens = _tokens(usage) + (_tokens(searches) if searches else 0)
        if not (usage.cost_usd or (self._limits.are_spent and tokens)):
            return
        if self._limits.budgets.are_set and _tokens(usage) and not usage.HasField("cost_usd"):
            self._warnings.tell_without_price(owner, "answers")
        await self._store.spend(owner, tokens, usage.cost_usd)

    def nearly_used(
        self, owner: str, before: QuotaUse, usage: chat_pb2.Usage
    ) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the quotas of tokens and cost of which a caller has used the warning share with an
        answer."""
        spent = before.spent.plus(usage.cost_usd)
        self._warnings.nearly_used("", self._limits.budgets.usages_of_all(spent))
        after = QuotaUse(before.threads, before.tokens + _tokens(usage), spent)
        return self._warnings.nearly_used(owner, self._spent(after))

    async def report(self, request: pb.GetUsageRequest) -> pb.GetUsageResponse:
        """Return what all callers, or one, used, for who administers the installation."""
        days = request.days or default_of(pb.GetUsageRequest, "days")
        since = datetime.now(UTC).date() - timedelta(days=days - 1)
        response = await self._store.report(since, request.caller or None)
        if self._limits.are_spent:
            used = await self._store.used(request.caller)
            budgets = self._limits.budgets
            response.quotas.extend(self._spent(used) if request.caller else budgets.usages_of_all(used.spent))
        return response

    def _spent(self, used: QuotaUse) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of the quotas that answers use up."""
        limits = self._limits
        usages = [*limits.budgets.usages_of_caller(used.spent)]
        if limits.tokens is not None:
            tokens = quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_TOKENS, used=used.tokens, limit=limits.tokens)
            usages.insert(0, tokens)
        return usages

    async def usages(self, caller: Caller) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the caller's usage."""
        used, limits = await self._store.used(caller.owner), self._limits
        counts = [
            (quota_pb2.QUOTA_THREADS, used.threads, limits.threads),
            (quota_pb2.QUOTA_ANSWERS, self._answering[caller.owner], limits.answers),
        ]
        kept = [quota_pb2.QuotaUsage(quota=quota, used=count, limit=limit) for quota, count, limit in counts]
        return [*kept, *self._spent(used)]


def _tokens(usage: chat_pb2.Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens
