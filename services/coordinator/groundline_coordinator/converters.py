"""Requests of the coordinator's RPCs, checked whole, and their responses."""

import hashlib
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import chat_pb2, coordinator_service_pb2, options_pb2, thread_pb2
from groundline_filters import FilterError, parse, plain
from groundline_runtime.errors import (
    Code,
    GroundlineError,
    Violations,
)

from groundline_coordinator.domain import (
    Answered,
    Completed,
    Delta,
    Event,
    HistoryMessage,
    Options,
    Page,
    Question,
    RewritingMode,
    Search,
    SourcesFound,
    Stage,
    StageBegan,
    Started,
    StoredMessage,
    Thread,
)
from groundline_coordinator.messages import (
    citation_to_proto,
    completed_to_proto,
    cut_to_proto,
    degradation_to_proto,
    finish_reason_to_proto,
    passage_to_proto,
    source_to_proto,
    timing_to_proto,
    usage_to_proto,
)
from groundline_coordinator.service import Found

__all__ = [
    "answer_response",
    "chat_response",
    "error_response",
    "page_from_request",
    "question_from_request",
    "search_from_request",
    "search_response",
    "thread_id_from_request",
    "thread_response",
    "threads_response",
]

MAX_QUERY_CHARACTERS = 8_000
MAX_HISTORY = 100
MAX_MESSAGE_CHARACTERS = 32_000
MAX_CONTEXT_CHARACTERS = 8_000
MAX_COLLECTIONS = 20
MAX_REQUEST_ID_CHARACTERS = 64
MAX_PAGE_SIZE = 1_000
MAX_NAME_CHARACTERS = 200
MAX_SYSTEM_PROMPT_CHARACTERS = 8_000

_ROLES = ("user", "assistant")
_SOURCE_TYPES = ("file", "object", "web")
_COLLECTION_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_INFINITE = math.inf

# Lowest and highest value of each field of the options, as options.proto says.
_RANGES: Mapping[str, tuple[float, float]] = {
    "RetrievalOptions.keyword_limit": (1, 1000),
    "RetrievalOptions.semantic_limit": (1, 1000),
    "RetrievalOptions.ef_search": (1, 1000),
    "RetrievalOptions.min_similarity": (-1, 1),
    "RetrievalOptions.min_bm25": (0, _INFINITE),
    "RetrievalOptions.neighbour_chunks": (0, 10),
    "RerankOptions.top_k": (1, 100),
    "RerankOptions.rrf_k": (1, 1000),
    "RerankOptions.keyword_weight": (0, _INFINITE),
    "RerankOptions.semantic_weight": (0, _INFINITE),
    "RerankOptions.fold_similarity": (0, 1),
    "RerankOptions.mmr_lambda": (0, 1),
    "RerankOptions.min_score": (-_INFINITE, _INFINITE),
    "RerankWeights.semantic": (0, _INFINITE),
    "RerankWeights.vector": (0, _INFINITE),
    "RerankWeights.position": (0, _INFINITE),
    "RerankWeights.recency": (0, _INFINITE),
    "RerankWeights.type": (0, _INFINITE),
    "RerankWeights.keyword": (0, _INFINITE),
    "RerankWeights.proximity": (0, _INFINITE),
    "GenerationOptions.temperature": (0, 2),
    "GenerationOptions.max_output_tokens": (1, 32768),
    "GenerationOptions.min_relevance": (0, 1),
}
_LENGTHS: Mapping[str, int] = {
    "RerankOptions.model": MAX_NAME_CHARACTERS,
    "GenerationOptions.model": MAX_NAME_CHARACTERS,
    "GenerationOptions.system_prompt": MAX_SYSTEM_PROMPT_CHARACTERS,
    "GenerationOptions.prompt_template": MAX_NAME_CHARACTERS,
}

_REWRITING_MODES = {
    options_pb2.REWRITING_MODE_UNSPECIFIED: RewritingMode.AUTO,
    options_pb2.REWRITING_MODE_AUTO: RewritingMode.AUTO,
    options_pb2.REWRITING_MODE_OFF: RewritingMode.OFF,
    options_pb2.REWRITING_MODE_ALWAYS: RewritingMode.ALWAYS,
}

_STAGES = {
    Stage.REWRITING: chat_pb2.STAGE_REWRITING,
    Stage.RETRIEVING: chat_pb2.STAGE_RETRIEVING,
    Stage.RERANKING: chat_pb2.STAGE_RERANKING,
    Stage.GENERATING: chat_pb2.STAGE_GENERATING,
}

# Failures that the same request may survive later.
_RETRYABLE = frozenset({Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.ABORTED})


def question_from_request(
    request: coordinator_service_pb2.ChatRequest | coordinator_service_pb2.AnswerRequest,
) -> Question:
    """Raises InvalidArgumentError with every violation, UnimplementedError for what this release lacks."""
    wrong = Violations()
    options = request.options
    query, collection_ids = _query(request.query, wrong), _collections(request.collection_ids, wrong)
    thread_id = _thread_id(request.thread_id, wrong) if request.thread_id else None
    history = _history(request.chat_history, wrong)
    if len(request.request_id) > MAX_REQUEST_ID_CHARACTERS:
        wrong.add("request_id", f"must have at most {MAX_REQUEST_ID_CHARACTERS} characters")
    if len(request.additional_context) > MAX_CONTEXT_CHARACTERS:
        wrong.add("additional_context", f"must have at most {MAX_CONTEXT_CHARACTERS} characters")
    _check_options(options, "options", wrong)
    conditions = _conditions(request.filter, wrong)
    wrong.raise_if_any()
    return Question(
        search=Search(
            query, collection_ids, _as_options(options.retrieval), _as_options(options.rerank), conditions
        ),
        thread_id=thread_id,
        chat_history=history,
        generation=_as_options(options.generation),
        additional_context=request.additional_context,
        rewriting=_REWRITING_MODES[options.rewriting],
        request_id=request.request_id,
        fingerprint=_fingerprint(request),
    )


def search_from_request(request: coordinator_service_pb2.SearchRequest) -> Search:
    """Raises InvalidArgumentError with every violation."""
    wrong = Violations()
    query, collection_ids = _query(request.query, wrong), _collections(request.collection_ids, wrong)
    _check_options(request.options, "options", wrong)
    conditions = _conditions(request.filter, wrong)
    wrong.raise_if_any()
    return Search(
        query,
        collection_ids,
        _as_options(request.options.retrieval),
        _as_options(request.options.rerank),
        conditions,
    )


def thread_id_from_request(request: coordinator_service_pb2.DeleteThreadRequest) -> str:
    wrong = Violations()
    thread_id = _thread_id(request.thread_id, wrong)
    wrong.raise_if_any()
    return thread_id


def page_from_request(
    request: coordinator_service_pb2.GetThreadRequest | coordinator_service_pb2.ListThreadsRequest,
    default_page_size: int,
) -> tuple[str, int]:
    """The thread's id (empty for a list) and the page's size."""
    wrong = Violations()
    thread_id = ""
    if isinstance(request, coordinator_service_pb2.GetThreadRequest):
        thread_id = _thread_id(request.thread_id, wrong)
    if not 0 <= request.page_size <= MAX_PAGE_SIZE:
        wrong.add("page_size", f"must be 0 to {MAX_PAGE_SIZE}")
    wrong.raise_if_any()
    return thread_id, request.page_size or default_page_size


def chat_response(sequence: int, event: Event) -> coordinator_service_pb2.ChatResponse:
    response = coordinator_service_pb2.ChatResponse(sequence=sequence)
    match event:
        case Started():
            response.started.CopyFrom(
                chat_pb2.ChatStarted(
                    thread_id=event.thread_id, message_id=event.message_id, trace_id=event.trace_id
                )
            )
        case StageBegan():
            response.status.CopyFrom(
                chat_pb2.ChatStatus(
                    stage=_STAGES[event.stage],
                    rewritten_query=event.rewritten_query,
                    sub_queries=event.sub_queries,
                    rewriting_model=event.rewriting_model,
                )
            )
        case SourcesFound():
            response.sources.CopyFrom(
                chat_pb2.ChatSources(sources=[source_to_proto(source) for source in event.sources])
            )
        case Delta():
            response.delta.CopyFrom(chat_pb2.ChatDelta(text=event.text))
        case Completed():
            response.completed.CopyFrom(completed_to_proto(event))
    return response


def error_response(sequence: int, error: GroundlineError) -> coordinator_service_pb2.ChatResponse:
    return coordinator_service_pb2.ChatResponse(
        sequence=sequence,
        error=chat_pb2.ChatError(
            code=error.code.value,
            reason=error.reason,
            message=error.message,
            error_id=error.error_id or "",
            retryable=error.code in _RETRYABLE,
            violations=[
                chat_pb2.FieldError(field=violation.field, description=violation.description)
                for violation in error.violations
            ],
        ),
    )


def answer_response(answered: Answered) -> coordinator_service_pb2.AnswerResponse:
    return coordinator_service_pb2.AnswerResponse(
        thread_id=answered.started.thread_id,
        message_id=answered.started.message_id,
        trace_id=answered.started.trace_id,
        answer=answered.answer,
        sources=[source_to_proto(source) for source in answered.sources],
        completed=completed_to_proto(answered.completed),
        rewritten_query=answered.rewritten_query,
        sub_queries=answered.sub_queries,
        rewriting_model=answered.rewriting_model,
    )


def search_response(found: Found) -> coordinator_service_pb2.SearchResponse:
    return coordinator_service_pb2.SearchResponse(
        passages=[passage_to_proto(passage) for passage in found.searched.ranking.passages],
        degraded=[degradation_to_proto(degradation) for degradation in found.degraded],
        timings=[timing_to_proto(timing) for timing in found.timings],
        trace_id=found.trace_id,
        cut=[cut_to_proto(cut) for cut in found.searched.ranking.cut],
    )


def thread_response(
    thread: Thread, messages: Page[StoredMessage]
) -> coordinator_service_pb2.GetThreadResponse:
    return coordinator_service_pb2.GetThreadResponse(
        thread=_thread(thread),
        messages=[_message(message) for message in messages.items],
        next_page_token=messages.next_page_token,
    )


def threads_response(threads: Page[Thread]) -> coordinator_service_pb2.ListThreadsResponse:
    return coordinator_service_pb2.ListThreadsResponse(
        threads=[_thread(thread) for thread in threads.items], next_page_token=threads.next_page_token
    )


def _fingerprint(
    request: coordinator_service_pb2.ChatRequest | coordinator_service_pb2.AnswerRequest,
) -> bytes:
    """SHA-256 of all but the request_id; the same for the same request to Chat and to Answer."""
    rest = coordinator_service_pb2.ChatRequest.FromString(request.SerializeToString())
    rest.ClearField("request_id")
    return hashlib.sha256(rest.SerializeToString(deterministic=True)).digest()


def _query(query: str, wrong: Violations) -> str:
    query = query.strip()
    if not 1 <= len(query) <= MAX_QUERY_CHARACTERS:
        wrong.add("query", f"must have 1 to {MAX_QUERY_CHARACTERS} characters after trimming")
    if "\0" in query:  # PostgreSQL's text cannot hold it
        wrong.add("query", "must not contain the character U+0000")
    return query


def _collections(names: Sequence[str], wrong: Violations) -> tuple[str, ...]:
    if len(names) > MAX_COLLECTIONS:
        wrong.add("collection_ids", f"must be at most {MAX_COLLECTIONS}")
        return ()
    for index, name in enumerate(names):
        if not _COLLECTION_ID.fullmatch(name):
            wrong.add(
                f"collection_ids[{index}]",
                'must be 1 to 63 lower-case letters, digits, "_" or "-", beginning with a letter or digit',
            )
    return tuple(dict.fromkeys(names))


def _thread_id(value: str, wrong: Violations) -> str:
    try:
        parsed = str(uuid.UUID(value))
    except ValueError:
        parsed = ""
    if parsed != value.lower():
        wrong.add("thread_id", "must be a UUID")
    return parsed


def _history(
    messages: Sequence[chat_pb2.ChatMessage], wrong: Violations
) -> tuple[HistoryMessage, ...] | None:
    if len(messages) > MAX_HISTORY:
        wrong.add("chat_history", f"must be at most {MAX_HISTORY} messages")
        return None
    for index, message in enumerate(messages):
        if message.role not in _ROLES:
            wrong.add(f"chat_history[{index}].role", 'must be "user" or "assistant"')
        if not 1 <= len(message.content) <= MAX_MESSAGE_CHARACTERS:
            wrong.add(f"chat_history[{index}].content", f"must have 1 to {MAX_MESSAGE_CHARACTERS} characters")
    return tuple(HistoryMessage(message.role, message.content) for message in messages) or None


def _check_options(message: ProtoMessage, path: str, wrong: Violations) -> None:
    """Check every field that is set, by its range, its length, or the names its enum has."""
    for field, value in message.ListFields():
        name = f"{path}.{field.name}"
        if name.endswith(".type_priorities"):
            _check_priorities(value, name, wrong)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            _check_options(value, name, wrong)
        elif field.type == FieldDescriptor.TYPE_ENUM:
            if field.enum_type is None or value not in field.enum_type.values_by_number:
                wrong.add(name, "has an unknown value")
        elif field.type == FieldDescriptor.TYPE_STRING:
            limit = _LENGTHS[f"{message.DESCRIPTOR.name}.{field.name}"]
            if len(value) > limit:
                wrong.add(name, f"must have at most {limit} characters")
        elif field.type != FieldDescriptor.TYPE_BOOL:
            low, high = _RANGES[f"{message.DESCRIPTOR.name}.{field.name}"]
            if not math.isfinite(value) or not low <= value <= high:
                wrong.add(name, _range_text(low, high))


def _check_priorities(priorities: Mapping[str, float], path: str, wrong: Violations) -> None:
    for source_type, priority in sorted(priorities.items()):
        if source_type not in _SOURCE_TYPES:
            wrong.add(f'{path}["{source_type}"]', f"must be one of {', '.join(_SOURCE_TYPES)}")
        if not 0 <= priority <= 1:
            wrong.add(f'{path}["{source_type}"]', "must be 0 to 1")


def _range_text(low: float, high: float) -> str:
    if low == -_INFINITE:
        return "must be a finite number"
    return f"must be {low:g} or more" if high == _INFINITE else f"must be {low:g} to {high:g}"


def _conditions(filter: Struct, wrong: Violations) -> Mapping[str, Any]:  # noqa: A002
    """The filter as JSON; it is checked here too, so that a wrong one is refused before a chat has begun."""
    try:
        conditions = plain(filter)
        parse(conditions)
    except FilterError as error:
        for problem in error.problems:
            wrong.add(problem.path, problem.description)
    return conditions


def _as_options(message: ProtoMessage) -> Options:
    options: dict[str, Any] = MessageToDict(message)
    return options


def _thread(thread: Thread) -> thread_pb2.Thread:
    message = thread_pb2.Thread(
        thread_id=thread.thread_id, title=thread.title, message_count=thread.message_count
    )
    message.create_time.FromDatetime(thread.create_time)
    message.update_time.FromDatetime(thread.update_time)
    return message


def _message(stored: StoredMessage) -> thread_pb2.Message:
    message = thread_pb2.Message(
        message_id=stored.message_id,
        role=stored.role,
        content=stored.content,
        sources=[source_to_proto(source) for source in stored.sources],
        citations=[citation_to_proto(citation) for citation in stored.citations],
        usage=usage_to_proto(stored.usage) if stored.role == "assistant" else None,
        finish_reason=finish_reason_to_proto(stored.finish_reason),
        model=stored.model,
    )
    if stored.create_time is not None:
        stamp = Timestamp()
        stamp.FromDatetime(stored.create_time)
        message.create_time.CopyFrom(stamp)
    return message
