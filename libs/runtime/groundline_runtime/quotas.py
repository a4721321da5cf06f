"""Quotas and the error of one that is used up."""

from groundline.v1 import quota_pb2

from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.reasons import enum_label

__all__ = ["require_within"]


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
        name = enum_label(quota_pb2.Quota, quota)
        raise ResourceExhaustedError(
            "QUOTA_EXHAUSTED",
            f"the quota of {name} is used up: {used} of {limit} are taken, and {more} more were asked for",
            retry_after_seconds=retry_after_seconds,
            metadata={"quota": name, "used": str(used), "limit": str(limit)},
        )
