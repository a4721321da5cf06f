"""Use of callers' quotas, in PostgreSQL."""

from datetime import date
from typing import Final

from groundline.v1 import coordinator_service_pb2 as pb
from groundline_database import Pool, database_errors
from groundline_database.spending import SpendingLedger
from groundline_database.statements import read_statements

from groundline_coordinator.domain.quotas import QuotaUse

_SQL: Final = read_statements(__name__)

_REPORTED: Final = 100
"""Maximum number of callers, and of models, in a report, as the contract says."""


class PostgresCallerQuotas:
    """A QuotaStore."""

    def __init__(self, pool: Pool, ledger: SpendingLedger) -> None:
        self._pool = pool
        self._ledger = ledger

    async def used(self, owner: str, *, besides: str = "") -> QuotaUse:
        with database_errors():
            row = await self._pool.fetchrow(
                """
                SELECT (SELECT count(*) FROM threads
                        WHERE owner = $1 AND thread_id IS DISTINCT FROM nullif($2, '')::uuid) AS threads,
                       coalesce((SELECT tokens FROM token_usage
                        WHERE owner = $1 AND day = (now() AT TIME ZONE 'UTC')::date), 0) AS tokens
                """,
                owner,
                besides,
            )
        assert row is not None, "counts have a row"
        return QuotaUse(**row, spent=await self._ledger.spent(owner))

    async def spend(self, owner: str, tokens: int, usd: float) -> None:
        await self._ledger.spend(owner, usd)
        with database_errors():
            # One row for each caller: yesterday's count is not needed any more.
            await self._pool.execute(
                """
                INSERT INTO token_usage AS known (owner, day, tokens)
                VALUES ($1, (now() AT TIME ZONE 'UTC')::date, $2)
                ON CONFLICT (owner) DO UPDATE SET
                    day = excluded.day,
                    tokens = excluded.tokens
                        + CASE WHEN known.day = excluded.day THEN known.tokens ELSE 0 END
                """,
                owner,
                tokens,
            )

    async def report(self, since: date, owner: str | None) -> pb.GetUsageResponse:
        with database_errors():
            rows = await self._pool.fetch(_SQL["report"], since, owner, _REPORTED)
        report = pb.GetUsageResponse()
        for part, *values in rows:
            sums = report.total if part == "total" else getattr(report, part).add()
            for field, value in zip(sums.DESCRIPTOR.fields, values, strict=True):
                setattr(sums, field.name, value)
        return report
