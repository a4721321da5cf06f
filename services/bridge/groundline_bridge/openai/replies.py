"""Shared parts of completions and responses: usage, annotations, and Groundline's own members."""

from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format
from groundline.v1 import chat_pb2, coordinator_service_pb2

from groundline_bridge.domain.documents import link_of


class Answer:
    """An answer as far as its events have come, in the message that POST /api/answer replies with."""

    def __init__(self) -> None:
        self.whole = coordinator_service_pb2.AnswerResponse()
        self._pieces: list[str] = []

    def take(self, event: coordinator_service_pb2.ChatResponse) -> None:
        """Add an event."""
        match event.WhichOneof("event"):
            case "started":
                self.whole.message_id = event.started.message_id
                self.whole.trace_id = event.started.trace_id
            case "status" if event.status.rewritten_query or event.status.sub_queries:
                self.whole.rewritten_query = event.status.rewritten_query
                self.whole.rewriting_model = event.status.rewriting_model
                self.whole.sub_queries[:] = event.status.sub_queries
                if event.status.corrections:
                    self.whole.corrections.extend(event.status.corrections)
            case "sources":
                self.whole.sources.extend(event.sources.sources)
            case "delta":
                self._pieces.append(event.delta.text)
            case "completed":
                self.whole.completed.CopyFrom(event.completed)
                self.whole.answer = "".join(self._pieces)


def cited(answer: coordinator_service_pb2.AnswerResponse, gateway: str) -> Sequence[dict[str, Any]]:
    """Return one `url_citation` for each citation, without its type: its span of the text, and the cited
    source with an address that opens it."""
    sources = {source.number: source for source in answer.sources}
    return [
        {
            "start_index": citation.start_offset,
            "end_index": citation.end_offset,
            "title": sources[citation.source_number].title,
            "url": link_of(sources[citation.source_number], gateway),
        }
        for citation in answer.completed.citations
        if citation.source_number in sources
    ]


def details_of(answer: coordinator_service_pb2.AnswerResponse) -> dict[str, Any]:
    """Return the fields of POST /api/answer beside the text: sources, citations, validation, degradations,
    timings."""
    rest = coordinator_service_pb2.AnswerResponse()
    rest.CopyFrom(answer)
    for field in ("answer", "thread_id", "message_id"):
        rest.ClearField(field)
    said: dict[str, Any] = json_format.MessageToDict(rest)
    return said


def total_tokens(usage: chat_pb2.Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens
