import pytest
from groundline.v1 import chat_pb2, collection_pb2, error_pb2, options_pb2, passage_pb2
from groundline_runtime.errors import (
    FieldViolation,
    InvalidArgumentError,
    UnavailableError,
    UnimplementedError,
)
from groundline_tests.coordinator.fakes import FakeRetriever, collection, found, rewrite
from groundline_tests.coordinator.workflow import (
    GENERATING,
    RETRIEVING,
    REWRITING,
    Completed,
    Sources,
    Started,
    Status,
    World,
    question,
    said,
)


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


@pytest.mark.parametrize(
    "failure", [UnimplementedError("NOT_IMPLEMENTED", "later"), UnavailableError("UNAVAILABLE", "down")]
)
async def test_without_rewriting_the_question_is_searched_as_it_is(failure: Exception) -> None:
    world = World()
    world.generator.rewrites["Compare alpha and beta."] = failure
    await world.chat(question("Compare alpha and beta."))
    assert world.retriever.queries == [["Compare alpha and beta."]]
    assert world.degraded() == [(passage_pb2.COMPONENT_REWRITING, error_pb2.REWRITING_UNAVAILABLE)]


async def test_a_rewriting_by_rules_in_place_of_the_model_is_used_and_declared() -> None:
    world = World()
    by_rules = rewrite("beta (price)?")
    by_rules.fallback_reason = "PROVIDER_UNAVAILABLE"
    world.generator.rewrites["Compare alpha and beta."] = by_rules
    await world.chat(question("Compare alpha and beta."))
    assert world.retriever.queries == [["beta (price)?"]]
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
    assert world.retriever.queries == [["Why is it called alpha?"], ["Why is it called alpha?", "Why alpha?"]]
    assert len(world.generator.rewrite_calls) == 1


async def test_a_weak_search_that_nothing_can_be_changed_about_gives_what_it_found() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    await world.chat(question())
    assert [source.chunk_id for source in world.only(Sources).sources] == ["7"]
    assert world.degraded() == []


async def test_a_quick_answer_takes_one_search() -> None:
    world = World(retriever=FakeRetriever(WEAK))
    await world.chat(question("Compare alpha and beta.", effort=options_pb2.EFFORT_QUICK))
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


async def test_a_corrected_question_is_answered_with_the_other_words_and_it_is_said() -> None:
    world = World()
    world.retriever.response = found((1, 0.9))
    world.retriever.response.corrections.add(given="Alhpa", used="alpha")
    events = await world.chat(question("What is Alhpa, and alhpabet?", request_id="r"))
    told = Status(stage=RETRIEVING, rewritten_query="What is alpha, and alhpabet?", rewriting_model="rules")
    told.corrections.add(given="Alhpa", used="alpha")
    assert [event for event in events if isinstance(event, Status)] == [
        Status(stage=RETRIEVING),
        told,
        Status(stage=GENERATING),
    ]
    assert world.generator.calls[-1].query == "What is alpha, and alhpabet?"
    await world.chat(question("What is Alhpa, and alhpabet?", request_id="r"))
    assert world.only(Status) == told, "a replay tells it, too"


async def test_an_answer_says_which_words_were_corrected() -> None:
    world = World()
    world.retriever.response = found((1, 0.9))
    world.retriever.response.corrections.add(given="alhpa", used="alpha")
    answered = await world.answer(question("What is alhpa?"))
    assert [(each.given, each.used) for each in answered.corrections] == [("alhpa", "alpha")]
    assert answered.rewritten_query == "What is alpha?"
