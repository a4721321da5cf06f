"""Telemetry of model calls: one span and the metrics of OpenTelemetry's conventions for generative AI, and
the attributes that viewers of OpenInference read."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from groundline.v1 import chat_pb2
from groundline_runtime.errors import GroundlineError
from groundline_runtime.reasons import enum_label
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from groundline_generator.domain.calls import ModelCall, ModelFinished
from groundline_generator.metrics import CALL_COST, CALL_DURATION, CALL_TOKENS, FIRST_CHUNK

_tracer = trace.get_tracer("groundline_generator")


@contextmanager
def observed(provider: str, call: ModelCall) -> Iterator["Observation"]:
    """Record one span and one measurement for the block; a GroundlineError is its failure."""
    span = _tracer.start_span(
        f"chat {call.model}", kind=SpanKind.CLIENT, attributes=_attributes(provider, call)
    )
    observation = Observation(provider, call, span)
    try:
        yield observation
    except GroundlineError as error:
        observation.failed(error.reason)
        raise
    finally:
        observation.end()


@dataclass(slots=True)
class Observation:
    """Record of a call; it never holds texts."""

    provider: str
    call: ModelCall
    span: Span
    started: float = 0.0
    chunks: int = 0
    error: str = ""
    response_model: str = ""

    def __post_init__(self) -> None:
        self.started = time.perf_counter()

    def current(self) -> AbstractContextManager[Span]:
        """Make the span the current one inside the block."""
        return trace.use_span(self.span, record_exception=False, set_status_on_exception=False)

    def observe(self, event: str | ModelFinished) -> None:
        if isinstance(event, str):
            self.chunks += 1
            if self.chunks == 1:
                seconds = time.perf_counter() - self.started
                self.span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)
                FIRST_CHUNK.record(seconds, _labels(self.provider, self.call))
            return
        self.response_model = event.model or self.call.model
        self.span.set_attributes(
            {
                "gen_ai.response.model": self.response_model,
                "gen_ai.response.finish_reasons": [enum_label(chat_pb2.FinishReason, event.finish_reason)],
                "gen_ai.usage.input_tokens": event.usage.prompt_tokens,
                "gen_ai.usage.output_tokens": event.usage.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": event.usage.cached_tokens,
                "llm.token_count.prompt": event.usage.prompt_tokens,
                "llm.token_count.completion": event.usage.output_tokens,
            }
        )
        for kind, count in (("input", event.usage.prompt_tokens), ("output", event.usage.output_tokens)):
            if count:
                CALL_TOKENS.record(count, {**_labels(self.provider, self.call), "gen_ai.token.type": kind})
        if event.usage.HasField("cost_usd"):
            self.span.set_attribute("llm.cost.total", event.usage.cost_usd)
            CALL_COST.add(event.usage.cost_usd, _labels(self.provider, self.call))

    def failed(self, reason: str) -> None:
        self.error = reason
        self.span.set_attribute("error.type", reason)
        self.span.set_status(Status(StatusCode.ERROR, reason))

    def end(self) -> None:
        labels = _labels(self.provider, self.call)
        if self.error:
            labels["error.type"] = self.error
        CALL_DURATION.record(time.perf_counter() - self.started, labels)
        self.span.end()


def _labels(provider: str, call: ModelCall) -> dict[str, AttributeValue]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": call.model,
    }


def _attributes(provider: str, call: ModelCall) -> dict[str, AttributeValue]:
    attributes = {
        **_labels(provider, call),
        "gen_ai.request.stream": True,
        "gen_ai.output.type": "json" if call.schema else "text",
        "openinference.span.kind": "LLM",
        "llm.model_name": call.model,
    }
    if call.temperature is not None:
        attributes["gen_ai.request.temperature"] = call.temperature
    if call.max_output_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = call.max_output_tokens
    return attributes
