"""Times of requests and responses."""

from datetime import UTC, datetime

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from groundline_runtime.errors import Violations

__all__ = ["time_in", "timestamp"]


def time_in(request: Message, field: str, violations: Violations) -> datetime | None:
    """Return the time in a field; None if it is not set. One that is not a time is added to the
    violations."""
    if not request.HasField(field):
        return None
    try:
        found: datetime = getattr(request, field).ToDatetime(UTC)
    except (ValueError, OverflowError):
        violations.add(field, "is not a time")
        return None
    return found


def timestamp(time: datetime | None) -> Timestamp | None:
    """Return a time as the contract has it."""
    if time is None:
        return None
    found = Timestamp()
    found.FromDatetime(time)
    return found
