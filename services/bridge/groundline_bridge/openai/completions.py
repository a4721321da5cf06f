"""Replies of POST /v1/chat/completions."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundline.v1 import chat_pb2, coordinator_service_pb2

from groundline_bridge.openai.replies import Answer, cited, details_of, total_tokens

_FINISH_REASONS: Final[Mapping[int, str]] = {
    chat_pb2.FINISH_REASON_MAX_TOKENS: "length",
    chat_pb2.FINISH_REASON_SAFETY: "content_filter",
}
"""Finish reasons other than "stop". An answer that the documents do not hold is a "stop" too."""


def completion(
    answer: coordinator_service_pb2.AnswerResponse, *, model: str, created: int, gateway: str
) -> dict[str, Any]:
    """Return a chat.completion; `groundline` holds the fields of POST /api/answer beside the text.

    `gateway` is the address under which the client reaches it.
    """
    message = {
        "role": "assistant",
        "content": answer.answer,
        "refusal": None,
        "annotations": _annotations(answer, gateway),
    }
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _finish_reason(answer.completed),
    }
    return {
        "id": _id(answer),
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": _usage(answer.completed.usage),
        "groundline": details_of(answer),
    }


class Chunks:
    """Translator of chat events into chat.completion.chunk objects."""

    def __init__(self, *, model: str, created: int, gateway: str, includes_usage: bool) -> None:
        self._answer = Answer()
        self._gateway = gateway
        self._model = model
        self._created = created
        self._includes_usage = includes_usage

    def of(self, event: coordinator_service_pb2.ChatResponse) -> Iterator[dict[str, Any]]:
        """Yield the role with `started`; texts; annotations, finish reason and `groundline` with
        `completed`."""
        self._answer.take(event)
        whole = self._answer.whole
        match event.WhichOneof("event"):
            case "started":
                yield self._chunk({"role": "assistant", "content": ""})
            case "delta":
                yield self._chunk({"content": event.delta.text})
            case "completed":
                if annotations := _annotations(whole, self._gateway):
                    yield self._chunk({"annotations": annotations})
                ended = self._chunk({}, finish_reason=_finish_reason(whole.completed))
                yield ended | {"groundline": details_of(whole)}
                if self._includes_usage:
                    yield self._chunk(None) | {"usage": _usage(whole.completed.usage)}

    def _chunk(self, delta: dict[str, Any] | None, *, finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {
            "id": _id(self._answer.whole),
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": [] if delta is None else [choice],
            **({"usage": None} if self._includes_usage else {}),
        }


def _id(answer: coordinator_service_pb2.AnswerResponse) -> str:
    return f"chatcmpl-{answer.message_id}"


def _annotations(answer: coordinator_service_pb2.AnswerResponse, gateway: str) -> list[dict[str, Any]]:
    return [{"type": "url_citation", "url_citation": each} for each in cited(answer, gateway)]


def _finish_reason(completed: chat_pb2.ChatCompleted) -> str:
    return _FINISH_REASONS.get(completed.finish_reason, "stop")


def _usage(usage: chat_pb2.Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": total_tokens(usage),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
