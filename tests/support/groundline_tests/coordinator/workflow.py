"""A coordinator's workflow over fakes that a test sets."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
from groundline.v1 import chat_pb2, passage_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.service.chats import ChatLimits, ChatService
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_coordinator.service.searching import Event
from groundline_coordinator.service.threads import ThreadService
from groundline_runtime.context import Caller
from groundline_runtime.errors import UnavailableError
from groundline_runtime.paging import PageTokens
from groundline_tests.coordinator.fakes import (
    FakeCatalog,
    FakeGenerator,
    FakeQuotas,
    FakeRetriever,
    FakeThreads,
    collection,
    found,
    make_chunk,
)

Started, Status = chat_pb2.ChatStarted, chat_pb2.ChatStatus
Sources, Completed = chat_pb2.ChatSources, chat_pb2.ChatCompleted
REWRITING, RETRIEVING = passage_pb2.STAGE_REWRITING, passage_pb2.STAGE_RETRIEVING
RERANKING, GENERATING = passage_pb2.STAGE_RERANKING, passage_pb2.STAGE_GENERATING
NOBODY = Caller()
DOWN = UnavailableError("UNAVAILABLE", "down")


FOUND = found(
    (1, 0.9),
    (3, 0.8),
    (2, 0.5),
    timings=[
        passage_pb2.StageTiming(stage=stage, duration_ms=3)
        for stage in (RETRIEVING, passage_pb2.STAGE_EMBEDDING, RERANKING, passage_pb2.STAGE_FETCHING)
    ],
)


TEXTS = {1: "Alpha.", 2: "Beta.", 3: "Gamma."}


@dataclass
class World:
    """The workflow among fakes: a collection, three passages, an answer in pieces."""

    retriever: FakeRetriever = field(default_factory=lambda: FakeRetriever(FOUND))
    generator: FakeGenerator = field(default_factory=lambda: FakeGenerator("Alpha ", "it is. [1]"))
    catalog: FakeCatalog = field(default_factory=FakeCatalog)
    threads: FakeThreads = field(default_factory=FakeThreads)
    quota_limits: QuotaLimits = field(default_factory=QuotaLimits)
    events: list[Event | str] = field(default_factory=list)
    timeout: float = 10.0

    def __post_init__(self) -> None:
        self.catalog.add(collection("docs"))
        self.retriever.chunks = {number: make_chunk(number, text) for number, text in TEXTS.items()}

    @cached_property
    def used(self) -> FakeQuotas:
        return FakeQuotas(self.threads)

    @cached_property
    def service(self) -> ChatService:
        return ChatService(
            retriever=self.retriever,
            generator=self.generator,
            catalog=self.catalog,
            threads=self.threads,
            quotas=CallerQuotas(self.used, self.quota_limits),
            limits=ChatLimits(
                rewrite_timeout_seconds=self.timeout,
                search_timeout_seconds=self.timeout,
                weak_similarity=0.3,
                store_timeout_seconds=self.timeout,
                history_messages=4,
                history_tokens=11,
            ),
            renewal_seconds=0.001,
        )

    async def chat(
        self, question: pb.ChatRequest, caller: Caller = NOBODY, after: str = ""
    ) -> Sequence[Event | str]:
        self.events.clear()

        async def emit(event: Event | str) -> None:
            self.events.append(event)

        service = self.service
        await service.chat(await service.begin(caller, question, after=after), emit)
        return self.events

    async def answer(self, question: pb.ChatRequest) -> pb.AnswerResponse:
        request = pb.AnswerRequest.FromString(question.SerializeToString())
        return await self.service.answer(NOBODY, request)

    async def messages(self, thread_id: str) -> pb.GetThreadResponse:
        request = pb.GetThreadRequest(thread_id=thread_id)
        return await ThreadService(self.threads, self.retriever, PageTokens(bytes(32))).get(NOBODY, request)

    async def all_threads(self) -> pb.ListThreadsResponse:
        return await ThreadService(self.threads, self.retriever, PageTokens(bytes(32))).list(
            NOBODY, pb.ListThreadsRequest()
        )

    def only[E](self, kind: type[E]) -> E:
        (event,) = [event for event in self.events if isinstance(event, kind)]
        return event

    def degraded(self) -> list[tuple[int, int]]:
        """Return components and reasons."""
        return [(each.component, each.reason) for each in self.only(Completed).degraded]


def question(query: str = "What is alpha?", **fields: Any) -> pb.ChatRequest:
    options: Any = {
        name: fields.pop(name)
        for name in ("retrieval", "rerank", "generation", "effort", "append_only")
        if name in fields
    }
    return pb.ChatRequest(query=query, options=options, **fields)


def said(content: str) -> chat_pb2.ChatMessage:
    return chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content=content)


async def cancelled_at(step: FakeRetriever | FakeGenerator, world: World, **fields: Any) -> None:
    """Run a chat whose caller goes away while `step` hangs."""
    task = asyncio.create_task(world.chat(question(**fields)))
    await step.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.service.settle()
