"""Generate's messages and what they mean; a wrong request is refused with all that is wrong."""

import math
from collections.abc import Sequence

from google.protobuf.message import Message as ProtoMessage
from groundline.v1 import chat_pb2, generator_service_pb2, options_pb2
from groundline_runtime.errors import FieldViolation, UnimplementedError, Violations

from groundline_generator.domain import (
    Completed,
    Delta,
    FinishReason,
    GenerationOptions,
    Message,
    Passage,
    Question,
)

__all__ = ["to_question", "to_response"]

MAX_QUERY_CHARACTERS = 8_000
MAX_PASSAGES = 100
MAX_HISTORY = 100
MAX_MESSAGE_CHARACTERS = 32_000
MAX_CONTEXT_CHARACTERS = 8_000
MAX_SYSTEM_PROMPT_CHARACTERS = 8_000
MAX_OUTPUT_TOKENS = 32_768
_ROLES = ("user", "assistant")

# Cosine similarities of float32 vectors may leave -1..1 by rounding.
_ROUNDING = 1e-3

_FINISH_REASONS = {
    FinishReason.STOP: chat_pb2.FINISH_REASON_STOP,
    FinishReason.NO_ANSWER: chat_pb2.FINISH_REASON_NO_ANSWER,
    FinishReason.MAX_TOKENS: chat_pb2.FINISH_REASON_MAX_TOKENS,
}


def to_question(request: generator_service_pb2.GenerateRequest, *, max_passage_characters: int) -> Question:
    """Raises InvalidArgumentError with every violation, UnimplementedError for options this release lacks."""
    wrong = Violations()
    query = request.query.strip()
    if not 1 <= len(query) <= MAX_QUERY_CHARACTERS:
        wrong.add("query", f"must have 1 to {MAX_QUERY_CHARACTERS} characters after trimming")
    passages = _passages(request.passages, max_passage_characters, wrong)
    history = _history(request.chat_history, wrong)
    options = _options(request.options, wrong)
    if len(request.additional_context) > MAX_CONTEXT_CHARACTERS:
        wrong.add("additional_context", f"must have at most {MAX_CONTEXT_CHARACTERS} characters")
    wrong.raise_if_any()
    if request.options.prompt_template:
        field = FieldViolation(
            "options.prompt_template", "prompt templates are not available in this release"
        )
        raise UnimplementedError(
            "OPTION_NOT_AVAILABLE", f"{field.field}: {field.description}", violations=[field]
        )
    return Question(query, passages, history, options, request.additional_context)


def to_response(event: Delta | Completed) -> generator_service_pb2.GenerateResponse:
    if isinstance(event, Delta):
        return generator_service_pb2.GenerateResponse(
            delta=generator_service_pb2.GenerateDelta(text=event.text)
        )
    validation = event.validation
    return generator_service_pb2.GenerateResponse(
        completed=generator_service_pb2.GenerateCompleted(
            finish_reason=_FINISH_REASONS[event.finish_reason],
            usage=chat_pb2.Usage(
                prompt_tokens=event.usage.prompt_tokens,
                cached_tokens=event.usage.cached_tokens,
                output_tokens=event.usage.output_tokens,
            ),
            citations=[
                chat_pb2.Citation(
                    source_number=citation.source_number,
                    start_offset=citation.start,
                    end_offset=citation.end,
                    supporting_text=citation.supporting_text,
                    chunk_id=citation.chunk_id,
                )
                for citation in event.citations
            ],
            validation=chat_pb2.Validation(
                grounded=validation.grounded,
                confidence=validation.confidence,
                cited_share=validation.cited_share,
                supported_share=validation.supported_share,
                query_relevance=validation.query_relevance,
                issues=[
                    chat_pb2.ValidationIssue(reason=issue.reason, message=issue.message)
                    for issue in validation.issues
                ],
            ),
            model=event.model,
            prompt_version=event.prompt_version,
        )
    )


def _passages(
    messages: Sequence[generator_service_pb2.NumberedPassage], max_characters: int, wrong: Violations
) -> tuple[Passage, ...]:
    if len(messages) > MAX_PASSAGES:
        wrong.add("passages", f"must be at most {MAX_PASSAGES}")
        return ()
    numbers: set[int] = set()
    for index, message in enumerate(messages):
        path = f"passages[{index}]"
        if not 1 <= message.number <= 9_999:
            wrong.add(f"{path}.number", "must be 1 to 9999")
        elif message.number in numbers:
            wrong.add(f"{path}.number", "is not unique")
        numbers.add(message.number)
        if not message.text.strip():
            wrong.add(f"{path}.text", "must not be empty")
        elif len(message.text) > max_characters:
            wrong.add(f"{path}.text", f"must have at most {max_characters} characters")
        if message.HasField("similarity"):
            _in_range(message, "similarity", -1 - _ROUNDING, 1 + _ROUNDING, "-1 to 1", path, wrong)
    return tuple(
        Passage(
            number=message.number,
            text=message.text,
            context=message.context,
            title=message.title,
            uri=message.uri,
            chunk_id=message.chunk_id,
            similarity=message.similarity if message.HasField("similarity") else None,
        )
        for message in messages
    )


def _history(messages: Sequence[chat_pb2.ChatMessage], wrong: Violations) -> tuple[Message, ...]:
    if len(messages) > MAX_HISTORY:
        wrong.add("chat_history", f"must be at most {MAX_HISTORY} messages")
        return ()
    for index, message in enumerate(messages):
        if message.role not in _ROLES:
            wrong.add(f"chat_history[{index}].role", 'must be "user" or "assistant"')
        if not 1 <= len(message.content) <= MAX_MESSAGE_CHARACTERS:
            wrong.add(f"chat_history[{index}].content", f"must have 1 to {MAX_MESSAGE_CHARACTERS} characters")
    return tuple(Message(message.role, message.content) for message in messages)


def _options(options: options_pb2.GenerationOptions, wrong: Violations) -> GenerationOptions:
    if options.HasField("temperature"):
        _in_range(options, "temperature", 0, 2, "0 to 2", "options", wrong)
    if options.HasField("max_output_tokens"):
        _in_range(
            options, "max_output_tokens", 1, MAX_OUTPUT_TOKENS, f"1 to {MAX_OUTPUT_TOKENS}", "options", wrong
        )
    if options.HasField("min_relevance"):
        _in_range(options, "min_relevance", 0, 1, "0 to 1", "options", wrong)
    if len(options.system_prompt) > MAX_SYSTEM_PROMPT_CHARACTERS:
        wrong.add("options.system_prompt", f"must have at most {MAX_SYSTEM_PROMPT_CHARACTERS} characters")
    return GenerationOptions(
        model=options.model or None,
        temperature=options.temperature if options.HasField("temperature") else None,
        max_output_tokens=options.max_output_tokens if options.HasField("max_output_tokens") else None,
        system_prompt=options.system_prompt or None,
        min_relevance=options.min_relevance if options.HasField("min_relevance") else None,
    )


def _in_range(
    message: ProtoMessage, field: str, low: float, high: float, text: str, path: str, wrong: Violations
) -> None:
    value = getattr(message, field)
    if math.isnan(value) or not low <= value <= high:
        wrong.add(f"{path}.{field}", f"must be {text}")
