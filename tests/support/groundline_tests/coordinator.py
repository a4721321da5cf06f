"""Fakes of the ports, for tests: they keep to the ports' contracts and hold everything in memory."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from groundline_coordinator.domain import (
    Answered,
    ArmScore,
    CandidateSet,
    Chunk,
    Claim,
    Collection,
    Delta,
    Explanation,
    FinishReason,
    Generated,
    GenerationLimits,
    HistoryMessage,
    NumberedPassage,
    Options,
    Page,
    Passage,
    Ranking,
    Retrieval,
    Rewrite,
    StoredMessage,
    Thread,
    Usage,
    Validation,
)
from groundline_coordinator.ports import REPLAY_SECONDS
from groundline_runtime.errors import AbortedError, FieldViolation, InvalidArgumentError, NotFoundError

__all__ = [
    "FakeCatalog",
    "FakeGenerator",
    "FakeReranker",
    "FakeRetriever",
    "FakeThreads",
    "FoundCandidate",
    "make_chunk",
]


def make_chunk(chunk_id: str, text: str = "Some text.", **fields: object) -> Chunk:
    """A chunk with plausible values in the fields that are not given."""
    chunk = Chunk(
        chunk_id=chunk_id,
        document_id="5f0c1d6e-0000-4000-8000-000000000001",
        collection_id="docs",
        chunk_index=0,
        text=text,
        context="",
        title="Title",
        uri="docs/title.md",
        source_type="file",
        mime_type="text/markdown",
        start_offset=0,
        end_offset=len(text),
        metadata={},
        update_time=None,
    )
    return replace(chunk, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class FoundCandidate:
    """A Candidate."""

    chunk: Chunk
    keyword: ArmScore | None = None
    semantic: ArmScore | None = None
    neighbours: Sequence[Chunk] = ()


class _Step:
    """What the fake steps share: the next calls fail, or hang until cancelled."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False
        self.cancelled = False
        self.reached = asyncio.Event()

    async def _pass(self) -> None:
        self.reached.set()
        if self.error is not None:
            raise self.error
        if self.hangs:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled = True
                raise


class FakeRetriever(_Step):
    """A Retriever that finds what it was given: for a query by name, else always the same."""

    def __init__(self, retrieval: Retrieval | None = None) -> None:
        super().__init__()
        self.retrieval = retrieval or Retrieval()
        self.by_query: dict[str, Retrieval | Exception] = {}
        self.calls: list[tuple[str, Sequence[str], Options]] = []
        self.conditions: list[Mapping[str, Any]] = []

    @property
    def queries(self) -> list[str]:
        """What it was asked for so far."""
        return [query for query, _, _ in self.calls]

    async def retrieve(
        self, query: str, collection_ids: Sequence[str], options: Options, conditions: Mapping[str, Any]
    ) -> Retrieval:
        self.calls.append((query, collection_ids, options))
        self.conditions.append(conditions)
        await self._pass()
        found = self.by_query.get(query, self.retrieval)
        if isinstance(found, Exception):
            raise found
        return found


class FakeReranker(_Step):
    """A Reranker that keeps the candidates' order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Sequence[CandidateSet], Options]] = []

    async def rerank(self, query: str, sets: Sequence[CandidateSet], options: Options) -> Ranking:
        self.calls.append((query, sets, options))
        await self._pass()
        candidates = {each.chunk.chunk_id: each for found in sets for each in found.candidates}
        return Ranking(
            [
                Passage(
                    candidate.chunk,
                    1 / rank,
                    Explanation(candidate.keyword, candidate.semantic, final_score=1 / rank),
                )
                for rank, candidate in enumerate([*candidates.values()][: options.get("topK", 8)], start=1)
            ]
        )


@dataclass(frozen=True)
class GenerateCall:
    """What a FakeGenerator was asked."""

    query: str
    passages: Sequence[NumberedPassage]
    chat_history: Sequence[HistoryMessage]
    options: Options
    additional_context: str


class FakeGenerator(_Step):
    """A Generator that says its `pieces`; it fails or hangs after them. Without passages it refuses.

    A question becomes what `rewrites` says, else stays as it is.
    """

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = pieces
        self.calls: list[GenerateCall] = []
        self.said = 0
        self.rewrites: dict[str, Rewrite | Exception] = {}
        self.rewrite_calls: list[tuple[str, Sequence[HistoryMessage], int]] = []

    async def generate(
        self,
        query: str,
        passages: Sequence[NumberedPassage],
        chat_history: Sequence[HistoryMessage],
        options: Options,
        additional_context: str,
    ) -> AsyncGenerator[Delta | Generated]:
        self.calls.append(GenerateCall(query, passages, chat_history, options, additional_context))
        for piece in self.pieces if passages else ("I cannot answer.",):
            yield Delta(piece)
            self.said += 1
        await self._pass()
        yield Generated(
            finish_reason=FinishReason.STOP if passages else FinishReason.NO_ANSWER,
            usage=Usage(10, 0, 5),
            citations=(),
            validation=Validation(grounded=bool(passages)),
            model="fake",
        )

    async def rewrite(
        self, query: str, chat_history: Sequence[HistoryMessage], max_sub_queries: int
    ) -> Rewrite:
        self.rewrite_calls.append((query, chat_history, max_sub_queries))
        rewrite = self.rewrites.get(query, Rewrite(query))
        if isinstance(rewrite, Exception):
            raise rewrite
        return rewrite


@dataclass(frozen=True)
class _Restricted:
    collection: Collection
    readers: Sequence[str] = ()
    writers: Sequence[str] = ()


class FakeCatalog:
    """A CollectionCatalog."""

    def __init__(self) -> None:
        self._collections: dict[str, _Restricted] = {}

    def add(
        self, collection: Collection, *, readers: Sequence[str] = (), writers: Sequence[str] = ()
    ) -> None:
        self._collections[collection.collection_id] = _Restricted(collection, readers, writers)

    async def readable(
        self, principals: Sequence[str], collection_ids: Sequence[str]
    ) -> Sequence[Collection]:
        found = [
            each.collection
            for name, each in self._collections.items()
            if (not each.readers or {*each.readers, *each.writers} & set(principals))
            and (not collection_ids or name in collection_ids)
        ]
        if collection_ids:
            return found
        return [*found[:2], *(each for each in found[2:] if each.limits != GenerationLimits())]


@dataclass
class _Conversation:
    owner: str
    title: str
    create_time: datetime
    update_time: datetime
    messages: list[StoredMessage] = field(default_factory=list)


@dataclass
class _Claimed:
    claim: Claim
    expire_time: datetime
    answered: Answered | None = None

    def is_gone(self, threads: Mapping[str, _Conversation]) -> bool:
        return self.answered is not None and self.answered.started.thread_id not in threads


class FakeThreads:
    """A ThreadStore whose clock moves on by a second with every change.

    `error` fails what is stored, `blocked` holds it up until it is set.
    """

    def __init__(self) -> None:
        self._threads: dict[str, _Conversation] = {}
        self._claims: dict[tuple[str, str], _Claimed] = {}
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self.error: Exception | None = None
        self.blocked: asyncio.Event | None = None
        self.reached = asyncio.Event()

    async def claim(self, claim: Claim, lease_seconds: float) -> Answered | None:
        key = (claim.owner, claim.request_id)
        known = self._claims.get(key)
        if known is None or known.expire_time <= self._now or known.is_gone(self._threads):
            self._claims[key] = _Claimed(claim, self._now + timedelta(seconds=lease_seconds))
            return None
        if known.claim.fingerprint != claim.fingerprint:
            raise InvalidArgumentError(
                [FieldViolation("request_id", "was used for another request")], reason="REQUEST_ID_REUSED"
            )
        if known.answered is None:
            raise AbortedError("REQUEST_UNDER_WAY", "still under way", retry_after_seconds=1)
        return known.answered

    async def release(self, claim: Claim) -> None:
        known = self._claims.get((claim.owner, claim.request_id))
        if known is not None and known.claim == claim and known.answered is None:
            del self._claims[claim.owner, claim.request_id]

    async def history(self, owner: str, thread_id: str, limit: int) -> Sequence[HistoryMessage]:
        messages = self._find(owner, thread_id).messages[-limit:]
        return [HistoryMessage(message.role, message.content) for message in messages]

    async def append(
        self,
        owner: str,
        thread_id: str,
        title: str,
        messages: Sequence[StoredMessage],
        *,
        create: bool,
        answered: tuple[Claim, Answered] | None = None,
    ) -> None:
        self.reached.set()
        if self.blocked is not None:
            await self.blocked.wait()
        if self.error is not None:
            raise self.error
        self._now += timedelta(seconds=1)
        if create:
            self._threads[thread_id] = _Conversation(owner, title, self._now, self._now)
        thread = self._find(owner, thread_id)
        thread.update_time = self._now
        thread.messages.extend(replace(message, create_time=self._now) for message in messages)
        if answered is not None:
            claim, answer = answered
            known = self._claims.get((claim.owner, claim.request_id))
            if known is not None and known.claim == claim:
                known.answered = answer
                known.expire_time = self._now + timedelta(seconds=REPLAY_SECONDS)

    async def get(self, owner: str, thread_id: str) -> Thread:
        return self._thread(thread_id, self._find(owner, thread_id))

    async def messages(
        self, owner: str, thread_id: str, page_size: int, page_token: str
    ) -> Page[StoredMessage]:
        return self._page(self._find(owner, thread_id).messages, page_size, page_token)

    async def threads(self, owner: str, page_size: int, page_token: str) -> Page[Thread]:
        own = [
            self._thread(thread_id, thread)
            for thread_id, thread in self._threads.items()
            if thread.owner == owner
        ]
        own.sort(key=lambda thread: thread.update_time, reverse=True)
        return self._page(own, page_size, page_token)

    async def delete(self, owner: str, thread_id: str) -> None:
        self._find(owner, thread_id)
        del self._threads[thread_id]

    def pass_time(self, seconds: float) -> None:
        """Move the clock on."""
        self._now += timedelta(seconds=seconds)

    def _find(self, owner: str, thread_id: str) -> _Conversation:
        thread = self._threads.get(thread_id)
        if thread is None or thread.owner != owner:
            raise NotFoundError("THREAD_NOT_FOUND", f"no such thread: {thread_id}")
        return thread

    @staticmethod
    def _thread(thread_id: str, thread: _Conversation) -> Thread:
        return Thread(thread_id, thread.title, len(thread.messages), thread.create_time, thread.update_time)

    @staticmethod
    def _page[T](items: Sequence[T], page_size: int, page_token: str) -> Page[T]:
        try:
            start = int(page_token or 0)
        except ValueError:
            raise InvalidArgumentError(
                [FieldViolation("page_token", "is not a token of this list")]
            ) from None
        end = start + page_size
        return Page(items[start:end], str(end) if end < len(items) else "")
