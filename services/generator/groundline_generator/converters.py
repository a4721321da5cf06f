"""Generate's messages and what they mean; a wrong request is refused with all that is wrong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import Message as ProtoMessage
from groundline.v1 import chat_pb2, generator_service_pb2, options_pb2
from groundline_runtime.errors import Violations

from groundline_generator.domain import (
    Completed,
    Contexts,
    Delta,
    Faithfulness,
    FinishReason,
    GenerationOptions,
    Message,
    Passage,
    Question,
    Relevances,
    Rewriting,
    Usage,
)

__all__ = [
    "ContextualizeCommand",
    "FaithfulnessCommand",
    "RelevanceCommand",
    "RewriteCommand",
    "from_contexts",
    "from_faithfulness",
    "from_relevances",
    "from_rewriting",
    "to_contextualize",
    "to_faithfulness",
    "to_question",
    "to_relevance",
    "to_response",
    "to_rewrite",
]

MAX_QUERY_CHARACTERS = 8_000
MAX_PASSAGES = 100
MAX_HISTORY = 100
MAX_MESSAGE_CHARACTERS = 32_000
MAX_CONTEXT_CHARACTERS = 8_000
MAX_SYSTEM_PROMPT_CHARACTERS = 8_000
MAX_OUTPUT_TOKENS = 32_768
MAX_SUB_QUERIES = 10
DEFAULT_SUB_QUERIES = 4
MAX_CHUNKS = 100
MAX_DOCUMENT_CHARACTERS = 10_000_000
MAX_TITLE_CHARACTERS = 2_000
MAX_PROMPT_CHARACTERS = 8_000
MAX_ANSWER_CHARACTERS = 200_000
_ROLES = ("user", "assistant")

# Cosine similarities of float32 vectors may leave -1..1 by rounding.
_ROUNDING = 1e-3

_FINISH_REASONS = {
    FinishReason.STOP: chat_pb2.FINISH_REASON_STOP,
    FinishReason.NO_ANSWER: chat_pb2.FINISH_REASON_NO_ANSWER,
    FinishReason.MAX_TOKENS: chat_pb2.FINISH_REASON_MAX_TOKENS,
    FinishReason.SAFETY: chat_pb2.FINISH_REASON_SAFETY,
}


def to_question(request: generator_service_pb2.GenerateRequest, *, max_passage_characters: int) -> Question:
    """Raises InvalidArgumentError with every violation."""
    wrong = Violations()
    query = _query(request.query, wrong)
    passages = _passages(request.passages, max_passage_characters, wrong)
    history = _history(request.chat_history, wrong)
    options = _options(request.options, wrong)
    if len(request.additional_context) > MAX_CONTEXT_CHARACTERS:
        wrong.add("additional_context", f"must have at most {MAX_CONTEXT_CHARACTERS} characters")
    wrong.raise_if_any()
    return Question(query, passages, history, options, request.additional_context)


@dataclass(frozen=True, slots=True)
class RewriteCommand:
    """RewriteQuery's request; `max_sub_queries` below 2 wants no decomposition."""

    query: str
    history: tuple[Message, ...]
    max_sub_queries: int
    model: str | None


@dataclass(frozen=True, slots=True)
class ContextualizeCommand:
    """ContextualizeChunks' request."""

    title: str
    document: str
    chunks: tuple[str, ...]
    prompt: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class RelevanceCommand:
    """JudgeRelevance's request."""

    query: str
    passages: tuple[Passage, ...]
    model: str | None


@dataclass(frozen=True, slots=True)
class FaithfulnessCommand:
    """JudgeFaithfulness' request."""

    query: str
    answer: str
    passages: tuple[Passage, ...]
    model: str | None


def to_rewrite(request: generator_service_pb2.RewriteQueryRequest) -> RewriteCommand:
    """Raises InvalidArgumentError with every violation."""
    wrong = Violations()
    query = _query(request.query, wrong)
    history = _history(request.chat_history, wrong)
    if not 0 <= request.max_sub_queries <= MAX_SUB_QUERIES:
        wrong.add("max_sub_queries", f"must be 0 to {MAX_SUB_QUERIES}")
    wrong.raise_if_any()
    return RewriteCommand(
        query, history, request.max_sub_queries or DEFAULT_SUB_QUERIES, request.model or None
    )


def to_contextualize(
    request: generator_service_pb2.ContextualizeChunksRequest, *, max_passage_characters: int
) -> ContextualizeCommand:
    """Raises InvalidArgumentError with every violation."""
    wrong = Violations()
    if len(request.chunk_texts) > MAX_CHUNKS:
        wrong.add("chunk_texts", f"must be at most {MAX_CHUNKS}")
    else:
        for index, text in enumerate(request.chunk_texts):
            if not text.strip():
                wrong.add(f"chunk_texts[{index}]", "must not be empty")
            elif len(text) > max_passage_characters:
                wrong.add(f"chunk_texts[{index}]", f"must have at most {max_passage_characters} characters")
    if request.chunk_texts and not request.document_text.strip():
        wrong.add("document_text", "must not be empty")
    for field, limit in (
        ("document_text", MAX_DOCUMENT_CHARACTERS),
        ("title", MAX_TITLE_CHARACTERS),
        ("prompt", MAX_PROMPT_CHARACTERS),
    ):
        if len(getattr(request, field)) > limit:
            wrong.add(field, f"must have at most {limit} characters")
    wrong.raise_if_any()
    return ContextualizeCommand(
        request.title,
        request.document_text,
        tuple(request.chunk_texts),
        request.prompt or None,
        request.model or None,
    )


def to_relevance(
    request: generator_service_pb2.JudgeRelevanceRequest, *, max_passage_characters: int
) -> RelevanceCommand:
    """Raises InvalidArgumentError with every violation."""
    wrong = Violations()
    query = _query(request.query, wrong)
    passages = _passages(request.passages, max_passage_characters, wrong)
    wrong.raise_if_any()
    return RelevanceCommand(query, passages, request.model or None)


def to_faithfulness(
    request: generator_service_pb2.JudgeFaithfulnessRequest, *, max_passage_characters: int
) -> FaithfulnessCommand:
    """Raises InvalidArgumentError with every violation."""
    wrong = Violations()
    query = _query(request.query, wrong)
    if not 1 <= len(request.answer) <= MAX_ANSWER_CHARACTERS:
        wrong.add("answer", f"must have 1 to {MAX_ANSWER_CHARACTERS} characters")
    passages = _passages(request.passages, max_passage_characters, wrong)
    wrong.raise_if_any()
    return FaithfulnessCommand(query, request.answer, passages, request.model or None)


def from_rewriting(rewriting: Rewriting) -> generator_service_pb2.RewriteQueryResponse:
    return generator_service_pb2.RewriteQueryResponse(
        standalone_query=rewriting.standalone,
        sub_queries=rewriting.sub_queries,
        model=rewriting.model,
        usage=_usage(rewriting.usage),
    )


def from_contexts(contexts: Contexts) -> generator_service_pb2.ContextualizeChunksResponse:
    return generator_service_pb2.ContextualizeChunksResponse(
        contexts=contexts.contexts,
        usage=_usage(contexts.usage),
        model=contexts.model,
        prompt_version=contexts.prompt_version,
    )


def from_relevances(judged: Relevances) -> generator_service_pb2.JudgeRelevanceResponse:
    return generator_service_pb2.JudgeRelevanceResponse(
        relevances=judged.relevances, usage=_usage(judged.usage), model=judged.model
    )


def from_faithfulness(judged: Faithfulness) -> generator_service_pb2.JudgeFaithfulnessResponse:
    return generator_service_pb2.JudgeFaithfulnessResponse(
        verdicts=[
            generator_service_pb2.SentenceVerdict(
                start_offset=each.start, end_offset=each.end, supported=each.supported, reason=each.reason
            )
            for each in judged.verdicts
        ],
        usage=_usage(judged.usage),
        model=judged.model,
    )


def to_response(event: Delta | Completed) -> generator_service_pb2.GenerateResponse:
    if isinstance(event, Delta):
        return generator_service_pb2.GenerateResponse(
            delta=generator_service_pb2.GenerateDelta(text=event.text)
        )
    validation = event.validation
    return generator_service_pb2.GenerateResponse(
        completed=generator_service_pb2.GenerateCompleted(
            finish_reason=_FINISH_REASONS[event.finish_reason],
            usage=_usage(event.usage),
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


def _usage(usage: Usage) -> chat_pb2.Usage:
    return chat_pb2.Usage(
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
    )


def _query(text: str, wrong: Violations) -> str:
    query = text.strip()
    if not 1 <= len(query) <= MAX_QUERY_CHARACTERS:
        wrong.add("query", f"must have 1 to {MAX_QUERY_CHARACTERS} characters after trimming")
    return query


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
        prompt_template=options.prompt_template or None,
    )


def _in_range(
    message: ProtoMessage, field: str, low: float, high: float, text: str, path: str, wrong: Violations
) -> None:
    value = getattr(message, field)
    if math.isnan(value) or not low <= value <= high:
        wrong.add(f"{path}.{field}", f"must be {text}")
