"""Quotas and the error of one that is used up."""

from groundline.v1 import quota_pb2

from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.reasons import enum_label

__all__ = ["require_unspent", "require_within"]


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
        said = f"{used} of {limit} are taken, and {more} more were asked for"
        raise _exhausted(quota, said, used, limit, retry_after_seconds)


def require_unspent(
    quota: quota_pb2.Quota.ValueType, used: float, limit: float, *, retry_after_seconds: float
) -> None:
    """Raise ResourceExhaustedError (QUOTA_EXHAUSTED), which names the quota, if as many US dollars are spent
    as it allows."""
    if used >= limit:
        said = f"{used:.2f} of {limit:.2f} US dollars are spent"
        raise _exhausted(quota, said, used, limit, retry_after_seconds)


def _exhausted(
    quota: quota_pb2.Quota.ValueType,
    said: str,
    used: float,
    limit: float,
    retry_after_seconds: float | None,
) -> ResourceExhaustedError:
    name = enum_label(quota_pb2.Quota, quota)
    return ResourceExhaustedError(
        "QUOTA_EXHAUSTED",
        f"the quota of {name} is used up: {said}",
        retry_after_seconds=retry_after_seconds,
        metadata={"quota": name, "used": str(used), "limit": str(limit)},
    )
