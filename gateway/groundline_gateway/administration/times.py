"""Times of requests."""

from datetime import datetime

from google.protobuf.message import Message
from groundline_contracts.times import moment
from groundline_runtime.errors import Violations


def time_in(request: Message, field: str, violations: Violations) -> datetime | None:
    """Return the time in a field; None if it is not set. One that is not a time is added to the
    violations."""
    if not request.HasField(field):
        return None
    try:
        return moment(getattr(request, field))
    except (ValueError, OverflowError):
        violations.add(field, "is not a time")
        return None
