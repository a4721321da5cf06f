"""Requests whose names have been looked up."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import chat_pb2, collection_pb2, options_pb2
from groundline.v1 import coordinator_service_pb2 as pb

from groundline_coordinator.domain.positions import Position
from groundline_coordinator.domain.quotas import QuotaUse

type Question = pb.ChatRequest | pb.AnswerRequest


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Common fields of Chat and Answer: the question, the collections, and the options."""

    query: str
    collection_ids: Sequence[str]
    filter: Struct
    retrieval: options_pb2.RetrievalOptions
    rerank: options_pb2.RerankOptions
    min_position: str = ""
    """Position in the write-ahead log up to which changes must be visible."""
    as_of: Timestamp | None = None
    """Time of which what was current then is searched; None for now."""


def inquiry_of(request: Question) -> Inquiry:
    return Inquiry(
        query=request.query.strip(),
        collection_ids=tuple(dict.fromkeys(request.collection_ids)),
        filter=request.filter,
        retrieval=request.options.retrieval,
        rerank=request.options.rerank,
        min_position=request.min_position,
        as_of=request.as_of if request.HasField("as_of") else None,
    )


def is_stored(question: Question) -> bool:
    """Tell whether question and answer become messages of a thread; they do unless the request says
    otherwise."""
    return question.store or not question.HasField("store")


@dataclass(frozen=True, slots=True)
class ReadableCollection:
    """A collection that the caller may read."""

    collection_id: str
    settings: collection_pb2.CollectionSettings


@dataclass(frozen=True, slots=True)
class Plan:
    """Collections to search, with the answer's options from the request and its collection's defaults."""

    is_empty: bool
    """Whether the caller may read nothing at all."""
    generation: options_pb2.GenerationOptions
    calibration: collection_pb2.Calibration


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
    """A question whose collections and thread exist; `replay` holds the answer if it has one already."""

    question: Question
    question_id: str
    """Id of its message."""
    inquiry: Inquiry
    plan: Plan
    owner: str
    history: Sequence[chat_pb2.ChatMessage]
    started: chat_pb2.ChatStarted
    used: QuotaUse
    """Usage of the caller's quotas before it."""
    claim: RequestClaim | None = None
    replay: pb.AnswerResponse | None = field(default=None)
    resumed: Position | None = None
    """Position up to which the caller has the replayed stream."""

    @property
    def position(self) -> Position:
        """Position at which the stream of events begins."""
        return self.resumed or Position.before(self.started.message_id)
