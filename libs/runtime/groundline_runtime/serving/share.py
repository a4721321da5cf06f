"""Share of a client in a server's places while requests wait for a processor."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.1
_COMPANY_SECONDS: Final = 10.0
"""Time for which a client counts as there after it has asked, in seconds."""
_STARVED: Final = 0.3
"""Share of its time that the event loop waits for a processor, from which places are too many."""
_SHRINKING: Final = 0.7
_MIN_SHARE: Final = 1
_MAX_SHARE: Final = 1_024
_SCHEDULED: Final = Path("/proc/thread-self/schedstat")


def processor_wait_seconds() -> float:
    """Return the time that the current thread has waited for a processor in its life, in seconds; 0 where the
    system does not count it."""
    try:
        _, waited, _ = _SCHEDULED.read_bytes().split()
    except OSError:
        return 0.0
    return int(waited) / 1e9


class ClientShare:
    """Maximum number of places that one client holds while others ask too.

    If a server's event loop has to wait for a processor, each request waits behind all that are worked on:
    with fewer of one client, as many are answered in a second, and another's sooner. So the share then
    shrinks by nearly a third each tenth of a second, down to one place, and otherwise grows by one. Requests
    that wait for something else, such as a hosted model, leave it large. A client alone has every place.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        waited_seconds: Callable[[], float] = processor_wait_seconds,
    ) -> None:
        """Take what returns the time that the current thread has waited for a processor, in seconds."""
        self._clock = clock
        self._waited_seconds = waited_seconds
        self._share = float(_MAX_SHARE)
        self._looked, self._waited = clock(), waited_seconds()
        self._client = ""
        self._asked = -math.inf
        self._company_until = -math.inf

    @property
    def value(self) -> int:
        """Current maximum, in requests."""
        return int(self._share) if self._clock() < self._company_until else _MAX_SHARE

    def ask(self, client: str) -> None:
        """Record that a client asks for a place."""
        if client != self._client:
            self._client, self._company_until = client, self._asked + _COMPANY_SECONDS
        self._asked = self._clock()

    def look(self, under_way: int) -> None:
        """Adapt the share if it is time, while `under_way` requests hold places."""
        now = self._clock()
        elapsed = now - self._looked
        if elapsed < _LOOK_SECONDS:
            return
        waited = self._waited_seconds()
        if waited - self._waited > _STARVED * elapsed:
            self._share = max(_MIN_SHARE, min(self._share, under_way) * _SHRINKING)
        else:
            self._share = min(_MAX_SHARE, self._share + 1)
        self._looked, self._waited = now, waited
