import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import pytest
from groundline.v1 import chat_pb2, error_pb2, options_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.adapters.extractive import ExtractiveModel
from groundline_generator.domain.calls import ModelFinished, OnWait
from groundline_generator.ports import AnswerModel
from groundline_generator.service.answers.answering import AnswerService
from groundline_runtime.errors import FailedPreconditionError, InternalError, UnavailableError
from groundline_tests.generator.messages import ask, numbered
from groundline_tests.generator.models import ScriptedModel

CAPITAL = numbered(3, "Paris is the capital of France. It lies on the Seine.", chunk_id="30", similarity=0.7)
QUESTION = ask("What is the capital of France?", (CAPITAL,))


async def not_expected(wait: chat_pb2.ModelWait) -> None:
    raise AssertionError(wait)


def scripted() -> AnswerModel:
    return ScriptedModel(
        "Paris is the capital", " of France. [3]", ModelFinished(chat_pb2.FINISH_REASON_STOP)
    )


def extractive() -> AnswerModel:
    return ExtractiveModel(min_relevance=0.4, max_sentences=3, answerability=None)


async def answered(model: AnswerModel, question: pb.GenerateRequest) -> tuple[str, pb.GenerateCompleted]:
    events = [event async for event in AnswerService(model).answer(question)]
    assert [event.WhichOneof("event") for event in events] == ["delta"] * (len(events) - 1) + ["completed"]
    return "".join(event.delta.text for event in events), events[-1].completed


@pytest.mark.parametrize("make", [scripted, extractive])
async def test_every_model_streams_deltas_and_one_end(make: Callable[[], AnswerModel]) -> None:
    events = [event async for event in make().stream(QUESTION, QUESTION.passages, not_expected)]
    assert all(isinstance(event, str) and event for event in events[:-1])
    assert isinstance(events[-1], ModelFinished)


async def test_a_wait_for_the_model_is_told_before_its_first_text() -> None:
    wait = chat_pb2.ModelWait(reason=error_pb2.PROVIDER_QUOTA_EXHAUSTED, duration_seconds=7)

    class Busy(ScriptedModel):
        async def stream(
            self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage], on_wait: OnWait
        ) -> AsyncGenerator[str | ModelFinished]:
            await on_wait(wait)
            async for event in super().stream(request, served, on_wait):
                yield event

    model = Busy("Paris.", ModelFinished(chat_pb2.FINISH_REASON_STOP))
    events = [event async for event in AnswerService(model).answer(QUESTION)]
    assert events[0].waiting == wait
    assert [event.WhichOneof("event") for event in events] == ["waiting", "delta", "completed"]


@pytest.mark.parametrize("make", [scripted, extractive])
async def test_every_model_has_its_answers_cited_and_checked(make: Callable[[], AnswerModel]) -> None:
    model = make()
    text, completed = await answered(model, QUESTION)
    assert text.startswith("Paris is the capital of France. [3]")
    citation = completed.citations[0]
    assert text[citation.start_offset : citation.end_offset] == "Paris is the capital of France."
    assert (citation.source_number, citation.chunk_id) == (3, "30")
    assert completed.validation.grounded
    assert completed.model == model.check(QUESTION)


async def test_an_answer_to_one_of_two_questions_says_which_one_is_not_told() -> None:
    question = ask("What is the capital of France and who painted the ceiling in Lisbon?", (CAPITAL,))
    text, completed = await answered(extractive(), question)
    assert "Paris is the capital of France. [3]" in text
    issue = next(
        each for each in completed.validation.issues if each.reason == error_pb2.NO_SUPPORTING_PASSAGE
    )
    assert issue.message.endswith("answers this part: who painted the ceiling in Lisbon?")


async def test_a_model_that_is_not_here_is_refused_by_name() -> None:
    question = ask("q", (CAPITAL,), options=options_pb2.GenerationOptions(model="gemini-9"))
    with pytest.raises(FailedPreconditionError) as failure:
        await answered(extractive(), question)
    assert failure.value.reason == "MODEL_NOT_AVAILABLE"
    assert "gemini-9" in failure.value.message


async def test_the_models_failure_reaches_the_caller() -> None:
    model = ScriptedModel("Paris", UnavailableError("PROVIDER_DOWN", "down"))
    with pytest.raises(UnavailableError):
        await answered(model, QUESTION)
    assert model.closed


async def test_a_stream_without_end_is_an_error() -> None:
    with pytest.raises(InternalError):
        await answered(ScriptedModel("Paris"), QUESTION)


async def test_leaving_early_closes_the_models_stream() -> None:
    model = ScriptedModel("a b", "c", ModelFinished(chat_pb2.FINISH_REASON_STOP))
    events = AnswerService(model).answer(QUESTION)
    await anext(events)
    await events.aclose()
    assert model.closed


async def test_invented_sources_never_reach_the_stream() -> None:
    text, completed = await answered(
        ScriptedModel("Paris [3]. Rome [", "8].", ModelFinished(chat_pb2.FINISH_REASON_STOP)), QUESTION
    )
    assert text == "Paris [3]. Rome."
    assert error_pb2.UNKNOWN_CITATION in [issue.reason for issue in completed.validation.issues]


@pytest.mark.parametrize("passages", [(), (numbered(1, "Whales sing."),)])
async def test_what_the_passages_do_not_hold_is_refused(passages: tuple[pb.NumberedPassage, ...]) -> None:
    text, completed = await answered(extractive(), ask("What is the capital of France?", passages))
    assert text == "I cannot answer this from the documents."
    assert completed.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER
    assert not completed.citations


async def test_a_request_may_set_its_own_threshold() -> None:
    strict = ask(
        "capital of France today", (CAPITAL,), options=options_pb2.GenerationOptions(min_relevance=1.0)
    )
    _, completed = await answered(extractive(), strict)
    assert completed.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER


async def test_the_token_limit_ends_the_answer() -> None:
    question = ask(QUESTION.query, (CAPITAL,), options=options_pb2.GenerationOptions(max_output_tokens=3))
    text, completed = await answered(extractive(), question)
    assert text == "Paris is the [3]"
    assert completed.finish_reason == chat_pb2.FINISH_REASON_MAX_TOKENS


async def test_instructions_that_only_a_language_model_follows_are_named_as_unused() -> None:
    question = ask(
        QUESTION.query,
        (CAPITAL,),
        options=options_pb2.GenerationOptions(system_prompt="Be brief.", prompt_template="formal"),
        additional_context="x",
    )
    _, completed = await answered(extractive(), question)
    (issue,) = completed.validation.issues
    assert issue.reason == error_pb2.INPUT_NOT_USED
    assert "system_prompt, prompt_template, additional_context" in issue.message


async def test_code_is_fenced_and_cited() -> None:
    code = numbered(1, "```\ndef max_retry_count():\n    return limits[5]\n```")
    text, completed = await answered(extractive(), ask("What does max_retry_count return?", (code,)))
    assert text == "```\ndef max_retry_count():\n    return limits[5]\n```\n[1]"
    assert [c.source_number for c in completed.citations] == [1]
    assert completed.validation.grounded


async def test_steps_are_a_list_each_sentence_of_which_is_cited() -> None:
    start = "## Starting the pump\n\n1. Open the valve. Wait.\n2. Run:\n\n"
    steps = numbered(2, f"{start}```\npumpctl start\n```\n\n3. Watch it.")
    text, completed = await answered(extractive(), ask("How do I start the pump?", (steps,)))
    assert text == (
        "1. Open the valve. [2] Wait. [2]\n2. Run: [2]\n\n```\npumpctl start\n```\n[2]\n\n3. Watch it. [2]"
    )
    assert completed.validation.grounded


async def test_a_list_ends_before_what_is_quoted_behind_it() -> None:
    listed = numbered(1, "The pump has these valves:\n\n- inlet\n- outlet\n")
    other = numbered(2, "The valves of the pump are made of brass. The pump has two valves.")
    text, completed = await answered(extractive(), ask("Which valves does the pump have?", (listed, other)))
    assert text.startswith("The pump has these valves: [1]\n- inlet [1]\n- outlet [1]\n\nThe ")
    assert completed.validation.grounded


async def test_cancelling_does_not_wait_for_the_extraction() -> None:
    big = ask("word", tuple(numbered(n, "Some words here. " * 3000) for n in range(1, 60)))
    task = asyncio.create_task(answered(extractive(), big))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
