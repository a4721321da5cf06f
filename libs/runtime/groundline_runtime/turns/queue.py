"""Queue for scarce places in which clients take turns."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from groundline_runtime.turns.use import RecentUse

_URGENT_IN_A_ROW: Final = 3
"""Maximum consecutive turns of a client's urgent items while others of it wait: with few places, the urgent
ones of many chats would otherwise take every turn."""


@dataclass(slots=True)
class _Line[T]:
    """Items that wait for one client, each with the number of its arrival."""

    level: float
    """How much the client has lately used, as RecentUse orders clients."""
    urgent: deque[tuple[int, T]] = field(default_factory=deque)
    other: deque[tuple[int, T]] = field(default_factory=deque)
    urgent_in_a_row: int = 0
    """Consecutive turns of urgent items while others waited."""

    def __len__(self) -> int:
        return len(self.urgent) + len(self.other)

    @property
    def next(self) -> deque[tuple[int, T]]:
        if self.other and self.urgent_in_a_row == _URGENT_IN_A_ROW:
            return self.other
        return self.urgent or self.other

    def pop(self) -> T:
        """Take out the item whose turn it is."""
        waiting = self.next
        self.urgent_in_a_row = self.urgent_in_a_row + 1 if waiting is self.urgent and self.other else 0
        _, item = waiting.popleft()
        return item


class ClientQueue[T]:
    """Queue for places that are held for a while; who holds them is counted by client.

    The client that holds the fewest places goes first; of several, one of whom something urgent waits, then
    the one that has lately held places for the least time, then the one who has waited longest. Of a client,
    what is urgent goes first, except that every fourth turn is for what else of it waits. Not for several
    threads without a lock.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._used = RecentUse(clock=clock)
        self._taken: dict[str, int] = {}
        self._lines: dict[str, _Line[T]] = {}
        self._arrivals = count()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, client: str, item: T, *, urgent: bool = False) -> None:
        """Have an item wait."""
        line = self._lines.get(client)
        if line is None:
            line = self._lines[client] = _Line(self._used.level(client))
        (line.urgent if urgent else line.other).append((next(self._arrivals), item))
        self._waiting += 1

    def discard(self, client: str, item: T) -> None:
        """Take out an item that no longer waits, if it is there."""
        line = self._lines.get(client)
        for waiting in (line.urgent, line.other) if line else ():
            for entry in waiting:
                if entry[1] is item:
                    waiting.remove(entry)
                    self._took_from(client)
                    return

    def pop(self, max_taken: int | None = None) -> tuple[str, T] | None:
        """Take out whose turn it is, with its client; None if nothing waits, or only of clients that hold
        `max_taken` places."""
        if not self._lines:
            return None
        client = min(self._lines, key=self._order)
        if max_taken is not None and self.taken(client) >= max_taken:
            return None
        item = self._lines[client].pop()
        self._took_from(client)
        return client, item

    def pop_excess(self, client: str) -> T | None:
        """Take out what came last of the client of whom most waits, if that is more than one more than waits
        of `client`; nothing that is urgent."""
        longest = max(self._lines, key=lambda one: len(self._lines[one].other), default=client)
        waits = len(self._lines[client]) if client in self._lines else 0
        if longest == client or len(self._lines[longest].other) <= waits + 1:
            return None
        _, item = self._lines[longest].other.pop()
        self._took_from(longest)
        return item

    def ahead_of(self, client: str, *, urgent: bool = False) -> int:
        """Return how many would get their turns before an item of the client that comes now if what is urgent
        always went first: those of it, and of each other client at most one more."""

        def waiting(line: _Line[T]) -> int:
            return len(line.urgent) if urgent else len(line)

        own = waiting(self._lines[client]) if client in self._lines else 0
        others = (waiting(line) for one, line in self._lines.items() if one != client)
        return own + sum(min(each, own + 1) for each in others)

    def taken(self, client: str) -> int:
        """Return how many places a client holds."""
        return self._taken.get(client, 0)

    def take(self, client: str, max_taken: float = math.inf) -> bool:
        """Count a place as held, unless the client holds `max_taken`; tell whether it is."""
        taken = self._taken.get(client, 0)
        if taken >= max_taken:
            return False
        self._taken[client] = taken + 1
        return True

    def leave(self, client: str, held_seconds: float) -> None:
        """Count a place as free again, and charge the client for it."""
        self._used.add(client, held_seconds)
        if line := self._lines.get(client):
            line.level = self._used.level(client)
        if self._taken[client] > 1:
            self._taken[client] -= 1
        else:
            del self._taken[client]

    def _order(self, client: str) -> tuple[int, bool, float, int]:
        line = self._lines[client]
        return self.taken(client), not line.urgent, line.level, line.next[0][0]

    def _took_from(self, client: str) -> None:
        self._waiting -= 1
        if not self._lines[client]:
            del self._lines[client]
