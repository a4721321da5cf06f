"""Fakes of the coordinator's ports: they keep to the ports' contracts and hold everything in memory."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from groundline.v1 import (
    chat_pb2,
    collection_pb2,
    evidence_pb2,
    passage_pb2,
    quota_pb2,
    retriever_service_pb2,
    thread_pb2,
)
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.adapters.signing import json_of
from groundline_coordinator.domain.passages import rests_on
from groundline_coordinator.domain.quotas import QuotaUse
from groundline_coordinator.domain.turns import ReadableCollection, RequestClaim
from groundline_coordinator.ports import REPLAY_SECONDS, StoredAnswer
from groundline_evidence import KeyPair, sign
from groundline_runtime.context import has_begun
from groundline_runtime.errors import AbortedError, FieldViolation, InvalidArgumentError, NotFoundError
from groundline_runtime.quotas import Spent
from groundline_tests.coordinator.generating import FakeGenerator, Step, judged, rewrite

__all__ = [
    "DOCUMENT_ID",
    "FakeCatalog",
    "FakeGenerator",
    "FakeQuotas",
    "FakeRetriever",
    "FakeSigner",
    "FakeThreads",
    "collection",
    "found",
    "judged",
    "make_chunk",
    "rewrite",
]

DOCUMENT_ID: Final = "5f0c1d6e-0000-4000-8000-000000000001"
"""Document of made chunks."""


def make_chunk(chunk_id: int, text: str = "Some text.", **fields: Any) -> passage_pb2.Chunk:
    """Return a chunk with plausible values in the fields that are not given."""
    given = {
        "document_id": DOCUMENT_ID,
        "collection_id": "docs",
        "text": text,
        "title": "Title",
        "uri": "docs/title.md",
        "source_type": passage_pb2.SOURCE_TYPE_FILE,
        "mime_type": "text/markdown",
        "end_offset": len(text),
        **fields,
    }
    return passage_pb2.Chunk(chunk_id=str(chunk_id), **given)


def passages_of(*scores: tuple[int, float]) -> list[passage_pb2.Passage]:
    """Make passages of chunks that were found by these similarities."""
    return [
        passage_pb2.Passage(
            chunk=make_chunk(chunk_id),
            score=score,
            explanation=passage_pb2.ScoreExplanation(
                semantic=passage_pb2.ArmScore(rank=rank, score=score), final_score=score
            ),
        )
        for rank, (chunk_id, score) in enumerate(scores, start=1)
    ]


def found(*scores: tuple[int, float], **fields: Any) -> retriever_service_pb2.SearchResponse:
    """Make the response of a search that found these chunks, best first, with their similarities."""
    return retriever_service_pb2.SearchResponse(passages=passages_of(*scores), **fields)


def collection(collection_id: str, **settings: Any) -> ReadableCollection:
    """Return a collection with these settings."""
    return ReadableCollection(collection_id, collection_pb2.CollectionSettings(**settings))


class FakeRetriever(Step):
    """A Retriever that finds what it was given: for a query by name, else always the same.

    It has the chunks in `chunks`, and for any other id one that make_chunk makes; and the texts of
    `revisions`, by their names.
    """

    def __init__(self, response: retriever_service_pb2.SearchResponse | None = None) -> None:
        super().__init__()
        self.response = response or found()
        self.by_query: dict[str, retriever_service_pb2.SearchResponse | Exception] = {}
        self.calls: list[retriever_service_pb2.SearchRequest] = []
        self.begun: list[bool] = []
        self.chunks: dict[int, passage_pb2.Chunk] = {}
        self.gone: set[int] = set()
        self.revisions: dict[str, str] = {}
        self.tables = retriever_service_pb2.QueryTablesResponse()
        self.asked_tables: list[retriever_service_pb2.QueryTablesRequest] = []
        self.tables_failure: Exception | None = None

    @property
    def queries(self) -> list[list[str]]:
        """Queries that each call asked for."""
        return [[call.query, *call.additional_queries] for call in self.calls]

    async def search(
        self, request: retriever_service_pb2.SearchRequest
    ) -> retriever_service_pb2.SearchResponse:
        self.calls.append(request)
        self.begun.append(has_begun())
        await self._pass()
        response = self.by_query.get(request.query, self.response)
        if isinstance(response, Exception):
            raise response
        best = max((each.explanation.semantic.score for each in response.passages), default=-1.0)
        if request.HasField("weak_similarity") and best < request.weak_similarity:
            return retriever_service_pb2.SearchResponse(is_weak=True, degraded=response.degraded)
        for passage in response.passages:
            if chunk := self.chunks.get(int(passage.chunk.chunk_id)):
                passage.chunk.CopyFrom(chunk)
        return response

    async def query_tables(
        self, request: retriever_service_pb2.QueryTablesRequest
    ) -> retriever_service_pb2.QueryTablesResponse:
        self.asked_tables.append(request)
        if self.tables_failure is not None:
            raise self.tables_failure
        return self.tables

    async def fetch(
        self, request: retriever_service_pb2.FetchChunksRequest
    ) -> retriever_service_pb2.FetchChunksResponse:
        return retriever_service_pb2.FetchChunksResponse(
            chunks=[
                self.chunks.get(chunk_id) or make_chunk(chunk_id)
                for selection in request.selections
                for chunk_id in map(int, selection.chunk_ids)
                if chunk_id not in self.gone
            ],
            texts=[
                retriever_service_pb2.RevisionText(
                    span=span, text=self.revisions[span.revision][span.start_offset : span.end_offset]
                )
                for span in request.spans
                if span.revision in self.revisions
            ],
        )


@dataclass(frozen=True, slots=True)
class _Restricted:
    collection: ReadableCollection
    readers: Sequence[str] = ()
    writers: Sequence[str] = ()


class FakeCatalog:
    """A CollectionCatalog."""

    def __init__(self) -> None:
        self._collections: dict[str, _Restricted] = {}

    def add(
        self, collection: ReadableCollection, *, readers: Sequence[str] = (), writers: Sequence[str] = ()
    ) -> None:
        """Add a collection, in place of one of the same id."""
        self._collections[collection.collection_id] = _Restricted(collection, readers, writers)

    async def readable(
        self, principals: Sequence[str], collection_ids: Sequence[str]
    ) -> Sequence[ReadableCollection]:
        found = [
            each.collection
            for name, each in self._collections.items()
            if (not each.readers or {*each.readers, *each.writers} & set(principals))
            and (not collection_ids or name in collection_ids)
        ]
        if collection_ids:
            return found
        limited = (each for each in found[2:] if each.settings.HasField("generation_limits"))
        return [*found[:2], *limited]


@dataclass(slots=True)
class _Exchange:
    question: thread_pb2.Message
    answer: thread_pb2.Message | None = None
    record: evidence_pb2.AnswerRecord | None = None

    @property
    def messages(self) -> list[thread_pb2.Message]:
        return [self.question] if self.answer is None else [self.question, self.answer]


@dataclass(slots=True)
class _Conversation:
    owner: str
    title: str
    create_time: datetime
    update_time: datetime
    is_pinned: bool = False
    exchanges: list[_Exchange] = field(default_factory=list)

    @property
    def messages(self) -> list[thread_pb2.Message]:
        return [message for each in self.exchanges for message in each.messages]


@dataclass(slots=True)
class _Claimed:
    claim: RequestClaim
    expire_time: datetime
    answered: pb.AnswerResponse | None = None

    def is_gone(self, threads: Mapping[str, _Conversation]) -> bool:
        return self.answered is not None and self.answered.thread_id not in threads


def _without_texts(sources: Iterable[chat_pb2.Source], citations: Iterable[chat_pb2.Citation]) -> None:
    for source in sources:
        source.ClearField("snippet")
    for citation in citations:
        citation.ClearField("supporting_text")


class FakeQuotas:
    """A QuotaStore beside a ThreadStore."""

    def __init__(self, threads: "FakeThreads") -> None:
        self._threads = threads
        self.tokens: Counter[str] = Counter()
        self.usd: defaultdict[str, float] = defaultdict(float)

    async def used(self, owner: str, *, besides: str = "") -> QuotaUse:
        threads = await self._threads.threads(owner, before=None, limit=1_000_000)
        count, usd = sum(one.thread_id != besides for one in threads), self.usd[owner]
        return QuotaUse(count, self.tokens[owner], Spent(usd, usd, *[sum(self.usd.values())] * 2))

    async def spend(self, owner: str, tokens: int, usd: float) -> None:
        self.tokens[owner] += tokens
        self.usd[owner] += usd

    async def report(self, since: date, owner: str | None) -> pb.GetUsageResponse:
        spent = {name: usd for name, usd in self.usd.items() if owner in (None, name) and usd}
        callers = [quota_pb2.UsageSum(name=name, cost_usd=usd) for name, usd in spent.items()]
        return pb.GetUsageResponse(total=quota_pb2.UsageSum(cost_usd=sum(spent.values())), callers=callers)


class FakeSigner:
    """A Signer with a key of its own."""

    def __init__(self) -> None:
        self.key = KeyPair.new()

    async def sign(self, evidence: evidence_pb2.Evidence) -> bytes:
        evidence.issue_time.FromDatetime(datetime(2026, 1, 1, tzinfo=UTC))
        return sign(json_of(evidence), self.key)

    async def keys(self) -> Sequence[evidence_pb2.SigningKey]:
        return [evidence_pb2.SigningKey(**self.key.jwk())]


class FakeThreads:
    """A ThreadStore whose clock moves on by a second with every change.

    `error` fails what is stored, `blocked` holds answers up until it is set. Documents in `hidden` are gone,
    or may not be read; of the others it knows what the sources say.
    """

    def __init__(self) -> None:
        self._threads: dict[str, _Conversation] = {}
        self._claims: dict[tuple[str, str], _Claimed] = {}
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self.error: Exception | None = None
        self.blocked: asyncio.Event | None = None
        self.answering = asyncio.Event()
        self.renewed = asyncio.Event()
        self.hidden: set[str] = set()

    async def claim(
        self, claim: RequestClaim, principals: Sequence[str], lease_seconds: float
    ) -> pb.AnswerResponse | None:
        key = (claim.owner, claim.request_id)
        known = self._claims.get(key)
        end = self._now + timedelta(seconds=lease_seconds)
        if (
            known is None
            or known.expire_time <= self._now
            or (known.answered is None and known.expire_time > end)
            or known.is_gone(self._threads)
        ):
            self._claims[key] = _Claimed(claim, end)
            return None
        if known.claim.fingerprint != claim.fingerprint:
            raise InvalidArgumentError(
                [FieldViolation("request_id", "was used for another request")], reason="REQUEST_ID_REUSED"
            )
        if known.answered is None:
            raise AbortedError("REQUEST_UNDER_WAY", "still under way", retry_after_seconds=1)
        if self.hidden.intersection(each.document_id for each in known.answered.sources):
            self._claims[key] = _Claimed(claim, end)
            return None
        answered = pb.AnswerResponse()
        answered.CopyFrom(known.answered)
        _without_texts(answered.sources, answered.completed.citations)
        return answered

    async def renew(self, claim: RequestClaim, lease_seconds: float) -> None:
        known = self._claims.get((claim.owner, claim.request_id))
        if known is not None and known.claim == claim and known.answered is None:
            known.expire_time = self._now + timedelta(seconds=lease_seconds)
            self.renewed.set()

    async def release(self, claim: RequestClaim) -> None:
        known = self._claims.get((claim.owner, claim.request_id))
        if known is not None and known.claim == claim and known.answered is None:
            del self._claims[claim.owner, claim.request_id]

    async def history(
        self, owner: str, principals: Sequence[str], thread_id: str, limit: int
    ) -> Sequence[chat_pb2.ChatMessage]:
        exchanges = [each for each in self._find(owner, thread_id).exchanges if each.answer is not None]
        messages = [self._shown(message) for each in exchanges for message in each.messages][-limit:]
        messages = [message for message in messages if not message.is_withheld]
        return [chat_pb2.ChatMessage(role=message.role, content=message.content) for message in messages]

    async def ask(
        self, owner: str, thread_id: str, title: str, question: thread_pb2.Message, *, create: bool
    ) -> None:
        self._change()
        if create and thread_id not in self._threads:
            self._threads[thread_id] = _Conversation(owner, title, self._now, self._now)
        thread = self._find(owner, thread_id)
        thread.update_time = self._now
        if not any(each.question.message_id == question.message_id for each in thread.exchanges):
            thread.exchanges.append(_Exchange(self._stored(question)))

    async def answer(
        self,
        owner: str,
        thread_id: str,
        question_id: str,
        answer: thread_pb2.Message,
        record: evidence_pb2.AnswerRecord,
        *,
        answered: tuple[RequestClaim, pb.AnswerResponse] | None = None,
    ) -> None:
        self.answering.set()
        if self.blocked is not None:
            await self.blocked.wait()
        self._change()
        thread = self._find(owner, thread_id)
        thread.update_time = self._now
        (exchange,) = [each for each in thread.exchanges if each.question.message_id == question_id]
        exchange.answer = self._stored(answer)
        exchange.record = record
        if answered is not None:
            claim, response = answered
            known = self._claims.get((claim.owner, claim.request_id))
            if known is not None and known.claim == claim:
                known.answered = response
                known.expire_time = self._now + timedelta(seconds=REPLAY_SECONDS)

    async def get(self, owner: str, thread_id: str) -> thread_pb2.Thread:
        return self._thread(thread_id, self._find(owner, thread_id))

    async def messages(
        self, owner: str, principals: Sequence[str], thread_id: str, *, after: int, limit: int
    ) -> Sequence[tuple[int, thread_pb2.Message]]:
        messages = enumerate(self._find(owner, thread_id).messages)
        return [(index, self._shown(message)) for index, message in messages if index > after][:limit]

    async def answers(
        self, owner: str, principals: Sequence[str], thread_id: str, message_id: str, *, limit: int
    ) -> Sequence[StoredAnswer]:
        found = []
        for each in self._find(owner, thread_id).exchanges:
            if each.answer is not None and message_id in ("", each.answer.message_id):
                shown = self._shown(each.answer)
                found.append(StoredAnswer(each.question, shown, None if shown.is_withheld else each.record))
        if message_id and not found:
            raise NotFoundError("MESSAGE_NOT_FOUND", "no such answer")
        return found[:limit]

    async def threads(
        self, owner: str, *, before: tuple[bool, datetime, str] | None, limit: int
    ) -> Sequence[thread_pb2.Thread]:
        own = [
            self._thread(thread_id, thread)
            for thread_id, thread in self._threads.items()
            if thread.owner == owner
        ]
        own.sort(key=_place, reverse=True)
        return [thread for thread in own if before is None or _place(thread) < before][:limit]

    async def update(
        self, owner: str, thread_id: str, *, title: str | None, is_pinned: bool | None
    ) -> thread_pb2.Thread:
        thread = self._find(owner, thread_id)
        thread.title = thread.title if title is None else title
        thread.is_pinned = thread.is_pinned if is_pinned is None else is_pinned
        return self._thread(thread_id, thread)

    async def rate(
        self, owner: str, thread_id: str, message_id: str, feedback: thread_pb2.Feedback
    ) -> thread_pb2.Feedback | None:
        exchanges = self._find(owner, thread_id).exchanges
        for answer in (each.answer for each in exchanges if each.answer is not None):
            if answer.message_id == message_id:
                answer.ClearField("feedback")
                if not feedback.rating:
                    return None
                answer.feedback.CopyFrom(feedback)
                answer.feedback.update_time.FromDatetime(self._now)
                return answer.feedback
        raise NotFoundError("MESSAGE_NOT_FOUND", f"no such answer in the thread: {message_id}")

    async def delete(self, owner: str, thread_id: str) -> None:
        self._find(owner, thread_id)
        del self._threads[thread_id]

    async def expire(self, unused_seconds: float, limit: int) -> int:
        until = self._now - timedelta(seconds=unused_seconds)
        unused = [name for name, thread in self._threads.items() if thread.update_time < until][:limit]
        for name in unused:
            del self._threads[name]
        return len(unused)

    def pass_time(self, seconds: float) -> None:
        """Move the clock on."""
        self._now += timedelta(seconds=seconds)

    def _change(self) -> None:
        if self.error is not None:
            raise self.error
        self._now += timedelta(seconds=1)

    def _stored(self, message: thread_pb2.Message) -> thread_pb2.Message:
        stored = thread_pb2.Message()
        stored.create_time.FromDatetime(self._now)
        stored.MergeFrom(message)
        return stored

    def _shown(self, message: thread_pb2.Message) -> thread_pb2.Message:
        shown = thread_pb2.Message()
        shown.CopyFrom(message)
        if self.hidden.intersection(rests_on(message)):
            shown.is_withheld = True
            shown.content = ""
            shown.ClearField("citations")
            if shown.HasField("feedback"):
                shown.feedback.ClearField("comment")
        del shown.sources[:]
        shown.sources.extend(each for each in message.sources if each.document_id not in self.hidden)
        _without_texts(shown.sources, shown.citations)
        return shown

    def _find(self, owner: str, thread_id: str) -> _Conversation:
        thread = self._threads.get(thread_id)
        if thread is None or thread.owner != owner:
            raise NotFoundError("THREAD_NOT_FOUND", f"no such thread: {thread_id}")
        return thread

    @staticmethod
    def _thread(thread_id: str, thread: _Conversation) -> thread_pb2.Thread:
        found = thread_pb2.Thread(
            thread_id=thread_id,
            title=thread.title,
            message_count=len(thread.messages),
            is_pinned=thread.is_pinned,
        )
        found.create_time.FromDatetime(thread.create_time)
        found.update_time.FromDatetime(thread.update_time)
        return found


def _place(thread: thread_pb2.Thread) -> tuple[bool, datetime, str]:
    return thread.is_pinned, thread.update_time.ToDatetime(UTC), thread.thread_id
