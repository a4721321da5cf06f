"""Usage of callers and collections, counted in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

from collections.abc import Sequence
from typing import Final

from groundline_database import Pool, acquire, read_statements
from groundline_database.spending import SpendingLedger
from groundline_indexing.partitions import PENDING

from groundline_ingestor.domain.quotas import CallerUse, CollectionUse

_SQL: Final = read_statements(__name__)


class PostgresQuotas:
    """Counter of usage, with the ledger of its cost. Any method raises UnavailableError while the store is
    down."""

    def __init__(self, pool: Pool, spending: SpendingLedger) -> None:
        self._pool = pool
        self.spending = spending

    async def used_by(self, owner: str) -> CallerUse:
        """Return a caller's usage."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"""
                SELECT
                    (SELECT count(*) FROM collections WHERE creator = $1) AS collections,
                    (SELECT count(DISTINCT job.job_id)
                     FROM ingestion_items AS item JOIN ingestion_jobs AS job USING (job_id)
                     WHERE item.{PENDING} AND coalesce(job.principals[1], '') = $1) AS jobs
                """,
                owner,
            )
        assert row is not None, "counts have a row"
        return CallerUse(row["collections"], row["jobs"])

    async def used_in(self, collection_id: str, *, uris: Sequence[str] = ()) -> CollectionUse:
        """Return a collection's usage, without the documents of these uris."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                _SQL["used_in"],
                collection_id,
                list(uris),
            )
        assert row is not None, "aggregates have a row"
        return CollectionUse(row["documents"], row["bytes"], row["sources"])
