"""Quotas of callers and collections, and budgets of what their documents cost.

Concurrent requests may exceed one of documents, bytes, jobs or sources by their size: as many as the
gateway's MAX_CONCURRENT_REQUESTS of a client, in each of its worker threads. Checking and storing in one
transaction would serialise all hand-ins into a collection.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from groundline.v1 import document_pb2, quota_pb2
from groundline_extraction.documents import IngestionError
from groundline_runtime.context import Caller
from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.quotas import QuotaWarnings, Spending, require_within

from groundline_ingestor.adapters.postgres.quotas import PostgresQuotas
from groundline_ingestor.domain.quotas import Limits

_JOBS_SECONDS: Final = 5.0
"""Time after which a job may have ended, in seconds. The other quotas are freed by deletion alone."""


class Quotas:
    """Quotas. The `require` methods raise ResourceExhaustedError (QUOTA_EXHAUSTED), unless they say
    otherwise."""

    def __init__(self, repository: PostgresQuotas, limits: Limits, warnings: QuotaWarnings) -> None:
        self._repository = repository
        self._limits = limits
        self.spending = Spending(repository.spending, warnings, "documents")

    @property
    def max_collections(self) -> int:
        """Maximum collections of a caller, which the store of collections checks as it creates one."""
        return self._limits.collections

    async def require_job(self, caller: Caller) -> None:
        """Require room for a job beside the caller's unfinished ones."""
        used = await self._repository.used_by(caller.owner)
        require_within(
            quota_pb2.QUOTA_JOBS, used.jobs, 1, self._limits.jobs, retry_after_seconds=_JOBS_SECONDS
        )

    async def require_documents(self, collection_id: str, sizes: Mapping[str, int]) -> None:
        """Require room for documents, by uri with their bytes; those that they replace do not count."""
        used = await self._repository.used_in(collection_id, uris=list(sizes))
        require_within(quota_pb2.QUOTA_DOCUMENTS, used.documents, len(sizes), self._limits.documents)
        require_within(quota_pb2.QUOTA_BYTES, used.bytes, sum(sizes.values()), self._limits.bytes)

    async def require_room(self, collection_id: str, sizes: Mapping[str, int]) -> None:
        """Require room for documents that a worker, a crawl or a source has found, by uri with their bytes.

        Raises IngestionError (QUOTA_EXHAUSTED), which ends the run; earlier finds are ingested.
        """
        try:
            await self.require_documents(collection_id, sizes)
        except ResourceExhaustedError as error:
            stage = document_pb2.INGESTION_STATE_EXTRACTING
            raise IngestionError(stage, error.reason, error.message) from error

    async def require_source(self, collection_id: str) -> None:
        """Require room for a source."""
        used = await self._repository.used_in(collection_id)
        require_within(quota_pb2.QUOTA_SOURCES, used.sources, 1, self._limits.sources)

    async def usages_of_caller(self, caller: Caller) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of the caller."""
        return self._limits.usages_of_caller(await self._repository.used_by(caller.owner))

    async def usages_of_collection(self, collection_id: str) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of the collection, by all documents."""
        return self._limits.usages_of_collection(await self._repository.used_in(collection_id))
