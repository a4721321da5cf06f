"""Conversations that come whole with each request, as questions of chats that are not stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groundline.v1 import chat_pb2, coordinator_service_pb2
from groundline_contracts import limits_of
from groundline_runtime.errors import FieldViolation, InvalidArgumentError

from groundline_bridge.contract import message_of

_ROLES: Final = {"user": chat_pb2.ChatMessage.USER, "assistant": chat_pb2.ChatMessage.ASSISTANT}
_MAX_MESSAGES: Final = limits_of(coordinator_service_pb2.ChatRequest, "chat_history").max_items
_MAX_CHARACTERS: Final = limits_of(chat_pb2.ChatMessage, "content").max_length


@dataclass(frozen=True, slots=True)
class Utterance:
    """A message of the user, the assistant or the system, which instructs."""

    speaker: str
    text: str


def chat_request_of(
    collection_ids: Sequence[str],
    utterances: Sequence[Utterance],
    *,
    temperature: float | None,
    max_output_tokens: int | None,
    extension: Mapping[str, Any],
) -> coordinator_service_pb2.ChatRequest:
    """Build a chat request: the last message is the question, those before it its history.

    System messages go before the suite's own rules. `extension` holds `filter`, `options` and `asOf` as
    /api/chat takes them; text that was sent always stays, since the OpenAI API takes none back. If the
    history is longer than a request may have, its end is sent; the coordinator gives the model only its last
    messages anyway. Raises InvalidArgumentError.
    """
    instructions = "\n\n".join(
        utterance.text for utterance in utterances if utterance.speaker == "system" and utterance.text.strip()
    )
    said = [utterance for utterance in utterances if utterance.speaker != "system"]
    if not said or said[-1].speaker != "user":
        raise InvalidArgumentError([FieldViolation("messages", "the last message must be the user's")])
    request = message_of(coordinator_service_pb2.ChatRequest, extension, "groundline")
    request.query = said[-1].text
    request.collection_ids.extend(collection_ids)
    request.chat_history.extend(
        chat_pb2.ChatMessage(role=_ROLES[utterance.speaker], content=utterance.text[-_MAX_CHARACTERS:])
        for utterance in [utterance for utterance in said[:-1] if utterance.text.strip()][-_MAX_MESSAGES:]
    )
    request.store = False
    request.options.append_only = True
    generation = request.options.generation
    if instructions:
        generation.system_prompt = instructions
    if temperature is not None:
        generation.temperature = temperature
    if max_output_tokens is not None:
        generation.max_output_tokens = max_output_tokens
    return request


def answer_request_of(
    request: coordinator_service_pb2.ChatRequest,
) -> coordinator_service_pb2.AnswerRequest:
    """Return the same question as a request for a whole answer: both messages have the same fields."""
    return coordinator_service_pb2.AnswerRequest.FromString(request.SerializeToString())
