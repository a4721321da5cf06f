"""What a request gathers for its last event, and the shares of time that its stages get."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from groundline_runtime.context import remaining_seconds
from opentelemetry import trace

from groundline_coordinator.domain import Degradation, Stage, Timing

__all__ = ["Progress", "milliseconds_since", "share"]

_tracer = trace.get_tracer("groundline_coordinator")


@dataclass
class Progress:
    """Degradations and timings so far."""

    degraded: list[Degradation] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """A span and a timing around a stage; the timing stands before those of its parts."""
        position, begun = len(self.timings), time.perf_counter()
        with _tracer.start_as_current_span(stage.value):
            yield
        self.timings.insert(position, Timing(stage.value, milliseconds_since(begun)))


def share(part: float, most: float) -> float:
    """Seconds: `part` of what the request has left, `most` at most."""
    left = remaining_seconds()
    return most if left is None else min(most, part * left)


def milliseconds_since(begun: float) -> float:
    """Since an instant of time.perf_counter()."""
    return (time.perf_counter() - begun) * 1000
