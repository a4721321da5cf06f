"""Attributes of an answer's trace, by which a collector decides whether it keeps it."""

from groundline.v1 import chat_pb2, passage_pb2
from groundline_coordinator.service.progress import count
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider


def told(completed: chat_pb2.ChatCompleted) -> dict[str, object]:
    with TracerProvider().get_tracer("test").start_as_current_span("chat") as span:
        count(completed, "client", ["handbook"])
    assert isinstance(span, ReadableSpan)
    return dict(span.attributes or {})


def test_a_refused_answer_is_told_by_its_finish_reason() -> None:
    refused = told(chat_pb2.ChatCompleted(finish_reason=chat_pb2.FINISH_REASON_NO_ANSWER))
    assert refused["groundline.answer.finish_reason"] == "no_answer"


def test_an_answer_that_left_something_out_is_degraded() -> None:
    assert told(chat_pb2.ChatCompleted())["groundline.answer.degraded"] is False
    degraded = told(chat_pb2.ChatCompleted(degraded=[passage_pb2.Degradation()]))
    assert degraded["groundline.answer.degraded"] is True
