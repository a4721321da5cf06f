"""The workflow of Chat and Answer, among fakes of its ports."""

import asyncio
from typing import Any

import pytest
from groundline.v1 import chat_pb2, error_pb2, options_pb2, passage_pb2
from groundline_coordinator.metrics import ANSWERS, FIRST_DELTA
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from groundline_runtime.reasons import enum_label
from groundline_runtime.serving.admission import Admission
from groundline_tests.coordinator.fakes import FakeCatalog, FakeRetriever, collection, found, make_chunk
from groundline_tests.coordinator.workflow import (
    DOWN,
    GENERATING,
    RERANKING,
    RETRIEVING,
    Completed,
    Sources,
    Started,
    Status,
    World,
    question,
)
from groundline_tests.metrics import Metrics


async def test_a_wait_for_the_language_model_is_shown_as_a_status() -> None:
    world = World()
    wait = chat_pb2.ModelWait(reason=error_pb2.PROVIDER_QUOTA_EXHAUSTED, duration_seconds=7)
    world.generator.waits = [wait]
    events = await world.chat(question())
    shown = events.index(Status(stage=GENERATING, waiting=wait))
    assert events.index(Status(stage=GENERATING)) < shown < events.index("Alpha ")


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


async def test_a_question_about_the_past_searches_the_past_and_asks_no_tables_of_now() -> None:
    world = World()
    asked = question("what?")
    asked.as_of.FromJsonString("2026-03-01T00:00:00Z")
    await world.chat(asked)
    assert {call.as_of.ToJsonString() for call in world.retriever.calls} == {"2026-03-01T00:00:00Z"}
    assert not world.retriever.asked_tables


async def test_a_late_retriever_costs_no_more_than_its_share() -> None:
    world = World(timeout=0.01)
    world.retriever.hangs = True
    with pytest.raises(DeadlineExceededError):
        await world.chat(question())
    assert world.retriever.cancelled


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


async def test_the_figures_to_watch_of_answers_are_metrics() -> None:
    metrics = Metrics(ANSWERS, FIRST_DELTA)
    world = World()
    await world.chat(question())
    completed = world.only(Completed)
    world.threads.error = UnavailableError("DATABASE_UNAVAILABLE", "down")
    await world.chat(question())
    points = metrics.points()
    same = {
        "finish_reason": enum_label(chat_pb2.FinishReason, completed.finish_reason),
        "grounded": completed.validation.grounded,
    }
    counted = [(point.attributes, point.value) for point in points["groundline.answers"]]
    assert counted == [(same | {"degraded": False}, 1), (same | {"degraded": True}, 1)]
    [delays] = points["groundline.answer.time_to_first_delta"]
    assert delays.count == 2


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
    assert not any(p.similarity_crosses_languages for p in call.passages)


async def test_similarities_count_between_languages_in_collections_where_the_search_says_so() -> None:
    several = found((1, 0.9), (2, 0.8), multilingual_collection_ids=["docs"])
    world = World(retriever=FakeRetriever(several))
    world.retriever.chunks[2] = make_chunk(2, collection_id="guides")
    await world.chat(question())
    (call,) = world.generator.calls
    assert [p.similarity_crosses_languages for p in call.passages] == [True, False]


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


async def test_answer_does_the_same_work() -> None:
    world = World()
    answered = await world.answer(question(additional_context="on page 3"))
    assert answered.answer == "Alpha it is. [1]"
    assert [source.chunk_id for source in answered.sources] == ["1", "3", "2"]
    assert world.generator.calls[0].additional_context == "on page 3"


async def test_what_the_search_declares_is_declared_once() -> None:
    world = World()
    world.retriever.response = found(
        (7, 0.1), degraded=[passage_pb2.Degradation(component=passage_pb2.COMPONENT_KEYWORD_ARM)]
    )
    await world.chat(question())
    assert len(world.retriever.calls) == 2
    assert world.degraded() == [(passage_pb2.COMPONENT_KEYWORD_ARM, 0)]


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


async def test_options_that_are_wrong_with_a_collections_defaults_are_refused_by_the_requests_names() -> None:
    world = World()
    world.catalog.add(collection("docs", rerank={"semantic_weight": 0.0}))
    with pytest.raises(InvalidArgumentError) as failure:
        await world.chat(question(collection_ids=["docs"], rerank={"keyword_weight": 0.0}))
    assert [each.field for each in failure.value.violations] == ["options.rerank.semantic_weight"]
    assert world.events == []
