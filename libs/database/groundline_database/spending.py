"""Ledger of the US dollars that models cost callers, for answers and documents alike.

It is kept by caller and day (UTC), for all services and replicas.
"""

from datetime import UTC, date, datetime
from typing import Final

from cachetools import TTLCache
from groundline_runtime.quotas import Budgets, Spent

from groundline_database.pool import Pool, acquire

_KEPT_DAYS: Final = 62
"""Days that are kept: those of this month and of the one before."""

_TOTAL_SECONDS: Final = 10.0
"""Time for which a process takes the sum of all callers for known, in seconds."""

_SUMS: Final = """
    SELECT coalesce(sum(usd) FILTER (WHERE day = (now() AT TIME ZONE 'UTC')::date), 0) AS day_usd,
           coalesce(sum(usd), 0) AS month_usd
    FROM spending
    WHERE {} day >= date_trunc('month', now() AT TIME ZONE 'UTC')::date
"""

_SPEND: Final = """
    WITH forgotten AS (
        DELETE FROM spending WHERE owner = $1 AND day < (now() AT TIME ZONE 'UTC')::date - $3::integer
    )
    INSERT INTO spending AS known (owner, day, usd) VALUES ($1, (now() AT TIME ZONE 'UTC')::date, $2)
    ON CONFLICT (owner, day) DO UPDATE SET usd = known.usd + excluded.usd
"""


class SpendingLedger:
    """Ledger of US dollars, in PostgreSQL. Any method raises UnavailableError while the database is down."""

    def __init__(self, pool: Pool, budgets: Budgets) -> None:
        self._pool = pool
        self.budgets = budgets
        self._total: TTLCache[date, tuple[float, float]] = TTLCache(1, _TOTAL_SECONDS)

    async def spent(self, owner: str) -> Spent:
        """Return what a caller spent, and all callers until some seconds ago, as far as there are budgets."""
        if not self.budgets.are_set:
            return Spent()
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(_SUMS.format("owner = $1 AND"), owner)
        assert row is not None, "sums have a row"
        return Spent(row["day_usd"], row["month_usd"], *await self._spent_by_all())

    async def _spent_by_all(self) -> tuple[float, float]:
        if self.budgets.all_day_usd is None and self.budgets.all_month_usd is None:
            return 0.0, 0.0
        today = datetime.now(UTC).date()
        if (known := self._total.get(today)) is not None:
            return known
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(_SUMS.format(""))
        assert row is not None, "sums have a row"
        total = self._total[today] = (row["day_usd"], row["month_usd"])
        return total

    async def spend(self, owner: str, usd: float) -> None:
        """Add to what a caller has spent today."""
        if not usd:
            return
        async with acquire(self._pool) as connection:
            await connection.execute(_SPEND, owner, usd, _KEPT_DAYS)
