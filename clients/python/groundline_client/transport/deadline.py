"""Deadlines of calls, and pauses between attempts."""

import time
from typing import Final

import httpx

from groundline_client.errors import DeadlineExceededError

__all__ = ["Deadline"]

_CONNECT_SECONDS: Final = 5.0


class Deadline:
    """Time by which a call must end; without a timeout never.

    No wait for the gateway begins after it, and none lasts beyond it except the one for the next bytes of a
    stream, which lasts as long as the whole call may.
    """

    def __init__(self, timeout_seconds: float | None) -> None:
        self._end = None if timeout_seconds is None else time.monotonic() + timeout_seconds

    def allows(self, seconds: float) -> bool:
        """Tell whether that much time is left."""
        return self._end is None or time.monotonic() + seconds < self._end

    def check(self) -> None:
        """Raise DeadlineExceededError when it has passed."""
        if not self.allows(0):
            raise DeadlineExceededError("the gateway did not answer in time")

    def timeout(self, read_seconds: float) -> httpx.Timeout:
        """Return the timeout of one attempt, whose wait for bytes is at most `read_seconds`."""
        if self._end is None:
            return httpx.Timeout(read_seconds, connect=_CONNECT_SECONDS)
        left = max(self._end - time.monotonic(), 0.001)
        return httpx.Timeout(min(read_seconds, left), connect=min(_CONNECT_SECONDS, left))
