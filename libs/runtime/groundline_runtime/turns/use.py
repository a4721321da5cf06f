"""Time for which clients have lately used something scarce."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from cachetools import LRUCache

HALF_LIFE_SECONDS: Final = 60.0
"""Time after which half of what a client has used is forgotten, in seconds."""
MAX_CLIENTS: Final = 10_000


class RecentUse:
    """Time that clients have lately used of something scarce, in seconds."""

    def __init__(
        self, *, half_life_seconds: float = HALF_LIFE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock: Final = clock
        self._half_life_seconds = half_life_seconds
        self._levels = LRUCache[str, float](MAX_CLIENTS)
        """Binary logarithms of the seconds used, as if all had been used at the clock's zero: they stay what
        they are while time passes."""

    def level(self, client: str) -> float:
        """Return a number that is greater the more a client has lately used, by which to order clients."""
        return self._levels.get(client, -math.inf)

    def of(self, client: str) -> float:
        """Return the seconds that a client has lately used."""
        return float(2 ** (self.level(client) - self.clock() / self._half_life_seconds))

    def of_all(self) -> Mapping[str, float]:
        """Return the seconds of each client that has used any."""
        return {client: self.of(client) for client in self._levels}

    def add(self, client: str, seconds: float) -> None:
        """Charge a client."""
        passed = self.clock() / self._half_life_seconds
        if used := 2 ** (self._levels.get(client, -math.inf) - passed) + seconds:
            self._levels[client] = math.log2(used) + passed
