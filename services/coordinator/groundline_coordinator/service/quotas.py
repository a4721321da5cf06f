"""Quotas of callers: threads, answers and tokens.

Threads and tokens are counted in the database, for all replicas; concurrent requests may exceed them. The
threads of a caller that has many left are not counted at each of its answers. Each replica counts its own
answers under way, so that none stays counted when a process is lost.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cachetools import TTLCache
from groundline.v1 import chat_pb2, quota_pb2
from groundline_runtime.context import Caller
from groundline_runtime.quotas import require_within

from groundline_coordinator.ports import QuotaStore, QuotaUse

__all__ = ["CallerQuotas", "QuotaLimits"]

RETRY_SECONDS: Final = 1.0
"""Time after which an answer may be asked for again while others are under way, in seconds."""


_UNCOUNTED_SHARE: Final = 1 / 10
_UNCOUNTED_SECONDS: Final = 10.0
"""Time after which a caller's threads are counted again, in seconds. Until then it may begin a share of the
threads left to it; with ten replicas it begins no more than allowed."""

_REMEMBERED_CALLERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Quotas of a caller; `tokens` are those of a day, None without a limit."""

    threads: int = 10_000
    answers: int = 100
    tokens: int | None = None


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
        if self._limits.tokens is None and (not new_thread_id or self._needs_no_count(owner)):
            return QuotaUse(threads=0, tokens=0)
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
            wait = _seconds_to_midnight()
            require_within(quota_pb2.QUOTA_TOKENS, used.tokens, 1, limits.tokens, retry_after_seconds=wait)

    def are_spent_by(self, usage: chat_pb2.Usage) -> bool:
        """Tell whether an answer's usage counts."""
        return self._limits.tokens is not None and _tokens(usage) > 0

    async def spend(self, owner: str, usage: chat_pb2.Usage) -> None:
        """Count an answer's usage."""
        if self.are_spent_by(usage):
            await self._store.spend(owner, _tokens(usage))

    async def usages(self, caller: Caller) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the caller's usage."""
        used, limits = await self._store.used(caller.owner), self._limits
        counts = [
            (quota_pb2.QUOTA_THREADS, used.threads, limits.threads),
            (quota_pb2.QUOTA_ANSWERS, self._answering[caller.owner], limits.answers),
            *([(quota_pb2.QUOTA_TOKENS, used.tokens, limits.tokens)] if limits.tokens is not None else []),
        ]
        return [quota_pb2.QuotaUsage(quota=quota, used=count, limit=limit) for quota, count, limit in counts]


def _tokens(usage: chat_pb2.Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens


def _seconds_to_midnight() -> float:
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - now).total_seconds()
