"""Report of a request for its last event, and the shares of time of its stages."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from groundline.v1 import chat_pb2, error_pb2, passage_pb2
from groundline_runtime.context import remaining_seconds, span
from groundline_runtime.metrics.common import count_degradations
from groundline_runtime.metrics.declaring import BoundedNames
from groundline_runtime.reasons import enum_label
from opentelemetry import trace

from groundline_coordinator.metrics import ANSWER_COST, ANSWER_TOKENS, ANSWERS, FIRST_DELTA

_tracer = trace.get_tracer("groundline_coordinator")
_clients, _collections = BoundedNames(), BoundedNames()
_SPAN_NAMES: Final = {
    number: name.removeprefix("STAGE_").lower() for name, number in passage_pb2.Stage.items()
}


@dataclass(slots=True)
class StageReport:
    """Degradations, timings and the usage of calls so far, the answer itself apart."""

    begun: float = field(default_factory=time.perf_counter)
    degraded: list[passage_pb2.Degradation] = field(default_factory=list)
    timings: list[passage_pb2.StageTiming] = field(default_factory=list)
    paid: list[chat_pb2.Usage] = field(default_factory=list)
    paid_by_retriever: list[chat_pb2.Usage] = field(default_factory=list)
    """Usage of searches, which the retriever has counted for the budgets."""

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
        FIRST_DELTA.record(_milliseconds_since(self.begun) / 1000)

    def degrade(
        self,
        component: passage_pb2.Component.ValueType,
        reason: error_pb2.ErrorReason.ValueType,
        message: str,
    ) -> None:
        self.degraded.append(passage_pb2.Degradation(component=component, reason=reason, message=message))


def count(completed: chat_pb2.ChatCompleted, client: str, collection_ids: Sequence[str]) -> None:
    """Count an answer, and what it cost, for a client that asked collections; its trace tells what it was."""
    labels: dict[str, str | bool] = {
        "finish_reason": enum_label(chat_pb2.FinishReason, completed.finish_reason),
        "grounded": completed.validation.grounded,
        "degraded": bool(completed.degraded),
    }
    ANSWERS.add(1, labels)
    # By these a collector decides which traces it keeps.
    trace.get_current_span().set_attributes(
        {f"groundline.answer.{name}": value for name, value in labels.items()}
    )
    count_degradations(completed.degraded)
    usage = completed.usage
    charged = {
        "model": completed.model,
        "client": _clients(client),
        "collection": _collections(collection_ids[0]) if len(collection_ids) == 1 else "several",
    }
    for kind, tokens in (("input", usage.prompt_tokens), ("output", usage.output_tokens)):
        if tokens:
            ANSWER_TOKENS.add(tokens, {**charged, "gen_ai.token.type": kind})
    if usage.HasField("cost_usd"):
        ANSWER_COST.add(usage.cost_usd, charged)


def share(part: float, maximum: float) -> float:
    """Return seconds: `part` of the request's remaining time, at most `maximum`."""
    left = remaining_seconds()
    return maximum if left is None else min(maximum, part * left)


def _milliseconds_since(begun: float) -> float:
    """Return the milliseconds since an instant of time.perf_counter()."""
    return (time.perf_counter() - begun) * 1000
