"""How much a caller and a collection may take."""

from collections.abc import Iterator
from dataclasses import dataclass

from groundline.v1 import ingestor_service_pb2 as pb
from groundline_runtime.errors import ResourceExhaustedError

__all__ = ["CallerUse", "CollectionUse", "Limits", "quota_usages", "require_within"]


@dataclass(frozen=True)
class Limits:
    """The quotas; bytes are those of documents as handed in."""

    collections: int
    jobs: int
    documents: int
    bytes: int


@dataclass(frozen=True)
class CallerUse:
    """Collections that a caller created, and its jobs that have not ended."""

    collections: int
    jobs: int


@dataclass(frozen=True)
class CollectionUse:
    """Documents of a collection, and their bytes."""

    documents: int
    bytes: int


def quota_usages(limits: Limits, caller: CallerUse, collection: CollectionUse) -> Iterator[pb.QuotaUsage]:
    """What is used of each quota."""
    yield pb.QuotaUsage(quota=pb.QUOTA_COLLECTIONS, used=caller.collections, limit=limits.collections)
    yield pb.QuotaUsage(quota=pb.QUOTA_JOBS, used=caller.jobs, limit=limits.jobs)
    yield pb.QuotaUsage(quota=pb.QUOTA_DOCUMENTS, used=collection.documents, limit=limits.documents)
    yield pb.QuotaUsage(quota=pb.QUOTA_BYTES, used=collection.bytes, limit=limits.bytes)


def require_within(quota: pb.Quota.ValueType, used: int, more: int, limit: int) -> None:
    """Raise ResourceExhaustedError (QUOTA_EXHAUSTED), which names the quota, where `more` would exceed it."""
    if used + more > limit:
        name = pb.Quota.Name(quota).removeprefix("QUOTA_").lower()
        raise ResourceExhaustedError(
            "QUOTA_EXHAUSTED",
            f"the quota of {name} is used up: {used} of {limit} are taken, and {more} more were asked for",
            metadata={"quota": name, "used": str(used), "limit": str(limit)},
        )
