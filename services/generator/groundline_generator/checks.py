"""What a request must satisfy; each check raises InvalidArgumentError with every violation."""

import math
from collections.abc import Sequence

from google.protobuf.message import Message
from groundline.v1 import chat_pb2, generator_service_pb2, options_pb2
from groundline_runtime.errors import Violations

__all__ = [
    "check_contextualize",
    "check_faithfulness",
    "check_generate",
    "check_relevance",
    "check_rewrite",
]

MAX_QUERY_CHARACTERS = 8_000
MAX_PASSAGES = 100
MAX_HISTORY = 100
MAX_MESSAGE_CHARACTERS = 32_000
MAX_CONTEXT_CHARACTERS = 8_000
MAX_SYSTEM_PROMPT_CHARACTERS = 8_000
MAX_OUTPUT_TOKENS = 32_768
MAX_SUB_QUERIES = 10
MAX_CHUNKS = 100
MAX_DOCUMENT_CHARACTERS = 10_000_000
MAX_TITLE_CHARACTERS = 2_000
MAX_PROMPT_CHARACTERS = 8_000
MAX_ANSWER_CHARACTERS = 200_000
_ROLES = ("user", "assistant")

# Cosine similarities of float32 vectors may leave -1..1 by rounding.
_ROUNDING = 1e-3


def check_generate(request: generator_service_pb2.GenerateRequest, max_passage_characters: int) -> None:
    wrong = Violations()
    _query(request.query, wrong)
    _passages(request.passages, max_passage_characters, wrong)
    _history(request.chat_history, wrong)
    _options(request.options, wrong)
    if len(request.additional_context) > MAX_CONTEXT_CHARACTERS:
        wrong.add("additional_context", f"must have at most {MAX_CONTEXT_CHARACTERS} characters")
    wrong.raise_if_any()


def check_rewrite(request: generator_service_pb2.RewriteQueryRequest) -> None:
    wrong = Violations()
    _query(request.query, wrong)
    _history(request.chat_history, wrong)
    if not 0 <= request.max_sub_queries <= MAX_SUB_QUERIES:
        wrong.add("max_sub_queries", f"must be 0 to {MAX_SUB_QUERIES}")
    wrong.raise_if_any()


def check_contextualize(
    request: generator_service_pb2.ContextualizeChunksRequest, max_passage_characters: int
) -> None:
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


def check_relevance(
    request: generator_service_pb2.JudgeRelevanceRequest, max_passage_characters: int
) -> None:
    wrong = Violations()
    _query(request.query, wrong)
    _passages(request.passages, max_passage_characters, wrong)
    wrong.raise_if_any()


def check_faithfulness(
    request: generator_service_pb2.JudgeFaithfulnessRequest, max_passage_characters: int
) -> None:
    wrong = Violations()
    _query(request.query, wrong)
    if not 1 <= len(request.answer) <= MAX_ANSWER_CHARACTERS:
        wrong.add("answer", f"must have 1 to {MAX_ANSWER_CHARACTERS} characters")
    _passages(request.passages, max_passage_characters, wrong)
    wrong.raise_if_any()


def _query(text: str, wrong: Violations) -> None:
    if not 1 <= len(text.strip()) <= MAX_QUERY_CHARACTERS:
        wrong.add("query", f"must have 1 to {MAX_QUERY_CHARACTERS} characters after trimming")


def _passages(
    messages: Sequence[generator_service_pb2.NumberedPassage], max_characters: int, wrong: Violations
) -> None:
    if len(messages) > MAX_PASSAGES:
        wrong.add("passages", f"must be at most {MAX_PASSAGES}")
        return
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


def _history(messages: Sequence[chat_pb2.ChatMessage], wrong: Violations) -> None:
    if len(messages) > MAX_HISTORY:
        wrong.add("chat_history", f"must be at most {MAX_HISTORY} messages")
        return
    for index, message in enumerate(messages):
        if message.role not in _ROLES:
            wrong.add(f"chat_history[{index}].role", 'must be "user" or "assistant"')
        if not 1 <= len(message.content) <= MAX_MESSAGE_CHARACTERS:
            wrong.add(f"chat_history[{index}].content", f"must have 1 to {MAX_MESSAGE_CHARACTERS} characters")


def _options(options: options_pb2.GenerationOptions, wrong: Violations) -> None:
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


def _in_range(
    message: Message, field: str, low: float, high: float, text: str, path: str, wrong: Violations
) -> None:
    value = getattr(message, field)
    if math.isnan(value) or not low <= value <= high:
        wrong.add(f"{path}.{field}", f"must be {text}")
