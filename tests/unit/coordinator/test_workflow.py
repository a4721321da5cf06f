import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pytest
from groundline_coordinator.domain import (
    ArmScore,
    Collection,
    Completed,
    Degradation,
    Delta,
    Event,
    FinishReason,
    GenerationLimits,
    HistoryMessage,
    Question,
    Retrieval,
    Rewrite,
    RewritingMode,
    Search,
    SourcesFound,
    Stage,
    StageBegan,
    Started,
    Timing,
    Usage,
)
from groundline_coordinator.service import ChatService, Limits, ThreadService
from groundline_runtime.context import Caller, acting_as
from groundline_runtime.errors import (
    AbortedError,
    DeadlineExceededError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
)
from groundline_tests.coordinator import (
    FakeCatalog,
    FakeGenerator,
    FakeReranker,
    FakeRetriever,
    FakeThreads,
    FoundCandidate,
    make_chunk,
)

DOWN = UnavailableError("UNAVAILABLE", "down")
FOUND = Retrieval(
    candidates=(
        FoundCandidate(make_chunk("1", "Alpha."), keyword=ArmScore(1, 9.0)),
        FoundCandidate(make_chunk("2", "Beta."), semantic=ArmScore(2, 0.5)),
        FoundCandidate(make_chunk("3", "Gamma."), keyword=ArmScore(2, 8.0), semantic=ArmScore(1, 0.9)),
    ),
    timings=(Timing("embedding", 3.0),),
)


@dataclass
class World:
    """The workflow among fakes: one collection, three candidates, an answer in two pieces."""

    retriever: FakeRetriever = field(default_factory=lambda: FakeRetriever(FOUND))
    reranker: FakeReranker = field(default_factory=FakeReranker)
    generator: FakeGenerator = field(default_factory=lambda: FakeGenerator("Alpha ", "it is. [1]"))
    catalog: FakeCatalog = field(default_factory=FakeCatalog)
    threads: FakeThreads = field(default_factory=FakeThreads)
    events: list[Event] = field(default_factory=list)
    timeout: float = 10.0

    def __post_init__(self) -> None:
        self.catalog.add(Collection("docs"))

    @cached_property
    def service(self) -> ChatService:
        return ChatService(
            retriever=self.retriever,
            reranker=self.reranker,
            generator=self.generator,
            catalog=self.catalog,
            threads=self.threads,
            limits=Limits(
                rewrite_timeout_seconds=self.timeout,
                retrieve_timeout_seconds=self.timeout,
                rerank_timeout_seconds=self.timeout,
                weak_similarity=0.3,
                store_timeout_seconds=self.timeout,
                history_messages=4,
                history_tokens=11,
                default_timeout_seconds=60,
            ),
        )

    async def chat(self, question: Question) -> Sequence[Event]:
        self.events.clear()

        async def emit(event: Event) -> None:
            self.events.append(event)

        service = self.service
        await service.chat(await service.begin(question), emit)
        return self.events

    def only[E](self, kind: type[E]) -> E:
        (event,) = [event for event in self.events if isinstance(event, kind)]
        return event


def question(query: str = "What is alpha?", **fields: object) -> Question:
    search = {name: fields.pop(name) for name in ("collection_ids", "retrieval", "rerank") if name in fields}
    return Question(Search(query, **search), **fields)  # type: ignore[arg-type]


async def cancelled_at(step: FakeRetriever | FakeReranker | FakeGenerator, world: World) -> None:
    """A chat whose caller goes away while `step` hangs."""
    task = asyncio.create_task(world.chat(question()))
    await step.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.service.settle()


async def test_an_unknown_collection_is_refused_before_anything_begins() -> None:
    world = World()
    with pytest.raises(NotFoundError) as failure:
        await world.chat(question(collection_ids=("docs", "secret")))
    assert failure.value.reason == "COLLECTION_NOT_FOUND"
    assert "secret" in failure.value.message
    assert world.events == []


async def test_a_collection_of_others_does_not_exist() -> None:
    world = World()
    world.catalog.add(Collection("staff"), readers=("group:staff",))
    with pytest.raises(NotFoundError):
        await world.chat(question(collection_ids=("staff",)))
    with acting_as(Caller(("user:a", "group:staff"))):
        await world.chat(question(collection_ids=("staff",)))


async def test_a_thread_of_others_does_not_exist() -> None:
    world = World()
    with acting_as(Caller(("user:alice",))):
        await world.chat(question())
    thread_id = world.only(Started).thread_id
    with acting_as(Caller(("user:bob",))), pytest.raises(NotFoundError) as failure:
        await world.chat(question(thread_id=thread_id))
    assert failure.value.reason == "THREAD_NOT_FOUND"
    assert world.events == []


async def test_a_thread_must_be_the_callers_even_with_a_history_of_its_own() -> None:
    with pytest.raises(NotFoundError):
        await World().chat(
            question(thread_id=str(uuid.uuid4()), chat_history=(HistoryMessage("user", "hi"),))
        )


async def test_without_the_retriever_there_is_no_answer() -> None:
    world = World()
    world.retriever.error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question())
    assert [type(event) for event in world.events] == [Started, StageBegan]


async def test_a_late_retriever_costs_no_more_than_its_share() -> None:
    world = World(timeout=0.01)
    world.retriever.hangs = True
    with pytest.raises(DeadlineExceededError):
        await world.chat(question())
    assert world.retriever.cancelled


async def test_without_the_reranker_the_semantic_order_stands_and_is_declared() -> None:
    world = World()
    world.reranker.error = DOWN
    await world.chat(question(rerank={"topK": 1}))
    assert [source.chunk_id for source in world.only(SourcesFound).sources] == ["3"]
    (degradation,) = world.only(Completed).degraded
    assert (degradation.component, degradation.reason) == ("reranker", "RERANKER_UNAVAILABLE")


async def test_without_reranker_and_semantic_arm_the_keyword_order_stands() -> None:
    world = World(
        retriever=FakeRetriever(
            Retrieval(
                (
                    FoundCandidate(make_chunk("10"), keyword=ArmScore(2, 3.0)),
                    FoundCandidate(make_chunk("9"), keyword=ArmScore(1, 4.0)),
                ),
                degraded=(Degradation("semantic_arm", "DEADLINE_EXCEEDED", "late"),),
            )
        )
    )
    world.reranker.error = DOWN
    await world.chat(question())
    assert [source.chunk_id for source in world.only(SourcesFound).sources] == ["9", "10"]
    assert [d.component for d in world.only(Completed).degraded] == ["semantic_arm", "reranker"]


async def test_a_late_reranker_is_left_behind() -> None:
    world = World(timeout=0.01)
    world.reranker.hangs = True
    await world.chat(question())
    assert world.reranker.cancelled
    assert [d.reason for d in world.only(Completed).degraded] == ["RERANKER_UNAVAILABLE"]


async def test_a_request_that_the_reranker_calls_wrong_is_not_papered_over() -> None:
    world = World()
    world.reranker.error = InvalidArgumentError([FieldViolation("options.rrf_k", "must be 1 to 1000")])
    with pytest.raises(InvalidArgumentError):
        await world.chat(question())


async def test_a_generator_that_fails_midway_ends_the_request_and_stores_nothing() -> None:
    world = World()
    world.generator.error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question())
    assert isinstance(world.events[-1], Delta)
    assert (await ThreadService(world.threads).list(10, "")).items == []


async def test_cancelling_reaches_the_step_that_runs() -> None:
    for step in ("retriever", "reranker", "generator"):
        world = World()
        fake = getattr(world, step)
        fake.hangs = True
        await cancelled_at(fake, world)
        assert fake.cancelled, step


async def test_what_was_said_until_the_caller_went_away_is_stored_as_cancelled() -> None:
    world = World()
    world.generator.hangs = True
    await cancelled_at(world.generator, world)
    _, page = await ThreadService(world.threads).get(world.only(Started).thread_id, 10, "")
    asked, partial = page.items
    assert asked.content == "What is alpha?"
    assert (partial.content, partial.finish_reason) == ("Alpha it is. [1]", FinishReason.CANCELLED)
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
    await world.threads.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    blocked.set()
    await world.service.settle()
    _, page = await ThreadService(world.threads).get(world.only(Started).thread_id, 10, "")
    assert [message.finish_reason for message in page.items] == [None, FinishReason.STOP]


async def test_an_answer_that_cannot_be_stored_is_degraded_not_lost() -> None:
    world = World()
    world.threads.error = UnavailableError("DATABASE_UNAVAILABLE", "down")
    await world.chat(question())
    (degradation,) = world.only(Completed).degraded
    assert (degradation.component, degradation.reason) == ("history", "DATABASE_UNAVAILABLE")


async def test_nothing_readable_is_answered_honestly_without_searching() -> None:
    world = World()
    world.catalog = FakeCatalog()
    await world.chat(question())
    assert world.only(SourcesFound).sources == []
    assert world.only(Completed).generated.finish_reason is FinishReason.NO_ANSWER
    assert world.retriever.calls == []
    found = await world.service.search(Search("alpha"))
    assert found.searched.ranking.passages == ()


async def test_events_come_in_order() -> None:
    world = World()
    events = await world.chat(question())
    assert [event.stage if isinstance(event, StageBegan) else type(event) for event in events] == [
        Started,
        Stage.RETRIEVING,
        Stage.RERANKING,
        SourcesFound,
        Stage.GENERATING,
        Delta,
        Delta,
        Completed,
    ]
    assert [timing.stage for timing in world.only(Completed).timings] == [
        "retrieving",
        "retrieving.embedding",
        "reranking",
        "generating",
        "generating.first_token",
    ]


async def test_sources_are_numbered_as_the_generator_sees_them() -> None:
    world = World()
    await world.chat(question())
    sources = world.only(SourcesFound).sources
    (call,) = world.generator.calls
    assert [(s.number, s.chunk_id) for s in sources] == [(p.number, p.chunk_id) for p in call.passages]
    assert [p.similarity for p in call.passages] == [None, 0.5, 0.9]


async def test_a_collections_defaults_apply_and_a_request_overrides_them() -> None:
    world = World()
    world.catalog.add(
        Collection(
            "docs",
            rerank={"topK": 1, "weights": {"semantic": 1.0, "vector": 0.5}},
            generation={"model": "m", "temperature": 0.5},
        )
    )
    await world.chat(question(rerank={"weights": {"vector": 0.9}}, generation={"temperature": 0.0}))
    assert world.reranker.calls[0][2] == {"topK": 1, "weights": {"semantic": 1.0, "vector": 0.9}}
    assert world.generator.calls[0].options == {"model": "m", "temperature": 0.0}


async def test_several_collections_give_no_defaults() -> None:
    world = World()
    world.catalog.add(Collection("docs", rerank={"topK": 1}))
    world.catalog.add(Collection("more", rerank={"topK": 2}))
    await world.chat(question())
    assert world.reranker.calls[0][2] == {}


async def test_question_and_answer_are_stored_together() -> None:
    world = World()
    await world.chat(question("What  is alpha?"))
    started = world.only(Started)
    thread, page = await ThreadService(world.threads).get(started.thread_id, 10, "")
    assert (thread.title, thread.message_count) == ("What  is alpha?", 2)
    user, assistant = page.items
    assert (user.role, user.content) == ("user", "What  is alpha?")
    assert (assistant.message_id, assistant.content) == (started.message_id, "Alpha it is. [1]")
    assert len(assistant.sources) == 3
    assert assistant.finish_reason is FinishReason.STOP


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
    given = (HistoryMessage("user", "from elsewhere"),)
    await world.chat(question("second", thread_id=world.only(Started).thread_id, chat_history=given))
    assert world.generator.calls[1].chat_history == [*given]


async def test_answer_and_search_do_the_same_work() -> None:
    world = World()
    answered = await world.service.answer(question(additional_context="on page 3"))
    assert answered.answer == "Alpha it is. [1]"
    assert [source.chunk_id for source in answered.sources] == ["1", "2", "3"]
    assert world.generator.calls[0].additional_context == "on page 3"
    found = await world.service.search(Search("alpha", rerank={"topK": 2}))
    assert [passage.chunk.chunk_id for passage in found.searched.ranking.passages] == ["1", "2"]
    assert [timing.stage for timing in found.timings] == [
        "retrieving",
        "retrieving.embedding",
        "reranking",
    ]


async def test_a_follow_up_is_searched_and_answered_as_what_it_became() -> None:
    world = World()
    await world.chat(question())
    world.generator.rewrites["And beta?"] = Rewrite("What is beta?", (), "rules", Usage(3, 1, 2))
    events = await world.chat(question("And beta?", thread_id=world.only(Started).thread_id))
    assert [event for event in events if isinstance(event, StageBegan)][:2] == [
        StageBegan(Stage.REWRITING),
        StageBegan(Stage.RETRIEVING, "What is beta?", rewriting_model="rules"),
    ]
    assert world.retriever.queries == ["What is alpha?", "What is beta?"]
    assert world.reranker.calls[-1][0] == "What is beta?"
    assert world.generator.calls[-1].query == "What is beta?"
    completed = world.only(Completed)
    assert completed.generated.usage == Usage(13, 1, 7)
    assert completed.timings[0].stage == "rewriting"
    _, page = await ThreadService(world.threads).get(world.only(Started).thread_id, 10, "")
    assert page.items[2].content == "And beta?"


async def test_a_complex_question_is_searched_in_parts_and_ranked_once() -> None:
    world = World()
    asked = "What is alpha and what is beta?"
    world.generator.rewrites[asked] = Rewrite(asked, ("What is alpha?", "What is beta?"))
    answered = await world.service.answer(question(asked))
    assert world.retriever.queries == [asked, "What is alpha?", "What is beta?"]
    ((ranked_for, sets, _),) = world.reranker.calls
    assert (ranked_for, [each.query for each in sets]) == (asked, world.retriever.queries)
    assert (answered.rewritten_query, answered.sub_queries) == ("", ("What is alpha?", "What is beta?"))


async def test_a_part_that_cannot_be_searched_for_is_declared() -> None:
    world = World()
    asked = "Compare alpha and beta."
    world.generator.rewrites[asked] = Rewrite(asked, ("What is beta?",))
    world.retriever.by_query["What is beta?"] = DOWN
    await world.chat(question(asked))
    (degradation,) = world.only(Completed).degraded
    assert (degradation.component, degradation.reason) == ("retrieval", "SEARCH_INCOMPLETE")


async def test_no_part_that_can_be_searched_for_is_an_error() -> None:
    world = World()
    asked = "Compare alpha and beta."
    world.generator.rewrites[asked] = Rewrite(asked, ("What is beta?",))
    world.retriever.error = DOWN
    with pytest.raises(UnavailableError):
        await world.chat(question(asked))


@pytest.mark.parametrize(
    "failure", [UnimplementedError("NOT_IMPLEMENTED", "later"), UnavailableError("UNAVAILABLE", "down")]
)
async def test_without_rewriting_the_question_is_searched_as_it_is(failure: Exception) -> None:
    world = World()
    world.generator.rewrites["Compare alpha and beta."] = failure
    await world.chat(question("Compare alpha and beta."))
    assert world.retriever.queries == ["Compare alpha and beta."]
    (degradation,) = world.only(Completed).degraded
    assert (degradation.component, degradation.reason) == ("rewriting", "REWRITING_UNAVAILABLE")


WEAK = Retrieval((FoundCandidate(make_chunk("7"), semantic=ArmScore(1, 0.1)),))


async def test_a_weak_search_is_repeated_once_with_the_question_rewritten() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    world.generator.rewrites["What is alpha?"] = Rewrite("Which letter is alpha?")
    events = await world.chat(question())
    assert [event.stage for event in events if isinstance(event, StageBegan)] == [
        Stage.RETRIEVING,
        Stage.REWRITING,
        Stage.RETRIEVING,
        Stage.RERANKING,
        Stage.GENERATING,
    ]
    assert world.retriever.queries == ["What is alpha?", "Which letter is alpha?"]
    (ranked_for, sets, _) = world.reranker.calls[0]
    assert (ranked_for, len(sets)) == ("Which letter is alpha?", 2)


async def test_a_weak_search_for_a_rewritten_question_is_repeated_as_it_was_asked() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    world.generator.rewrites["Why alpha?"] = Rewrite("Why is it called alpha?")
    given = (HistoryMessage("user", "What is beta?"),)
    await world.chat(question("Why alpha?", chat_history=given))
    assert world.retriever.queries == ["Why is it called alpha?", "Why alpha?"]
    assert len(world.generator.rewrite_calls) == 1


async def test_a_weak_search_that_nothing_can_be_changed_about_is_not_repeated() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    await world.chat(question())
    assert len(world.retriever.calls) == 1
    assert world.only(Completed).degraded == ()


async def test_a_repetition_that_fails_leaves_what_was_found() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    world.generator.rewrites["What is alpha?"] = Rewrite("Which letter is alpha?")
    world.retriever.by_query["Which letter is alpha?"] = DOWN
    await world.chat(question())
    assert [source.chunk_id for source in world.only(SourcesFound).sources] == ["7"]
    assert [each.reason for each in world.only(Completed).degraded] == ["SEARCH_INCOMPLETE"]


async def test_switched_off_nothing_is_rewritten() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    await world.chat(question("Compare alpha and beta.", rewriting=RewritingMode.OFF))
    assert world.generator.rewrite_calls == []
    await world.service.search(Search("Compare alpha and beta."))
    assert world.generator.rewrite_calls == []


@pytest.mark.parametrize(
    ("step", "group"), [("retriever", "retrieval"), ("reranker", "rerank"), ("generator", "generation")]
)
async def test_a_services_complaint_names_the_field_of_the_request(step: str, group: str) -> None:
    world = World()
    violations = [FieldViolation("options.model", "is unknown"), FieldViolation("query", "is odd")]
    for error in (
        InvalidArgumentError(violations),
        UnimplementedError("OPTION_NOT_AVAILABLE", "x", violations=violations),
    ):
        getattr(world, step).error = error
        with pytest.raises(type(error)) as failure:
            await world.chat(question())
        assert [each.field for each in failure.value.violations] == [f"options.{group}.model", "query"]
        assert failure.value.message == f"options.{group}.model: is unknown; query: is odd"


async def test_what_a_collection_does_not_allow_is_refused_before_anything_begins() -> None:
    world = World()
    limits = GenerationLimits(max_temperature=0.5, max_top_k=5)
    world.catalog.add(Collection("strict", limits=limits))
    world.catalog.add(Collection("other"))
    with pytest.raises(InvalidArgumentError) as failure:
        await world.chat(question(rerank={"topK": 6}, generation={"temperature": 0.6}))
    assert [each.field for each in failure.value.violations] == [
        "options.generation.temperature",
        "options.rerank.top_k",
    ]
    assert "strict" in failure.value.message
    assert world.events == []
    with pytest.raises(InvalidArgumentError):
        await world.service.search(Search("q", ("strict",), rerank={"topK": 6}))
    await world.chat(question(collection_ids=("other",), rerank={"topK": 6}))


async def test_the_same_request_replays_the_stored_answer() -> None:
    world = World()
    first = await world.service.answer(question(request_id="r", fingerprint=b"1"))
    await world.chat(question(request_id="r", fingerprint=b"1"))
    assert world.events == [
        first.started,
        SourcesFound(first.sources),
        Delta(first.answer),
        first.completed,
    ]
    assert await world.service.answer(question(request_id="r", fingerprint=b"1")) == first
    assert len(world.generator.calls) == 1
    (thread,) = (await ThreadService(world.threads).list(10, "")).items
    assert thread.message_count == 2


async def test_a_replay_shows_what_was_searched_for() -> None:
    world = World()
    asked = "Compare alpha and beta."
    world.generator.rewrites[asked] = Rewrite("Compare a and b.", ("a", "b"))
    await world.service.answer(question(asked, request_id="r"))
    await world.chat(question(asked, request_id="r"))
    assert world.only(StageBegan) == StageBegan(Stage.RETRIEVING, "Compare a and b.", ("a", "b"))


async def test_a_request_id_belongs_to_its_caller_and_request_for_a_time() -> None:
    world = World()
    await world.chat(question(request_id="r", fingerprint=b"1"))
    with pytest.raises(InvalidArgumentError) as failure:
        await world.chat(question("other", request_id="r", fingerprint=b"2"))
    assert failure.value.reason == "REQUEST_ID_REUSED"
    with acting_as(Caller(("user:bob",))):
        await world.chat(question(request_id="r", fingerprint=b"2"))
    world.threads.pass_time(600)
    await world.chat(question("other", request_id="r", fingerprint=b"2"))
    assert len(world.generator.calls) == 3


async def test_a_request_that_is_still_under_way_is_not_done_twice() -> None:
    world = World()
    world.generator.hangs = True
    task = asyncio.create_task(world.chat(question(request_id="r")))
    await world.generator.reached.wait()
    with pytest.raises(AbortedError) as failure:
        await world.service.answer(question(request_id="r"))
    assert (failure.value.reason, failure.value.retry_after_seconds) == ("REQUEST_UNDER_WAY", 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.service.settle()
    world.generator.hangs = False
    await world.service.answer(question(request_id="r"))
    assert len(world.generator.calls) == 2


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
