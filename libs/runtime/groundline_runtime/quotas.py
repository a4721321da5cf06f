"""Quotas, budgets of US dollars among them, and the error of one that is used up.

Requests at the same time may exceed a budget by what they cost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Final, Protocol, Self

import structlog
from cachetools import TTLCache
from groundline.v1 import chat_pb2, quota_pb2
from pydantic import Field

from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.reasons import enum_label
from groundline_runtime.serving.detached import DetachedWork
from groundline_runtime.settings import Settings

_BOOKING_SECONDS: Final = 5.0
"""Maximum time of booking what has been spent, in seconds."""

_WARNING_SECONDS: Final = 3600.0
"""Time after which the log says again of a caller what it said, in seconds."""

_REMEMBERED_WARNINGS: Final = 10_000

_log = structlog.get_logger(__name__)


def require_within(
    quota: quota_pb2.Quota.ValueType,
    used: int,
    more: int,
    limit: int,
    *,
    retry_after_seconds: float | None = None,
) -> None:
    """Raise ResourceExhaustedError (QUOTA_EXHAUSTED), which names the quota, if `more` would exceed it."""
    if used + more > limit:
        said = f": {used} of {limit} are taken, and {more} more were asked for"
        raise _exhausted(quota, said, retry_after_seconds, used=used, limit=limit)


class BudgetSettings(Settings):
    """Settings of a process whose work costs money, in addition to its own."""

    max_usd_per_caller_a_day: Annotated[float, Field(gt=0)] | None = None
    """Maximum price in US dollars of a caller's answers, searches, checked texts and documents in a day
    (UTC); the answer or the call for a document that reaches it is finished. Calls of models whose price is
    not known do not count, which the log says. Coordinator, retriever and ingestor take the same. Unset: no
    limit."""

    max_usd_per_caller_a_month: Annotated[float, Field(gt=0)] | None = None
    """The same in a calendar month (UTC)."""

    max_usd_a_day: Annotated[float, Field(gt=0)] | None = None
    """The same of all callers together in a day (UTC). Callers are not told how much is spent; the log says
    when little is left."""

    max_usd_a_month: Annotated[float, Field(gt=0)] | None = None
    """The same in a calendar month (UTC)."""

    quota_warning_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the quotas of tokens and price from which answers and the log say how much is used."""


@dataclass(frozen=True, slots=True)
class Spent:
    """US dollars that a caller, and all callers, spent since midnight UTC and since the month began."""

    day_usd: float = 0.0
    month_usd: float = 0.0
    all_day_usd: float = 0.0
    all_month_usd: float = 0.0

    def plus(self, usd: float) -> "Spent":
        """Return the sums after the caller has spent more."""
        return Spent(
            self.day_usd + usd, self.month_usd + usd, self.all_day_usd + usd, self.all_month_usd + usd
        )


@dataclass(frozen=True, slots=True)
class Budgets:
    """Maximum US dollars of a caller, and of all callers, in a day and in a month; None without a limit."""

    day_usd: float | None = None
    month_usd: float | None = None
    all_day_usd: float | None = None
    all_month_usd: float | None = None

    @classmethod
    def of(cls, settings: BudgetSettings) -> Self:
        """Return the budgets of the settings."""
        return cls(
            settings.max_usd_per_caller_a_day,
            settings.max_usd_per_caller_a_month,
            settings.max_usd_a_day,
            settings.max_usd_a_month,
        )

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return self != Budgets()

    def require(self, spent: Spent) -> None:
        """Raise ResourceExhaustedError (QUOTA_EXHAUSTED) if one is spent, with the time until it begins
        anew. It tells no sum of all callers."""
        for each in self.usages_of_caller(spent):
            if each.used >= each.limit:
                said = f": {each.used:.2f} of {each.limit:.2f} US dollars are spent"
                raise _exhausted(
                    each.quota, said, seconds_to_renewal(each.quota), used=each.used, limit=each.limit
                )
        for each in self.usages_of_all(spent):
            if each.used >= each.limit:
                raise _exhausted(each.quota, " by all callers together", seconds_to_renewal(each.quota))

    def usages_of_caller(self, spent: Spent) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of the caller's own budgets."""
        return _usages(
            (quota_pb2.QUOTA_COST_DAY, spent.day_usd, self.day_usd),
            (quota_pb2.QUOTA_COST_MONTH, spent.month_usd, self.month_usd),
        )

    def usages_of_all(self, spent: Spent) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of the budgets of all callers, which are for the log alone."""
        return _usages(
            (quota_pb2.QUOTA_TOTAL_COST_DAY, spent.all_day_usd, self.all_day_usd),
            (quota_pb2.QUOTA_TOTAL_COST_MONTH, spent.all_month_usd, self.all_month_usd),
        )


class QuotaWarnings:
    """Warnings of quotas that are nearly used up: each time for the caller, once an hour in the log."""

    def __init__(self, share: float) -> None:
        """Take the share of a quota from which to warn."""
        self._share = share
        self._said: TTLCache[tuple[str, ...], bool] = TTLCache(_REMEMBERED_WARNINGS, _WARNING_SECONDS)

    def nearly_used(
        self, client: str, usages: Iterable[quota_pb2.QuotaUsage]
    ) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the quotas of which the share is used. `client`: whose they are, "" for those of all."""
        found = [each for each in usages if each.used >= self._share * each.limit]
        for each in found:
            name = enum_label(quota_pb2.Quota, each.quota)
            if self._is_first(client, name):
                _log.warning("quota_nearly_used", client=client, quota=name, used=each.used, limit=each.limit)
        return found

    def tell_without_price(self, client: str, work: str) -> None:
        """Say in the log that the price of a client's work, such as its answers, is not known."""
        if self._is_first(client, "price"):
            _log.warning("price_not_known", client=client, hint=f"its {work} do not count for budgets")

    def _is_first(self, *what: str) -> bool:
        """Tell whether the log did not say this lately, and remember it."""
        is_first = what not in self._said
        self._said.setdefault(what, True)
        return is_first


class Ledger(Protocol):
    """Record of what callers spent, in US dollars."""

    budgets: Budgets

    async def spent(self, owner: str) -> Spent: ...

    async def spend(self, owner: str, usd: float) -> None: ...


class Spending:
    """Spending of callers, within their budgets."""

    def __init__(self, ledger: Ledger, warnings: QuotaWarnings, work: str) -> None:
        """Take the ledger. `work`: what callers spend it for, such as "documents", for the log."""
        self._ledger = ledger
        self._warnings = warnings
        self._work = work
        self._booking = DetachedWork(_BOOKING_SECONDS)

    @property
    def have_budgets(self) -> bool:
        """Whether there is any budget."""
        return self._ledger.budgets.are_set

    async def require(self, owner: str) -> None:
        """Raise ResourceExhaustedError (QUOTA_EXHAUSTED) if a budget of a caller, or of all, is spent."""
        if not self.have_budgets:
            return
        budgets, spent = self._ledger.budgets, await self._ledger.spent(owner)
        budgets.require(spent)
        self._warnings.nearly_used("", budgets.usages_of_all(spent))
        self._warnings.nearly_used(owner, budgets.usages_of_caller(spent))

    async def spend(self, owner: str, usage: chat_pb2.Usage) -> None:
        """Count what calls of models cost, if that is known."""
        if self.have_budgets and not usage.HasField("cost_usd"):
            self._warnings.tell_without_price(owner, self._work)
        await self._ledger.spend(owner, usage.cost_usd)

    def book(self, owner: str, usage: chat_pb2.Usage) -> None:
        """Do the same without waiting for it; a failure is logged."""
        self._booking.run(self._booking.in_own_time(self.spend(owner, usage)))

    async def settle(self) -> None:
        """Wait for what is being booked; call it when no more requests come."""
        await self._booking.settle()


def _exhausted(
    quota: quota_pb2.Quota.ValueType, said: str, retry_after_seconds: float | None, **counts: float
) -> ResourceExhaustedError:
    name = enum_label(quota_pb2.Quota, quota)
    return ResourceExhaustedError(
        "QUOTA_EXHAUSTED",
        f"the quota of {name} is used up{said}",
        retry_after_seconds=retry_after_seconds,
        metadata={"quota": name, **{key: str(count) for key, count in counts.items()}},
    )


def _usages(
    *counts: tuple[quota_pb2.Quota.ValueType, float, float | None],
) -> Sequence[quota_pb2.QuotaUsage]:
    return [
        quota_pb2.QuotaUsage(quota=quota, used=used, limit=limit)
        for quota, used, limit in counts
        if limit is not None
    ]


def seconds_to_renewal(quota: quota_pb2.Quota.ValueType) -> float:
    """Return the seconds until a quota of a day or a month (UTC) begins anew."""
    now = datetime.now(UTC)
    if quota in (quota_pb2.QUOTA_COST_MONTH, quota_pb2.QUOTA_TOTAL_COST_MONTH):
        begin = (now.date().replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        begin = now.date() + timedelta(days=1)
    return (datetime.combine(begin, time(), UTC) - now).total_seconds()
