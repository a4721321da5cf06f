"""Points in time in the contract's messages."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

__all__ = ["moment", "timestamp"]


def timestamp(at: datetime | None) -> Timestamp | None:
    """Return the message; None for None."""
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at)
    return message


def moment(message: Timestamp) -> datetime:
    """Return the point in time, in UTC; exact to the microsecond."""
    return message.ToDatetime(tzinfo=UTC)
