"""Replies of POST /v1/responses. They are not stored: every response says `store: false`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundline.v1 import chat_pb2, coordinator_service_pb2
from groundline_runtime.errors import GroundlineError

from groundline_bridge.openai.errors import body_of
from groundline_bridge.openai.replies import Answer, cited, details_of, total_tokens
from groundline_bridge.openai.requests import ResponseRequest

_INCOMPLETE: Final[Mapping[int, str]] = {
    chat_pb2.FINISH_REASON_MAX_TOKENS: "max_output_tokens",
    chat_pb2.FINISH_REASON_SAFETY: "content_filter",
}


def response(
    request: ResponseRequest,
    answer: coordinator_service_pb2.AnswerResponse,
    *,
    created: int,
    gateway: str,
) -> dict[str, Any]:
    """Return a finished response; `groundline` holds the fields of POST /api/answer beside the text.

    `gateway` is the address under which the client reaches it.
    """
    reason = _INCOMPLETE.get(answer.completed.finish_reason)
    usage = answer.completed.usage
    return _response(request, answer, created=created, status="incomplete" if reason else "completed") | {
        "incomplete_details": {"reason": reason} if reason else None,
        "output": [_message(answer, gateway)],
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": total_tokens(usage),
        },
        "groundline": details_of(answer),
    }


class ResponseEvents:
    """Translator of chat events into events of a response."""

    def __init__(self, request: ResponseRequest, *, created: int, gateway: str) -> None:
        self._request = request
        self._created = created
        self._gateway = gateway
        self._answer = Answer()
        self._sequence_number = -1

    def of(self, event: coordinator_service_pb2.ChatResponse) -> Iterator[dict[str, Any]]:
        """Yield the events of a response for one event; each has a `type` and a `sequence_number` from 0
        on."""
        self._answer.take(event)
        whole = self._answer.whole
        match event.WhichOneof("event"):
            case "started":
                begun = _response(self._request, whole, created=self._created, status="in_progress")
                yield self._event("response.created", response=begun)
                yield self._event("response.in_progress", response=begun)
                yield self._of_output("response.output_item.added", item=_begun_message(whole))
                yield self._of_content("response.content_part.added", part=_part("", []))
            case "delta":
                yield self._of_content("response.output_text.delta", delta=event.delta.text, logprobs=[])
            case "completed":
                part = _part(whole.answer, _annotations(whole, self._gateway))
                for index, annotation in enumerate(part["annotations"]):
                    yield self._of_content(
                        "response.output_text.annotation.added", annotation_index=index, annotation=annotation
                    )
                yield self._of_content("response.output_text.done", text=whole.answer, logprobs=[])
                yield self._of_content("response.content_part.done", part=part)
                yield self._of_output("response.output_item.done", item=_message(whole, self._gateway))
                finished = response(self._request, whole, created=self._created, gateway=self._gateway)
                yield self._event(f"response.{finished['status']}", response=finished)

    def failed(self, error: GroundlineError) -> dict[str, Any]:
        """Return the last event of a response that fails after it has begun."""
        told = body_of(error)["error"]
        failed = _response(self._request, self._answer.whole, created=self._created, status="failed")
        failed["error"] = {"code": told["code"], "message": told["message"]}
        return self._event("response.failed", response=failed)

    def _of_content(self, kind: str, **members: Any) -> dict[str, Any]:
        item_id = _message_id(self._answer.whole)
        return self._of_output(kind, item_id=item_id, content_index=0, **members)

    def _of_output(self, kind: str, **members: Any) -> dict[str, Any]:
        return self._event(kind, output_index=0, **members)

    def _event(self, kind: str, **members: Any) -> dict[str, Any]:
        self._sequence_number += 1
        return {"type": kind, "sequence_number": self._sequence_number, **members}


def _response(
    request: ResponseRequest, answer: coordinator_service_pb2.AnswerResponse, *, created: int, status: str
) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.message_id}",
        "object": "response",
        "created_at": created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "metadata": request.metadata or {},
        "model": request.model,
        "output": [],
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "store": False,
        "temperature": request.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
    }


def _message_id(answer: coordinator_service_pb2.AnswerResponse) -> str:
    return f"msg_{answer.message_id}"


def _begun_message(answer: coordinator_service_pb2.AnswerResponse) -> dict[str, Any]:
    return {
        "id": _message_id(answer),
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }


def _message(answer: coordinator_service_pb2.AnswerResponse, gateway: str) -> dict[str, Any]:
    is_cut = answer.completed.finish_reason in _INCOMPLETE
    return _begun_message(answer) | {
        "status": "incomplete" if is_cut else "completed",
        "content": [_part(answer.answer, _annotations(answer, gateway))],
    }


def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _annotations(answer: coordinator_service_pb2.AnswerResponse, gateway: str) -> list[dict[str, Any]]:
    return [{"type": "url_citation", **each} for each in cited(answer, gateway)]
