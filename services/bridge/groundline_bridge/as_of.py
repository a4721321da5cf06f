"""Argument as_of of the tools that search."""

from datetime import UTC, datetime
from typing import Annotated, Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import AfterValidator, Field

_DESCRIPTION: Final = (
    "Time in the past, such as 2026-03-01T00:00:00Z: what was current then is searched. Leave it out unless "
    "the user asks what documents said at an earlier time; not every collection keeps its past."
)


def moment_of(value: str | None) -> Timestamp | None:
    """Return a time, in UTC unless it says otherwise. Raises ValueError."""
    if value is None:
        return None
    named = datetime.fromisoformat(value)
    moment = Timestamp()
    moment.FromDatetime(named if named.tzinfo else named.replace(tzinfo=UTC))
    return moment


def _checked(value: str) -> str:
    moment_of(value)
    return value


_Time = Annotated[str, Field(max_length=64), AfterValidator(_checked)]
AsOf = Annotated[_Time | None, Field(description=_DESCRIPTION)]
