"""Quotas of callers and collections."""

from collections.abc import Iterator
from dataclasses import dataclass

from groundline.v1 import quota_pb2

__all__ = ["CallerUse", "CollectionUse", "Limits", "quota_usages"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The quotas; bytes are those of documents as handed in."""

    collections: int
    jobs: int
    documents: int
    bytes: int
    sources: int = 100


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


def quota_usages(
    limits: Limits, caller: CallerUse, collection: CollectionUse
) -> Iterator[quota_pb2.QuotaUsage]:
    """Yield the usage of each quota."""
    yield quota_pb2.QuotaUsage(
        quota=quota_pb2.QUOTA_COLLECTIONS, used=caller.collections, limit=limits.collections
    )
    yield quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_JOBS, used=caller.jobs, limit=limits.jobs)
    yield quota_pb2.QuotaUsage(
        quota=quota_pb2.QUOTA_DOCUMENTS, used=collection.documents, limit=limits.documents
    )
    yield quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_BYTES, used=collection.bytes, limit=limits.bytes)
    yield quota_pb2.QuotaUsage(quota=quota_pb2.QUOTA_SOURCES, used=collection.sources, limit=limits.sources)
