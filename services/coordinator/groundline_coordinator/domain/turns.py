"""Requests as far as they have been looked up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.struct_pb2 import Struct
from groundline.v1 import chat_pb2, collection_pb2, coordinator_service_pb2, options_pb2

from groundline_coordinator.domain.positions import Position

__all__ = [
    "AnyRequest",
    "Inquiry",
    "Question",
    "ReadableCollection",
    "RequestClaim",
    "Scope",
    "Turn",
    "inquiry_of",
    "is_stored",
]

type Question = coordinator_service_pb2.ChatRequest | coordinator_service_pb2.AnswerRequest
type AnyRequest = Question | coordinator_service_pb2.SearchRequest


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What Chat, Answer and Search have in common: what to look for, where, and how."""

    query: str
    collection_ids: Sequence[str]
    filter: Struct
    retrieval: options_pb2.RetrievalOptions
    rerank: options_pb2.RerankOptions
    min_position: str = ""
    """What was written up to here is to be seen."""


def inquiry_of(request: AnyRequest) -> Inquiry:
    return Inquiry(
        query=request.query.strip(),
        collection_ids=tuple(dict.fromkeys(request.collection_ids)),
        filter=request.filter,
        retrieval=request.options.retrieval,
        rerank=request.options.rerank,
        min_position=request.min_position,
    )


def is_stored(question: Question) -> bool:
    """Whether question and answer become messages of a thread; they do unless the request says otherwise."""
    return question.store or not question.HasField("store")


@dataclass(frozen=True, slots=True)
class ReadableCollection:
    """A collection that the caller may read."""

    collection_id: str
    version: int
    """Changes whenever the collection does."""
    settings: collection_pb2.CollectionSettings


@dataclass(frozen=True, slots=True)
class Scope:
    """What is searched, with the options that the request and its collection's defaults make together."""

    versions: Mapping[str, int]
    """Of the collections that the request names; empty for all that the caller may read."""
    is_empty: bool
    """Whether the caller may read nothing at all."""
    rerank: options_pb2.RerankOptions
    generation: options_pb2.GenerationOptions


@dataclass(frozen=True, slots=True)
class RequestClaim:
    """A request_id of one owner, taken for the answer `message_id` to one request."""

    owner: str
    request_id: str
    fingerprint: bytes
    """SHA-256 of the request without its request_id."""
    message_id: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A question whose collections and thread exist; `replay` where it has been answered already."""

    question: Question
    question_id: str
    """Of its message."""
    inquiry: Inquiry
    scope: Scope
    owner: str
    history: Sequence[chat_pb2.ChatMessage]
    started: chat_pb2.ChatStarted
    claim: RequestClaim | None = None
    replay: coordinator_service_pb2.AnswerResponse | None = field(default=None)
    resumed: Position | None = None
    """Up to where the caller has what is replayed."""

    @property
    def position(self) -> Position:
        """Where the stream of events begins."""
        return self.resumed or Position.before(self.started.message_id)
