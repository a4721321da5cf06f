"""Quotas of callers: threads, answers, tokens and cost.

Threads, tokens and cost are counted in the database, for all replicas; concurrent requests may exceed them.
The threads of a caller that has many left are not counted at each of its answers. Each replica counts its own
answers under way, so that none stays counted when a process is lost.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import structlog
from cachetools import TTLCache
from groundline.v1 import chat_pb2, quota_pb2
from groundline_runtime.context import Caller
from groundline_runtime.quotas import require_unspent, require_within
from groundline_runtime.reasons import enum_label

from groundline_coordinator.domain.quotas import QuotaUse
from groundline_coordinator.ports import QuotaStore

__all__ = ["CallerQuotas", "QuotaLimits"]

RETRY_SECONDS: Final = 1.0
"""Time after which an answer may be asked for again while others are under way, in seconds."""


_UNCOUNTED_SHARE: Final = 1 / 10
_UNCOUNTED_SECONDS: Final = 10.0
"""Time after which a caller's threads are counted again, in seconds. Until then it may begin a share of the
threads left to it; with ten replicas it begins no more than allowed."""

_REMEMBERED_CALLERS: Final = 10_000

_WARNING_SECONDS: Final = 3600.0
"""Time after which the log says again of a caller what it said, in seconds."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Quotas of a caller: `tokens` of a day, and US dollars of a day and of a month, None without a limit."""

    threads: int = 10_000
    answers: int = 100
    tokens: int | None = None
    day_usd: float | None = None
    month_usd: float | None = None
    warning_share: float = 0.8
    """Share of tokens and US dollars from which the caller is warned."""

    @property
    def are_spent(self) -> bool:
        """Whether answers use up any."""
        return any(limit is not None for limit in (self.tokens, self.day_usd, self.month_usd))

    @property
    def have_prices(self) -> bool:
        """Whether any is of US dollars."""
        return self.day_usd is not None or self.month_usd is not None


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
        self._warned: TTLCache[tuple[str, ...], bool] = TTLCache(_REMEMBERED_CALLERS, _WARNING_SECONDS)

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
            wait = _seconds_to(_tomorrow())
            require_within(quota_pb2.QUOTA_TOKENS, used.tokens, 1, limits.tokens, retry_after_seconds=wait)
        if limits.day_usd is not None:
            wait = _seconds_to(_tomorrow())
            require_unspent(quota_pb2.QUOTA_COST_DAY, used.day_usd, limits.day_usd, retry_after_seconds=wait)
        if limits.month_usd is not None:
            wait = _seconds_to(_next_month())
            require_unspent(
                quota_pb2.QUOTA_COST_MONTH, used.month_usd, limits.month_usd, retry_after_seconds=wait
            )

    def are_spent_by(self, usage: chat_pb2.Usage) -> bool:
        """Tell whether an answer's usage counts."""
        return usage.cost_usd > 0 or (self._limits.are_spent and _tokens(usage) > 0)

    async def spend(self, owner: str, usage: chat_pb2.Usage) -> None:
        """Count an answer's usage. What it cost counts without a limit, too, for one that is set later."""
        if not self.are_spent_by(usage):
            return
        if self._limits.have_prices and not usage.HasField("cost_usd") and self._is_first(owner, "price"):
            _log.warning("price_not_known", client=owner, hint="its answers do not count for budgets")
        await self._store.spend(owner, _tokens(usage), usage.cost_usd)

    def nearly_used(
        self, owner: str, before: QuotaUse, usage: chat_pb2.Usage
    ) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the quotas of tokens and cost of which a caller has used the warning share with an
        answer."""
        after = replace(
            before,
            tokens=before.tokens + _tokens(usage),
            day_usd=before.day_usd + usage.cost_usd,
            month_usd=before.month_usd + usage.cost_usd,
        )
        share = self._limits.warning_share
        found = [each for each in self._spent(after) if each.used >= share * each.limit]
        for each in found:
            name = enum_label(quota_pb2.Quota, each.quota)
            if self._is_first(owner, name):
                _log.warning("quota_nearly_used", client=owner, quota=name, used=each.used, limit=each.limit)
        return found

    def _is_first(self, *what: str) -> bool:
        """Tell whether the log did not say this lately, and remember it."""
        is_first = what not in self._warned
        self._warned.setdefault(what, True)
        return is_first

    def _spent(self, used: QuotaUse) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of the quotas that answers use up."""
        limits = self._limits
        counts = (
            (quota_pb2.QUOTA_TOKENS, used.tokens, limits.tokens),
            (quota_pb2.QUOTA_COST_DAY, used.day_usd, limits.day_usd),
            (quota_pb2.QUOTA_COST_MONTH, used.month_usd, limits.month_usd),
        )
        return [
            quota_pb2.QuotaUsage(quota=quota, used=count, limit=limit)
            for quota, count, limit in counts
            if limit is not None
        ]

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


def _seconds_to(day: date) -> float:
    """Return the seconds until a day begins in UTC."""
    return (datetime.combine(day, time(), UTC) - datetime.now(UTC)).total_seconds()


def _tomorrow() -> date:
    return datetime.now(UTC).date() + timedelta(days=1)


def _next_month() -> date:
    return (datetime.now(UTC).date().replace(day=1) + timedelta(days=32)).replace(day=1)
