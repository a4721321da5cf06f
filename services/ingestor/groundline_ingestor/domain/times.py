"""Points in time, as the contract's messages have them."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

__all__ = ["moment", "timestamp"]


def timestamp(at: datetime | None) -> Timestamp | None:
    """The message; None for none."""
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at)
    return message


def moment(message: Timestamp) -> datetime:
    """The point in time, in UTC; exact to the microsecond."""
    return message.ToDatetime(tzinfo=UTC)
