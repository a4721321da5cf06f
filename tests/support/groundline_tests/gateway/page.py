"""Answers as the page is sent them."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from groundline.v1 import chat_pb2, coordinator_service_pb2, error_pb2, passage_pb2

KEY = "alice-key-0123456789"
MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
NOBODY_ID = "6f1c1d9e-9d3e-4c55-8a52-0d7d2f1f5c11"


def response(**event: Any) -> coordinator_service_pb2.ChatResponse:
    return coordinator_service_pb2.ChatResponse(**event)


def answered(*texts: str, sources: Sequence[Any] = (), **completed: Any) -> list[Any]:
    """Return the events of a whole answer whose text comes in these pieces."""
    fields: Any = {"finish_reason": chat_pb2.FINISH_REASON_STOP, "model": "m"} | completed
    return [
        *([response(sources=chat_pb2.ChatSources(sources=sources))] if sources else []),
        *(response(delta=chat_pb2.ChatDelta(text=text)) for text in texts),
        response(completed=chat_pb2.ChatCompleted(**fields)),
    ]


async def full_answer(_request: Any, _context: Any) -> AsyncIterator[Any]:
    yield response(started=chat_pb2.ChatStarted(thread_id="thread-1", message_id="m", trace_id="t0"))
    yield response(
        status=chat_pb2.ChatStatus(stage=passage_pb2.STAGE_RETRIEVING, rewritten_query="gateway keys")
    )
    sources = [
        chat_pb2.Source(
            number=1, title="Operating the gateway", uri="docs/gateway.md", snippet="Keys are set as JSON."
        ),
        chat_pb2.Source(number=2, title=MARKUP, uri="javascript:alert(1)", snippet=MARKUP),
        chat_pb2.Source(
            number=3, title="Home", uri="https://example.com/a?b=c", snippet="Every request needs a key."
        ),
    ]
    yield response(sources=chat_pb2.ChatSources(sources=sources))
    for text in (
        "Every request carries a key",
        " [1][3], and the gateway forwards ",
        f"its principals [2]. {MARKUP} [9]",
    ):
        yield response(delta=chat_pb2.ChatDelta(text=text))
    completed = chat_pb2.ChatCompleted(
        finish_reason=chat_pb2.FINISH_REASON_STOP,
        validation=chat_pb2.Validation(grounded=False, confidence=0.4),
        degraded=[
            passage_pb2.Degradation(
                component=passage_pb2.COMPONENT_KEYWORD_ARM,
                reason=error_pb2.DEADLINE_EXCEEDED,
                message="it came too late",
            )
        ],
        model="extractive",
    )
    yield response(completed=completed)
