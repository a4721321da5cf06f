"""Sending of requests at their times, with clocks free of coordinated omission.

A client that waits for an answer before it asks again asks less while the server is slow, and leaves out of
its figures what others would have waited (Gil Tene calls it coordinated omission). Here each request is sent
at its time, and its duration counts from that time, not from when it was sent.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from groundline_benchmarks.load.arrivals import paced


class Ended(StrEnum):
    """End of a request."""

    ANSWERED = "answered"
    DEGRADED = "degraded"
    """An answer that says that something was left out."""
    REFUSED = "refused"
    """Refused under load, with a time to try again."""
    FAILED = "failed"
    NOT_SENT = "not sent"
    """Left out, since as many others as allowed were in flight."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Outcome of a request, as its sender learns it."""

    ended: Ended
    reason: str = ""
    first: float | None = None
    """Time of a stream's first text, by time.perf_counter."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A planned request; times in seconds."""

    kind: str
    due: float
    """Time at which it was to be sent, since the begin."""
    ended: Ended
    lag: float = 0.0
    """Time by which it was sent too late: the sender's own fault."""
    seconds: float = 0.0
    """Time from when it was due to its end."""
    first_seconds: float | None = None
    """Time from when it was due to a stream's first text."""
    reason: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether an answer came, be it with something left out."""
        return self.ended in (Ended.ANSWERED, Ended.DEGRADED)

    @property
    def waited(self) -> float:
        """Time that its user waited: to the first text of a stream, to the end of anything else."""
        return self.seconds if self.first_seconds is None else self.first_seconds


async def send(
    plan: Sequence[tuple[float, str]], ask: Callable[[str], Awaitable[Reply]], *, max_in_flight: int
) -> list[Sent]:
    """Send requests of the planned kinds at their times, and wait for the last answer."""
    sent: list[Sent] = []
    in_flight = 0
    begun = time.perf_counter()

    async def one(due: float, kind: str) -> None:
        nonlocal in_flight
        lag = time.perf_counter() - begun - due
        try:
            reply = await ask(kind)
        finally:
            in_flight -= 1
        seconds = time.perf_counter() - begun - due
        first = None if reply.first is None else reply.first - begun - due
        sent.append(Sent(kind, due, reply.ended, lag, seconds, first, reply.reason))

    async with asyncio.TaskGroup() as group:
        async for due, kind in paced(plan, begun):
            if in_flight == max_in_flight:
                sent.append(Sent(kind, due, Ended.NOT_SENT))
            else:
                in_flight += 1
                group.create_task(one(due, kind))
    return sent
