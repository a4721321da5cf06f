"""The workflow of Chat and Answer, among fakes of its ports."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
from groundline.v1 import chat_pb2, collection_pb2, error_pb2, options_pb2, passage_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.domain.positions import Position
from groundline_coordinator.service import progress
from groundline_coordinator.service.chats import LEASE_SECONDS, ChatLimits, ChatService
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_coordinator.service.searching import Event
from groundline_coordinator.service.threads import ThreadService
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    AbortedError,
    DeadlineExceededError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
)
from groundline_runtime.paging import PageTokens
from groundline_runtime.serving.admission import Admission
from groundline_tests.coordinator import (
    FakeCatalog,
    FakeGenerator,
    FakeQuotas,
    FakeRetriever,
    FakeThreads,
    collection,
    found,
    make_chunk,
    rewrite,
)
from groundline_tests.metrics import Metrics

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


async def test_a_wait_for_the_language_model_is_shown_as_a_status() -> None:
    world = World()
    wait = chat_pb2.ModelWait(reason=error_pb2.PROVIDER_QUOTA_EXHAUSTED, duration_seconds=7)
    world.generator.waits = [wait]
    events = await world.chat(question())
    shown = events.index(Status(stage=GENERATING, waiting=wait))
    assert events.index(Status(stage=GENERATING)) < shown < events.index("Alpha ")


def question(query: str = "What is alpha?", **fields: Any) -> pb.ChatRequest:
    options: Any = {
        name: fields.pop(name)
        for name in ("retrieval", "rerank", "generation", "rewriting")
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


async def test_an_unknown_collection_is_refused_before_anything_begins() -> None:
    world = World()
    with pytest.raises(NotFoundError) as failure:
        await world.chat(question(collection_ids=["docs", "secret"]))
    assert failure.value.reason == "COLLECTION_NOT_FOUND"
    assert "secret" in failure.value.message
    assert world.events == []


async def test_a_collection_of_others_does_not_exist() -> None:
    world = World()
    world.catalog.add(collection("staff"), readers=("group:staff",))
    with pytest.raises(NotFoundError):
        await world.chat(question(collection_ids=["staff"]))
    await world.chat(question(collection_ids=["staff"]), Caller(("user:a", "group:staff")))


async def test_a_thread_of_others_does_not_exist() -> None:
    world = World()
    await world.chat(question(), Caller(("user:alice",)))
    thread_id = world.only(Started).thread_id
    with pytest.raises(NotFoundError) as failure:
        await world.chat(question(thread_id=thread_id), Caller(("user:bob",)))
    assert failure.value.reason == "THREAD_NOT_FOUND"
    assert world.events == []


async def test_a_thread_must_be_the_callers_even_with_a_history_of_its_own() -> None:
    with pytest.raises(NotFoundError):
        await World().chat(question(thread_id=str(uuid.uuid4()), chat_history=[said("hi")]))


async def test_without_the_retriever_there_is_no_answer() -> None:
    world = World()
    world.retriever.error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question())
    assert [type(event) for event in world.events] == [Started, Status]


async def test_what_must_be_seen_is_asked_of_the_retriever() -> None:
    world = World()
    await world.chat(question("what?", min_position="0000000003a1b2c8"))
    assert {call.min_position for call in world.retriever.calls} == {"0000000003a1b2c8"}


async def test_a_late_retriever_costs_no_more_than_its_share() -> None:
    world = World(timeout=0.01)
    world.retriever.hangs = True
    with pytest.raises(DeadlineExceededError):
        await world.chat(question())
    assert world.retriever.cancelled


@pytest.mark.parametrize("step", ["retriever", "generator"])
async def test_the_question_of_an_answer_that_fails_is_in_its_thread(step: str) -> None:
    world = World()
    getattr(world, step).error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question())
    stored = await world.messages(world.only(Started).thread_id)
    assert [message.content for message in stored.messages] == ["What is alpha?"]
    assert stored.thread.title == "What is alpha?"


async def test_a_question_without_an_answer_is_not_part_of_the_conversation() -> None:
    world = World()
    world.generator.error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question())
    world.generator.error = None
    await world.chat(question(thread_id=world.only(Started).thread_id))
    assert not world.generator.calls[-1].chat_history


async def test_the_question_is_stored_before_anything_is_found() -> None:
    world = World()
    world.retriever.hangs = True
    task = asyncio.create_task(world.chat(question()))
    await world.retriever.reached.wait()
    stored = await world.messages(world.only(Started).thread_id)
    assert [message.content for message in stored.messages] == ["What is alpha?"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.service.settle()


async def test_a_question_that_could_not_be_stored_at_first_is_stored_with_its_answer() -> None:
    world = World()
    await world.chat(question("Is it?"))
    world.threads.error = DOWN
    world.generator.hangs = True
    world.generator.reached.clear()
    again = question(thread_id=world.only(Started).thread_id)
    task = asyncio.create_task(world.chat(again))
    await world.generator.reached.wait()
    world.threads.error, world.generator.hangs = None, False
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.service.settle()
    stored = await world.messages(again.thread_id)
    assert [message.content for message in stored.messages[2:]] == ["What is alpha?", "Alpha it is. [1]"]


async def test_a_generator_that_fails_midway_ends_the_request() -> None:
    world = World()
    world.generator.error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question())
    assert world.events[-1] == "it is. [1]"


async def test_a_generators_answer_is_read_to_its_end() -> None:
    """A call that is broken off counts as its replica's failure, which then gets no more."""
    world = World()
    await world.chat(question())
    assert world.generator.read_to_the_end


async def test_cancelling_reaches_the_step_that_runs() -> None:
    for step in ("retriever", "generator"):
        world = World()
        fake = getattr(world, step)
        fake.hangs = True
        await cancelled_at(fake, world)
        assert fake.cancelled, step


async def test_what_was_said_until_the_caller_went_away_is_stored_as_cancelled() -> None:
    world = World()
    world.generator.hangs = True
    await cancelled_at(world.generator, world)
    asked, partial = (await world.messages(world.only(Started).thread_id)).messages
    assert asked.content == "What is alpha?"
    assert (partial.content, partial.finish_reason) == ("Alpha it is. [1]", chat_pb2.FINISH_REASON_CANCELLED)
    assert len(partial.sources) == 3


async def test_a_question_cancelled_before_a_word_was_said_is_kept_but_no_empty_history() -> None:
    world = World()
    world.retriever.hangs = True
    await cancelled_at(world.retriever, world)
    world.retriever.hangs = False
    await world.chat(question(thread_id=world.only(Started).thread_id))
    assert [m.content for m in world.generator.calls[0].chat_history] == ["What is alpha?"]


async def test_who_leaves_while_the_answer_is_stored_has_it_stored_whole() -> None:
    world = World()
    blocked = asyncio.Event()
    world.threads.blocked = blocked
    task = asyncio.create_task(world.chat(question()))
    await world.threads.answering.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    blocked.set()
    await world.service.settle()
    stored = (await world.messages(world.only(Started).thread_id)).messages
    assert [message.finish_reason for message in stored] == [
        chat_pb2.FINISH_REASON_UNSPECIFIED,
        chat_pb2.FINISH_REASON_STOP,
    ]


async def test_an_answer_that_cannot_be_stored_is_degraded_not_lost() -> None:
    world = World()
    world.threads.error = UnavailableError("DATABASE_UNAVAILABLE", "down")
    await world.chat(question())
    assert world.degraded() == [(passage_pb2.COMPONENT_HISTORY, error_pb2.DATABASE_UNAVAILABLE)]


async def test_the_figures_to_watch_of_answers_are_metrics() -> None:
    metrics = Metrics(progress._answers, progress._first_delta)
    world = World()
    await world.chat(question())
    completed = world.only(Completed)
    world.threads.error = UnavailableError("DATABASE_UNAVAILABLE", "down")
    await world.chat(question())
    points = metrics.points()
    same = {
        "finish_reason": chat_pb2.FinishReason.Name(completed.finish_reason),
        "grounded": completed.validation.grounded,
    }
    counted = [(point.attributes, point.value) for point in points["groundline.answers"]]
    assert counted == [(same | {"degraded": False}, 1), (same | {"degraded": True}, 1)]
    [delays] = points["groundline.answer.time_to_first_delta"]
    assert delays.count == 2


async def test_a_thread_that_cannot_be_stored_is_not_told_of() -> None:
    world = World()
    world.threads.error = UnavailableError("DATABASE_FULL", "the disk is full")
    await world.chat(question())
    assert world.only(Started).thread_id == ""
    assert world.degraded() == [(passage_pb2.COMPONENT_HISTORY, error_pb2.DATABASE_FULL)]
    world.threads.error = None
    assert not (await world.all_threads()).threads


async def test_a_thread_that_is_there_is_told_of_though_it_cannot_be_continued() -> None:
    world = World()
    await world.chat(question())
    thread_id = world.only(Started).thread_id
    world.threads.error = UnavailableError("DATABASE_FULL", "the disk is full")
    await world.chat(question(thread_id=thread_id))
    assert world.only(Started).thread_id == thread_id
    assert world.degraded() == [(passage_pb2.COMPONENT_HISTORY, error_pb2.DATABASE_FULL)]


@pytest.mark.parametrize("request_id", ["", "r"])
async def test_a_database_that_hangs_refuses_a_chat_before_it_begins(
    request_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: Any) -> None:
        await asyncio.Event().wait()

    world = World(timeout=0.01)
    monkeypatch.setattr(
        *((world.threads, "claim", hang) if request_id else (world.catalog, "readable", hang))
    )
    with pytest.raises(UnavailableError) as refused:
        async with asyncio.timeout(30):
            await world.chat(question(request_id=request_id))
    assert (refused.value.reason, refused.value.retry_after_seconds) == ("DATABASE_BUSY", 1.0)


async def test_nothing_readable_is_answered_honestly_without_searching() -> None:
    world = World()
    world.catalog = FakeCatalog()
    await world.chat(question())
    assert not world.only(Sources).sources
    assert world.only(Completed).finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER
    assert world.retriever.calls == []


async def test_events_come_in_order() -> None:
    world = World()
    events = await world.chat(question())
    assert [event.stage if isinstance(event, Status) else type(event) for event in events] == [
        Started,
        RETRIEVING,
        Sources,
        GENERATING,
        str,
        str,
        Completed,
    ]
    assert [timing.stage for timing in world.only(Completed).timings] == [
        RETRIEVING,
        passage_pb2.STAGE_EMBEDDING,
        RERANKING,
        passage_pb2.STAGE_FETCHING,
        GENERATING,
        passage_pb2.STAGE_FIRST_TOKEN,
    ]


async def test_sources_are_numbered_as_the_generator_sees_them() -> None:
    world = World()
    await world.chat(question())
    sources = world.only(Sources).sources
    (call,) = world.generator.calls
    assert [(s.number, s.chunk_id) for s in sources] == [(p.number, p.chunk_id) for p in call.passages]
    assert [p.similarity for p in call.passages] == pytest.approx([0.9, 0.8, 0.5])


async def test_a_collections_defaults_apply_and_a_request_overrides_them() -> None:
    world = World()
    world.catalog.add(collection("docs", generation={"model": "m", "temperature": 0.5}))
    await world.chat(question(rerank={"top_k": 3}, generation={"temperature": 0.0}))
    assert world.generator.calls[0].options == options_pb2.GenerationOptions(model="m", temperature=0.0)
    (search,) = world.retriever.calls
    assert search.options.rerank == options_pb2.RerankOptions(top_k=3), "the retriever knows the defaults"


async def test_several_collections_give_no_defaults() -> None:
    world = World()
    world.catalog.add(collection("docs", generation={"model": "m"}))
    world.catalog.add(collection("more", generation={"model": "n"}))
    await world.chat(question())
    assert world.generator.calls[0].options == options_pb2.GenerationOptions()


async def test_question_and_answer_are_stored_together() -> None:
    world = World()
    await world.chat(question("What  is alpha?"))
    started = world.only(Started)
    stored = await world.messages(started.thread_id)
    assert (stored.thread.title, stored.thread.message_count) == ("What  is alpha?", 2)
    user, assistant = stored.messages
    assert (user.role, user.content) == (chat_pb2.ChatMessage.USER, "What  is alpha?")
    assert (assistant.message_id, assistant.content) == (started.message_id, "Alpha it is. [1]")
    assert len(assistant.sources) == 3
    assert assistant.finish_reason == chat_pb2.FINISH_REASON_STOP


async def test_what_is_not_to_be_stored_begins_no_thread() -> None:
    world = World()
    await world.chat(question(store=False))
    assert world.only(Started).thread_id == ""
    assert world.only(Completed).finish_reason == chat_pb2.FINISH_REASON_STOP
    assert not (await world.all_threads()).threads


async def test_what_is_not_to_be_stored_leaves_nothing_when_it_is_cancelled() -> None:
    world = World()
    world.generator.hangs = True
    await cancelled_at(world.generator, world, store=False)
    assert not (await world.all_threads()).threads


async def test_a_thread_can_be_asked_about_without_adding_to_it() -> None:
    world = World()
    await world.chat(question("first"))
    thread_id = world.only(Started).thread_id
    await world.chat(question("second", thread_id=thread_id, store=False))
    assert [message.content for message in world.generator.calls[-1].chat_history]
    assert len((await world.messages(thread_id)).messages) == 2


async def test_a_follow_up_brings_the_threads_messages_within_their_bounds() -> None:
    world = World()
    await world.chat(question("first"))
    thread_id = world.only(Started).thread_id
    await world.chat(question("second", thread_id=thread_id))
    assert world.only(Started).thread_id == thread_id
    assert [m.content for m in world.generator.calls[1].chat_history] == ["first", "Alpha it is. [1]"]
    await world.chat(question("third", thread_id=thread_id))
    # The bound of 11 tokens leaves the oldest message out.
    assert [m.content for m in world.generator.calls[2].chat_history] == [
        "Alpha it is. [1]",
        "second",
        "Alpha it is. [1]",
    ]


async def test_a_history_in_the_request_replaces_the_stored_one() -> None:
    world = World()
    await world.chat(question("first"))
    given = [said("from elsewhere")]
    await world.chat(question("second", thread_id=world.only(Started).thread_id, chat_history=given))
    assert list(world.generator.calls[1].chat_history) == given


async def test_answer_does_the_same_work() -> None:
    world = World()
    answered = await world.answer(question(additional_context="on page 3"))
    assert answered.answer == "Alpha it is. [1]"
    assert [source.chunk_id for source in answered.sources] == ["1", "3", "2"]
    assert world.generator.calls[0].additional_context == "on page 3"


async def test_a_follow_up_is_searched_and_answered_as_what_it_became() -> None:
    world = World()
    await world.chat(question())
    world.generator.rewrites["And beta?"] = rewrite(
        "What is beta?",
        model="rules",
        usage=chat_pb2.Usage(prompt_tokens=3, cached_tokens=1, output_tokens=2),
    )
    events = await world.chat(question("And beta?", thread_id=world.only(Started).thread_id))
    assert [event for event in events if isinstance(event, Status)][:2] == [
        Status(stage=REWRITING),
        Status(stage=RETRIEVING, rewritten_query="What is beta?", rewriting_model="rules"),
    ]
    assert world.retriever.queries == [["What is alpha?"], ["What is beta?"]]
    assert world.generator.calls[-1].query == "What is beta?"
    completed = world.only(Completed)
    assert completed.usage == chat_pb2.Usage(prompt_tokens=13, cached_tokens=1, output_tokens=7)
    assert completed.timings[0].stage == REWRITING
    stored = (await world.messages(world.only(Started).thread_id)).messages
    assert stored[2].content == "And beta?"


async def test_a_complex_question_is_searched_in_parts_in_one_call() -> None:
    world = World()
    asked = "What is alpha and what is beta?"
    world.generator.rewrites[asked] = rewrite(asked, "What is alpha?", "What is beta?")
    answered = await world.answer(question(asked))
    assert world.retriever.queries == [[asked, "What is alpha?", "What is beta?"]]
    assert answered.rewritten_query == ""
    assert list(answered.sub_queries) == ["What is alpha?", "What is beta?"]


async def test_what_the_search_declares_is_declared_once() -> None:
    world = World()
    world.retriever.response = found(
        (7, 0.1), degraded=[passage_pb2.Degradation(component=passage_pb2.COMPONENT_KEYWORD_ARM)]
    )
    await world.chat(question())
    assert len(world.retriever.calls) == 2
    assert world.degraded() == [(passage_pb2.COMPONENT_KEYWORD_ARM, 0)]


@pytest.mark.parametrize(
    "failure", [UnimplementedError("NOT_IMPLEMENTED", "later"), UnavailableError("UNAVAILABLE", "down")]
)
async def test_without_rewriting_the_question_is_searched_as_it_is(failure: Exception) -> None:
    world = World()
    world.generator.rewrites["Compare alpha and beta."] = failure
    await world.chat(question("Compare alpha and beta."))
    assert world.retriever.queries == [["Compare alpha and beta."]]
    assert world.degraded() == [(passage_pb2.COMPONENT_REWRITING, error_pb2.REWRITING_UNAVAILABLE)]


WEAK = found((7, 0.1))


async def test_a_weak_search_is_repeated_once_with_the_question_rewritten() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    world.generator.rewrites["What is alpha?"] = rewrite("Which letter is alpha?")
    events = await world.chat(question())
    assert [event.stage for event in events if isinstance(event, Status)] == [
        RETRIEVING,
        REWRITING,
        RETRIEVING,
        GENERATING,
    ]
    assert world.retriever.queries == [["What is alpha?"], ["Which letter is alpha?", "What is alpha?"]]
    assert [call.HasField("weak_similarity") for call in world.retriever.calls] == [True, False]
    assert [source.chunk_id for source in world.only(Sources).sources] == ["7"]


async def test_a_weak_search_for_a_rewritten_question_is_repeated_as_it_was_asked_too() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    world.generator.rewrites["Why alpha?"] = rewrite("Why is it called alpha?")
    given = [said("What is beta?")]
    await world.chat(question("Why alpha?", chat_history=given))
    assert world.retriever.queries == [
        ["Why is it called alpha?"],
        ["Why is it called alpha?", "Why alpha?"],
    ]
    assert len(world.generator.rewrite_calls) == 1


async def test_a_weak_search_that_nothing_can_be_changed_about_gives_what_it_found() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    await world.chat(question())
    assert [source.chunk_id for source in world.only(Sources).sources] == ["7"]
    assert world.degraded() == []


async def test_switched_off_nothing_is_rewritten() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    await world.chat(question("Compare alpha and beta.", rewriting=options_pb2.REWRITING_MODE_OFF))
    assert world.generator.rewrite_calls == []
    assert [call.HasField("weak_similarity") for call in world.retriever.calls] == [False]


async def test_the_generators_complaint_names_the_field_of_the_request() -> None:
    world = World()
    violations = [FieldViolation("options.model", "is unknown"), FieldViolation("query", "is odd")]
    for error in (
        InvalidArgumentError(violations),
        UnimplementedError("OPTION_NOT_AVAILABLE", "x", violations=violations),
    ):
        world.generator.error = error
        with pytest.raises(type(error)) as failure:
            await world.chat(question())
        assert [each.field for each in failure.value.violations] == ["options.generation.model", "query"]
        assert failure.value.message == "options.generation.model: is unknown; query: is odd"


async def test_what_a_collection_does_not_allow_is_refused_before_anything_begins() -> None:
    world = World()
    limits = collection_pb2.GenerationLimits(max_temperature=0.5, max_top_k=5)
    world.catalog.add(collection("strict", generation_limits=limits))
    world.catalog.add(collection("other"))
    with pytest.raises(InvalidArgumentError) as failure:
        await world.chat(question(rerank={"top_k": 6}, generation={"temperature": 0.6}))
    assert [each.field for each in failure.value.violations] == [
        "options.generation.temperature",
        "options.rerank.top_k",
    ]
    assert "strict" in failure.value.message
    assert world.events == []
    await world.chat(question(collection_ids=["other"], rerank={"top_k": 6}))


async def test_the_same_request_replays_the_stored_answer() -> None:
    world = World()
    first = await world.answer(question(request_id="r"))
    await world.chat(question(request_id="r"))
    assert world.events == [
        Started(thread_id=first.thread_id, message_id=first.message_id),
        Sources(sources=first.sources),
        first.answer,
        first.completed,
    ]
    assert await world.answer(question(request_id="r")) == first
    assert len(world.generator.calls) == 1
    (thread,) = (await world.all_threads()).threads
    assert thread.message_count == 2


async def test_a_replay_goes_on_after_the_last_event_that_arrived() -> None:
    world = World()
    first = await world.answer(question(request_id="r"))
    began = Position.before(first.message_id).after(Started())
    with_sources = began.after(Sources())
    with_text = with_sources.after(first.answer[:4])

    await world.chat(question(request_id="r"), after=began.event_id)
    assert world.events == [Sources(sources=first.sources), first.answer, first.completed]
    await world.chat(question(request_id="r"), after=with_sources.event_id)
    assert world.events == [first.answer, first.completed]
    turn = await world.service.begin(NOBODY, question(request_id="r"), after=with_text.event_id)
    assert turn.position == with_text
    await world.chat(question(request_id="r"), after=with_text.event_id)
    assert world.events == [first.answer[4:], first.completed]
    assert len(world.generator.calls) == 1


@pytest.mark.parametrize("after", ["00000000-3-2", "nonsense", "3", "\u0661-1"])
async def test_what_arrived_of_another_answer_is_not_gone_on_with(after: str) -> None:
    world = World()
    first = await world.answer(question(request_id="r"))
    await world.chat(question(request_id="r"), after=after)
    assert world.only(Started).message_id == first.message_id
    assert first.answer in world.events


async def test_a_request_that_is_answered_anew_begins_with_its_start() -> None:
    world = World()
    position = Position.before("ab").after(Started()).after(Sources()).after("text")
    turn = await world.service.begin(NOBODY, question(), after=position.event_id)
    assert turn.position.sequence == 0


async def test_a_replay_shows_what_was_searched_for() -> None:
    world = World()
    asked = "Compare alpha and beta."
    world.generator.rewrites[asked] = rewrite("Compare a and b.", "a", "b", model="rules")
    await world.answer(question(asked, request_id="r"))
    await world.chat(question(asked, request_id="r"))
    assert world.only(Status) == Status(
        stage=RETRIEVING,
        rewritten_query="Compare a and b.",
        sub_queries=["a", "b"],
        rewriting_model="rules",
    )


async def test_a_request_id_belongs_to_its_caller_and_request_for_a_time() -> None:
    world = World()
    await world.chat(question(request_id="r"))
    with pytest.raises(InvalidArgumentError) as failure:
        await world.chat(question("other", request_id="r"))
    assert failure.value.reason == "REQUEST_ID_REUSED"
    await world.chat(question(request_id="r"), Caller(("user:bob",)))
    world.threads.pass_time(600)
    await world.chat(question("other", request_id="r"))
    assert len(world.generator.calls) == 3


async def test_a_request_that_is_still_under_way_is_not_done_twice() -> None:
    world = World()
    world.generator.hangs = True
    task = asyncio.create_task(world.chat(question(request_id="r")))
    await world.generator.reached.wait()
    with pytest.raises(AbortedError) as failure:
        await world.answer(question(request_id="r"))
    assert (failure.value.reason, failure.value.retry_after_seconds) == ("REQUEST_UNDER_WAY", 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.service.settle()
    world.generator.hangs = False
    await world.answer(question(request_id="r"))
    assert len(world.generator.calls) == 2


async def test_a_long_answers_request_id_stays_taken() -> None:
    world = World()
    world.generator.hangs = True
    task = asyncio.create_task(world.chat(question(request_id="r")))
    await world.generator.reached.wait()
    for _ in range(5):
        world.threads.pass_time(LEASE_SECONDS - 1)
        world.threads.renewed.clear()
        await world.threads.renewed.wait()
    with pytest.raises(AbortedError):
        await world.answer(question(request_id="r"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_request_whose_coordinator_died_is_done_anew_after_ten_seconds() -> None:
    world = World()
    await world.service.begin(NOBODY, question(request_id="r"))
    with pytest.raises(AbortedError):
        await world.answer(question(request_id="r"))
    world.threads.pass_time(10)
    await world.answer(question(request_id="r"))
    assert len(world.generator.calls) == 1


async def test_a_chat_gives_its_place_back_when_the_model_begins_to_write() -> None:
    world, admission = World(), Admission()
    world.generator.hangs = True

    async def chat() -> None:
        async with admission.place("Chat"):
            await world.chat(question())

    task = asyncio.create_task(chat())
    await world.generator.reached.wait()
    assert admission.under_way == 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_chat_asks_of_others_belongs_to_a_chat_that_has_begun() -> None:
    world = World()
    await world.chat(question())
    assert world.retriever.begun == [True]


async def test_a_request_that_failed_is_done_anew() -> None:
    world = World()
    world.generator.error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question(request_id="r"))
    await world.service.settle()
    world.generator.error = None
    await world.chat(question(request_id="r"))
    world.threads.error = DOWN
    await world.chat(question(request_id="s"))
    await world.service.settle()
    world.threads.error = None
    await world.chat(question(request_id="s"))
    assert len(world.generator.calls) == 4
    threads = (await world.all_threads()).threads
    assert [thread.message_count for thread in threads] == [2, 2]


async def test_options_that_are_wrong_with_a_collections_defaults_are_refused_by_the_requests_names() -> None:
    world = World()
    world.catalog.add(collection("docs", rerank={"semantic_weight": 0.0}))
    with pytest.raises(InvalidArgumentError) as failure:
        await world.chat(question(collection_ids=["docs"], rerank={"keyword_weight": 0.0}))
    assert [each.field for each in failure.value.violations] == ["options.rerank.semantic_weight"]
    assert world.events == []


# --- quotas ---


async def refused_quota(world: World, asked: pb.ChatRequest) -> Mapping[str, str]:
    with pytest.raises(ResourceExhaustedError) as failure:
        await world.chat(asked)
    assert failure.value.reason == "QUOTA_EXHAUSTED"
    assert world.events == []
    return failure.value.metadata


async def test_a_thread_beyond_the_quota_is_not_begun_and_others_go_on() -> None:
    world = World(quota_limits=QuotaLimits(threads=1))
    started = (await world.chat(question(request_id="r")))[0]
    assert isinstance(started, Started)
    assert await refused_quota(world, question()) == {"quota": "threads", "used": "1", "limit": "1"}
    await world.chat(question(thread_id=started.thread_id))
    await world.chat(question(store=False))
    # A retry gets its answer.
    assert (await world.chat(question(request_id="r")))[0].message_id == started.message_id  # type: ignore[union-attr]


async def test_a_request_that_a_quota_refused_may_be_sent_again() -> None:
    world = World(quota_limits=QuotaLimits(threads=1))
    started = (await world.chat(question()))[0]
    assert isinstance(started, Started)
    await refused_quota(world, question(request_id="r"))
    await world.threads.delete("", started.thread_id)
    assert isinstance((await world.chat(question(request_id="r")))[-1], Completed)


async def test_answers_end_with_the_days_tokens() -> None:
    world = World(quota_limits=QuotaLimits(tokens=20))
    for _ in range(2):
        await world.chat(question(store=False))
        await world.service.settle()
    assert world.used.tokens == {"": 30}
    refused = await refused_quota(world, question(store=False))
    assert refused == {"quota": "tokens", "used": "30", "limit": "20"}
