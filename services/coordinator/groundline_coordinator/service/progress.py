"""Report of a request for its last event, and the shares of time of its stages."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from groundline.v1 import error_pb2, passage_pb2
from groundline_runtime.context import remaining_seconds, span
from opentelemetry import trace

__all__ = ["StageReport", "milliseconds_since", "share"]

_tracer = trace.get_tracer("groundline_coordinator")
_SPAN_NAMES: Final = {
    number: name.removeprefix("STAGE_").lower() for name, number in passage_pb2.Stage.items()
}


@dataclass(slots=True)
class StageReport:
    """Degradations and timings so far."""

    degraded: list[passage_pb2.Degradation] = field(default_factory=list)
    timings: list[passage_pb2.StageTiming] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: passage_pb2.Stage.ValueType) -> Iterator[None]:
        """Record a span and a timing around a stage; the timing stands before those of its parts."""
        position, begun = len(self.timings), time.perf_counter()
        with span(_tracer, _SPAN_NAMES[stage]):
            yield
        self.timings.insert(
            position, passage_pb2.StageTiming(stage=stage, duration_ms=milliseconds_since(begun))
        )

    def degrade(
        self,
        component: passage_pb2.Component.ValueType,
        reason: error_pb2.ErrorReason.ValueType,
        message: str,
    ) -> None:
        self.degraded.append(passage_pb2.Degradation(component=component, reason=reason, message=message))


def share(part: float, maximum: float) -> float:
    """Return seconds: `part` of the request's remaining time, at most `maximum`."""
    left = remaining_seconds()
    return maximum if left is None else min(maximum, part * left)


def milliseconds_since(begun: float) -> float:
    """Return the milliseconds since an instant of time.perf_counter()."""
    return (time.perf_counter() - begun) * 1000
