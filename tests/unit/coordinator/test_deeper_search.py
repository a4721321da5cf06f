"""Searches for what the passages found lack."""

import pytest
from groundline.v1 import chat_pb2, error_pb2, options_pb2, passage_pb2, retriever_service_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_runtime.errors import UnavailableError
from groundline_tests.coordinator.fakes import FakeRetriever, found, rewrite
from groundline_tests.coordinator.workflow import (
    GENERATING,
    RETRIEVING,
    REWRITING,
    Completed,
    Sources,
    Status,
    World,
    question,
)

READING = passage_pb2.STAGE_READING
THOROUGH = options_pb2.EFFORT_THOROUGH
ASKED = "Who leads the team of alpha?"


def lacking(missing: str, *queries: str, **fields: object) -> pb.JudgeSufficiencyResponse:
    return pb.JudgeSufficiencyResponse(missing=missing, queries=queries, model="m", **fields)  # type: ignore[arg-type]


async def test_what_is_missing_is_searched_for_beside_all_that_was_searched_for() -> None:
    world = World()
    world.generator.lacking = [lacking("who leads it", "leads Falke"), lacking("since when", "Kern since")]
    events = await world.chat(question(ASKED, effort=THOROUGH))
    assert world.retriever.queries == [[ASKED], [ASKED, "leads Falke"], [ASKED, "leads Falke", "Kern since"]]
    assert [list(call.searched_queries) for call in world.generator.reading_calls] == [
        [ASKED],
        [ASKED, "leads Falke"],
    ]
    statuses = [event for event in events if isinstance(event, Status)]
    assert [each.stage for each in statuses] == [
        RETRIEVING,
        READING,
        RETRIEVING,
        READING,
        RETRIEVING,
        GENERATING,
    ]
    assert statuses[2] == Status(
        stage=RETRIEVING, sub_queries=["leads Falke"], rewriting_model="m", missing="who leads it"
    )


async def test_a_thorough_search_ends_when_nothing_is_missing() -> None:
    world = World()
    await world.chat(question(ASKED, effort=THOROUGH))
    assert world.retriever.queries == [[ASKED]]
    assert len(world.generator.reading_calls) == 1
    assert world.degraded() == []


async def test_it_ends_when_only_what_was_searched_for_is_named() -> None:
    world = World()
    world.generator.lacking = [lacking("the rest", ASKED)]
    await world.chat(question(ASKED, effort=THOROUGH))
    assert world.retriever.queries == [[ASKED]]


@pytest.mark.parametrize("effort", [options_pb2.EFFORT_UNSPECIFIED, options_pb2.EFFORT_BALANCED])
async def test_by_default_only_a_question_of_several_parts_is_read_for_and_once(
    effort: options_pb2.Effort.ValueType,
) -> None:
    world = World()
    asked = "Compare alpha and beta."
    world.generator.rewrites[asked] = rewrite(asked, "alpha", "beta")
    world.generator.lacking = [lacking("gamma", "gamma"), lacking("delta", "delta")]
    await world.chat(question(ASKED, effort=effort))
    assert world.generator.reading_calls == []
    events = await world.chat(question(asked, effort=effort))
    assert world.retriever.queries[1:] == [[asked, "alpha", "beta"], [asked, "alpha", "beta", "gamma"]]
    stages = [event.stage for event in events if isinstance(event, Status)]
    assert stages[-5:] == [REWRITING, RETRIEVING, READING, RETRIEVING, GENERATING]


async def test_reading_is_paid_for_whether_or_not_more_is_searched_for() -> None:
    world = World()
    world.generator.lacking = [
        lacking("a", "b", usage=chat_pb2.Usage(prompt_tokens=100, output_tokens=7)),
        lacking("", usage=chat_pb2.Usage(prompt_tokens=200, output_tokens=1)),
    ]
    await world.chat(question(ASKED, effort=THOROUGH))
    assert world.only(Completed).usage == chat_pb2.Usage(prompt_tokens=310, output_tokens=13)


async def test_what_cannot_be_read_is_answered_from_as_it_is() -> None:
    world = World()
    world.generator.lacking = [UnavailableError("PROVIDER_UNAVAILABLE", "down")]
    await world.chat(question(ASKED, effort=THOROUGH))
    assert world.retriever.queries == [[ASKED]]
    assert world.degraded() == [(passage_pb2.COMPONENT_REWRITING, error_pb2.REWRITING_UNAVAILABLE)]


async def test_a_reading_by_rules_in_place_of_the_model_is_used_and_declared() -> None:
    world = World()
    world.generator.lacking = [lacking("a", "b", fallback_reason="PROVIDER_UNAVAILABLE")]
    await world.chat(question(ASKED, effort=THOROUGH))
    assert world.retriever.queries == [[ASKED], [ASKED, "b"]]
    assert world.degraded() == [(passage_pb2.COMPONENT_REWRITING, error_pb2.REWRITING_UNAVAILABLE)]


async def test_a_further_search_that_fails_leaves_what_was_found() -> None:
    class FailsLater(FakeRetriever):
        async def search(
            self, request: retriever_service_pb2.SearchRequest
        ) -> retriever_service_pb2.SearchResponse:
            if self.calls:
                raise UnavailableError("RETRIEVER_UNAVAILABLE", "down")
            return await super().search(request)

    world = World(retriever=FailsLater(found((7, 0.9))))
    world.generator.lacking = [lacking("a", "b")]
    await world.chat(question(ASKED, effort=THOROUGH))
    assert [source.chunk_id for source in world.only(Sources).sources] == ["7"]
    assert world.degraded() == [(passage_pb2.COMPONENT_RETRIEVAL, error_pb2.SEARCH_INCOMPLETE)]


async def test_corrections_of_the_first_search_are_still_told() -> None:
    corrected = found((7, 0.9))
    corrected.corrections.add(given="alhpa", used="alpha")
    world = World(retriever=FakeRetriever(found((7, 0.9))))
    asked = "Who leads the team of alhpa?"
    world.retriever.by_query[asked] = corrected
    world.generator.lacking = [lacking("a", "b")]
    answered = await world.answer(question(asked, effort=THOROUGH))
    assert world.retriever.queries == [[asked], [ASKED, "b"]]
    assert [(each.given, each.used) for each in answered.corrections] == [("alhpa", "alpha")]


async def test_no_search_takes_more_queries_than_the_retriever_does() -> None:
    world = World()
    many = [f"part {number}" for number in range(20)]
    world.generator.lacking = [lacking("a", *many), lacking("b", "more")]
    await world.chat(question(ASKED, effort=THOROUGH))
    assert [len(each) for each in world.retriever.queries] == [1, 10]


async def test_nothing_more_is_searched_for_after_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundline_coordinator.service.searching.remaining_seconds", lambda: 0.0)
    world = World()
    world.generator.lacking = [lacking("a", "b")]
    await world.chat(question(ASKED, effort=THOROUGH))
    assert world.generator.reading_calls == []
