"""Quotas of callers and collections."""

from collections.abc import Iterator
from dataclasses import dataclass

from groundline.v1.quota_pb2 import (
    QUOTA_BYTES,
    QUOTA_COLLECTIONS,
    QUOTA_DOCUMENTS,
    QUOTA_JOBS,
    QUOTA_SOURCES,
    QuotaUsage,
)

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


def quota_usages(limits: Limits, caller: CallerUse, collection: CollectionUse) -> Iterator[QuotaUsage]:
    """Yield the usage of each quota."""
    yield QuotaUsage(quota=QUOTA_COLLECTIONS, used=caller.collections, limit=limits.collections)
    yield QuotaUsage(quota=QUOTA_JOBS, used=caller.jobs, limit=limits.jobs)
    yield QuotaUsage(quota=QUOTA_DOCUMENTS, used=collection.documents, limit=limits.documents)
    yield QuotaUsage(quota=QUOTA_BYTES, used=collection.bytes, limit=limits.bytes)
    yield QuotaUsage(quota=QUOTA_SOURCES, used=collection.sources, limit=limits.sources)
