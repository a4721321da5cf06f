"""Report of a request for its last event, and the shares of time of its stages."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from groundline.v1 import chat_pb2, error_pb2, passage_pb2
from groundline_runtime.context import remaining_seconds, span
from opentelemetry import metrics, trace

__all__ = ["StageReport", "count", "share"]

_tracer = trace.get_tracer("groundline_coordinator")
_meter = metrics.get_meter("groundline_coordinator")
_answers = _meter.create_counter(
    "groundline.answers",
    description="Answers by finish reason, and whether they are grounded and whether something was skipped",
)
_first_delta = _meter.create_histogram(
    "groundline.answer.time_to_first_delta", unit="s", description="Time from a question to its first delta"
)
_SPAN_NAMES: Final = {
    number: name.removeprefix("STAGE_").lower() for name, number in passage_pb2.Stage.items()
}


@dataclass(slots=True)
class StageReport:
    """Degradations and timings so far."""

    begun: float = field(default_factory=time.perf_counter)
    degraded: list[passage_pb2.Degradation] = field(default_factory=list)
    timings: list[passage_pb2.StageTiming] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: passage_pb2.Stage.ValueType) -> Iterator[None]:
        """Record a span and a timing around a stage; the timing stands before those of its parts."""
        position, begun = len(self.timings), time.perf_counter()
        with span(_tracer, _SPAN_NAMES[stage]):
            yield
        self.timings.insert(
            position, passage_pb2.StageTiming(stage=stage, duration_ms=_milliseconds_since(begun))
        )

    def answering(self, asked: float) -> None:
        """Record that the first text of an answer has come, of a generation asked for at an instant of
        time.perf_counter()."""
        self.timings.append(
            passage_pb2.StageTiming(
                stage=passage_pb2.STAGE_FIRST_TOKEN, duration_ms=_milliseconds_since(asked)
            )
        )
        _first_delta.record(_milliseconds_since(self.begun) / 1000)

    def degrade(
        self,
        component: passage_pb2.Component.ValueType,
        reason: error_pb2.ErrorReason.ValueType,
        message: str,
    ) -> None:
        self.degraded.append(passage_pb2.Degradation(component=component, reason=reason, message=message))


def count(completed: chat_pb2.ChatCompleted) -> None:
    """Count an answer."""
    _answers.add(
        1,
        {
            "finish_reason": chat_pb2.FinishReason.Name(completed.finish_reason),
            "grounded": completed.validation.grounded,
            "degraded": bool(completed.degraded),
        },
    )


def share(part: float, maximum: float) -> float:
    """Return seconds: `part` of the request's remaining time, at most `maximum`."""
    left = remaining_seconds()
    return maximum if left is None else min(maximum, part * left)


def _milliseconds_since(begun: float) -> float:
    """Return the milliseconds since an instant of time.perf_counter()."""
    return (time.perf_counter() - begun) * 1000
