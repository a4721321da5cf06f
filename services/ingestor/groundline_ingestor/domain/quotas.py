"""Quotas of callers and collections."""

from collections.abc import Sequence
from dataclasses import dataclass

from groundline.v1 import quota_pb2


@dataclass(frozen=True, slots=True)
class CallerUse:
    """Collections that a caller created, and its jobs that have not ended."""

    collections: int
    jobs: int


@dataclass(frozen=True, slots=True)
class CollectionUse:
    """Documents of a collection, their bytes, and its sources."""

    documents: int
    bytes: int
    sources: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """The quotas; bytes are those of documents as handed in."""

    collections: int
    jobs: int
    documents: int
    bytes: int
    sources: int = 100

    def usages_of_caller(self, use: CallerUse) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of each quota of callers."""
        return [
            quota_pb2.QuotaUsage(
                quota=quota_pb2.QUOTA_COLLECTIONS, used=use.collections, limit=self.collections
            ),
            quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_JOBS, used=use.jobs, limit=self.jobs),
        ]

    def usages_of_collection(self, use: CollectionUse) -> Sequence[quota_pb2.QuotaUsage]:
        """Return the usage of each quota of collections."""
        return [
            quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_DOCUMENTS, used=use.documents, limit=self.documents),
            quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_BYTES, used=use.bytes, limit=self.bytes),
            quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_SOURCES, used=use.sources, limit=self.sources),
        ]
