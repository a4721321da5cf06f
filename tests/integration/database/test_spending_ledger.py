"""Spending is kept by day and month, for all services, those of the release before included."""

from collections.abc import AsyncIterator, Callable

import pytest
from groundline_database import DatabaseSettings, Pool, migrate, migrations_of, open_pool
from groundline_database.migrations import apply
from groundline_database.spending import SpendingLedger
from groundline_ingestor.migrate import migrate as migrate_ingestor
from groundline_ingestor.settings import MigrationSettings
from groundline_runtime.quotas import Budgets, Spent

type MakeSettings = Callable[..., DatabaseSettings]

MONTH = "date_trunc('month', now() AT TIME ZONE 'UTC')::date"
TODAY = "(now() AT TIME ZONE 'UTC')::date"
OF_CALLERS, OF_ALL = Budgets(day_usd=1), Budgets(all_month_usd=1)


@pytest.fixture
async def pool(fresh_settings: MakeSettings) -> AsyncIterator[Pool]:
    [table] = [one for one in migrations_of("ingestor") if one.name == "spending"]
    async with open_pool(fresh_settings()) as pool:
        await pool.execute(table.sql)
        yield pool


async def spend_on(day: str, pool: Pool, ledger: SpendingLedger, owner: str, usd: float) -> None:
    await ledger.spend(owner, usd)
    await pool.execute(f"UPDATE spending SET day = {day} WHERE owner = $1 AND day = {TODAY}", owner)


async def test_spending_counts_for_its_day_and_month_and_is_kept_for_two_months(pool: Pool) -> None:
    ledger = SpendingLedger(pool, OF_CALLERS)
    for day in (f"{MONTH} - 100", f"{MONTH} - 1"):
        await spend_on(day, pool, ledger, "ann", 1.0)
    assert await ledger.spent("ann") == Spent()
    for usd in (0.5, 0.25, 0.0):
        await ledger.spend("ann", usd)
    assert await ledger.spent("ann") == Spent(0.75, 0.75)
    assert await ledger.spent("bob") == Spent()
    assert await pool.fetchval("SELECT count(*) FROM spending") == 2
    if await pool.fetchval(f"SELECT {MONTH} < {TODAY}"):
        await pool.execute(f"UPDATE spending SET day = {MONTH} WHERE usd = 0.75")
        assert await ledger.spent("ann") == Spent(0.0, 0.75)


async def test_all_callers_are_added_up_only_where_a_budget_asks_for_it(pool: Pool) -> None:
    await SpendingLedger(pool, Budgets()).spend("ann", 0.5)
    await SpendingLedger(pool, OF_CALLERS).spend("bob", 0.25)
    assert await SpendingLedger(pool, OF_ALL).spent("bob") == Spent(0.25, 0.25, 0.75, 0.75)
    assert await SpendingLedger(pool, OF_CALLERS).spent("bob") == Spent(0.25, 0.25)
    assert await SpendingLedger(pool, Budgets()).spent("bob") == Spent()


async def test_coordinators_of_the_release_before_go_on_after_migration(
    fresh_settings: MakeSettings,
) -> None:
    async with open_pool(fresh_settings()) as pool:
        await migrate_ingestor(MigrationSettings(database_url=fresh_settings().database_url))
        async with pool.acquire() as connection:
            await apply(connection, "coordinator", migrations_of("coordinator")[:6])
        await pool.execute(f"INSERT INTO costs VALUES ('ann', {TODAY}, 0.5)")
        await migrate(fresh_settings(), "coordinator")
        # The statement of the release before.
        await pool.execute(
            """
            WITH forgotten AS (
                DELETE FROM costs WHERE owner = $1 AND day < (now() AT TIME ZONE 'UTC')::date - 62
            )
            INSERT INTO costs AS known (owner, day, usd) VALUES ($1, (now() AT TIME ZONE 'UTC')::date, $2)
            ON CONFLICT (owner, day) DO UPDATE SET usd = known.usd + excluded.usd
            """,
            "ann",
            0.25,
        )
        assert await SpendingLedger(pool, OF_CALLERS).spent("ann") == Spent(0.75, 0.75)
