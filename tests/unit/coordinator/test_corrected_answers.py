"""Answers whose sentences are marked or corrected while they are streamed."""

from groundline.v1 import chat_pb2, error_pb2, passage_pb2
from groundline_coordinator.domain.positions import Position
from groundline_tests.coordinator.fakes import FakeGenerator
from groundline_tests.coordinator.workflow import Completed, Sources, Started, World, cancelled_at, question

WRONG, RIGHT, REST = "It is 2. ", "It is 1. [1] ", "That is all. [1]"
TAKEN_BACK = chat_pb2.AnswerCorrection(
    end_offset=len(WRONG), issue=chat_pb2.ValidationIssue(reason=error_pb2.NUMBER_NOT_SUPPORTED)
)
PUT_IN = chat_pb2.AnswerCorrection(
    text=RIGHT, issue=chat_pb2.ValidationIssue(reason=error_pb2.SENTENCE_CORRECTED)
)
MARK = chat_pb2.UnsupportedSentence(start_offset=0, end_offset=12)
WHOLE = RIGHT + REST


def correcting() -> World:
    world = World(generator=FakeGenerator(WRONG, "That", TAKEN_BACK, MARK, " is all. [1]", PUT_IN))
    world.generator.issues = [PUT_IN.issue]
    return world


async def test_marks_and_corrections_come_in_their_order_and_the_end_has_the_whole_answer() -> None:
    world = correcting()
    await world.chat(question())
    changes = [each for each in world.events if not isinstance(each, (Started, Sources, chat_pb2.ChatStatus))]
    assert changes[:-1] == [WRONG, "That", TAKEN_BACK, MARK, " is all. [1]", PUT_IN]
    assert world.only(Completed).corrected_answer == WHOLE


async def test_an_answer_without_corrections_is_not_sent_twice() -> None:
    world = World(generator=FakeGenerator(REST, MARK))
    await world.chat(question())
    assert world.only(Completed).corrected_answer == ""


async def test_what_is_stored_and_answered_at_once_is_the_corrected_text() -> None:
    world = correcting()
    answered = await world.answer(question())
    assert answered.answer == WHOLE
    assert answered.completed.corrected_answer == ""
    stored = await world.messages(answered.thread_id)
    assert stored.messages[-1].content == WHOLE


async def test_what_is_stored_of_a_cancelled_answer_is_without_what_was_taken_back() -> None:
    world = World(generator=FakeGenerator(WRONG, "That", TAKEN_BACK))
    world.generator.hangs = True
    await cancelled_at(world.generator, world)
    (thread,) = (await world.all_threads()).threads
    stored = await world.messages(thread.thread_id)
    assert stored.messages[-1].content == "That"


async def test_a_correction_that_failed_degrades_the_answer() -> None:
    world = correcting()
    failure = passage_pb2.Degradation(
        component=passage_pb2.COMPONENT_VALIDATION, reason=error_pb2.CORRECTION_UNAVAILABLE
    )
    world.generator.degraded = [failure]
    await world.chat(question())
    assert list(world.only(Completed).degraded) == [failure]


async def test_a_client_that_takes_nothing_back_is_asked_for_by_its_option() -> None:
    world = World()
    await world.chat(question())
    await world.chat(question(append_only=True))
    assert [call.accepts_corrections for call in world.generator.calls] == [True, False]


async def test_a_replay_has_the_corrected_text() -> None:
    world = correcting()
    first = await world.answer(question(request_id="r"))
    await world.chat(question(request_id="r"))
    assert world.events[-2] == WHOLE
    assert world.only(Completed).corrected_answer == WHOLE
    assert (await world.answer(question(request_id="r"))) == first


async def test_a_resumed_stream_replaces_all_that_its_client_has() -> None:
    world = correcting()
    answered = await world.answer(question(request_id="r"))
    position = Position.before(answered.message_id).after(Started()).after(Sources())
    for arrived in (WRONG, "That", TAKEN_BACK):
        position = position.after(arrived)
    await world.chat(question(request_id="r"), after=position.event_id)
    replaced, completed = world.events
    assert isinstance(replaced, chat_pb2.AnswerCorrection)
    assert (replaced.start_offset, replaced.end_offset, replaced.text) == (0, len("That"), WHOLE)
    assert replaced.issue.reason == error_pb2.ANSWER_CORRECTED
    assert isinstance(completed, Completed)
    assert completed.corrected_answer == WHOLE


async def test_a_resumed_stream_of_a_client_that_takes_nothing_back_goes_on_with_the_text() -> None:
    world = World(generator=FakeGenerator(RIGHT, REST))
    world.generator.issues = [PUT_IN.issue]
    answered = await world.answer(question(request_id="r", append_only=True))
    position = Position.before(answered.message_id).after(Started()).after(Sources()).after(RIGHT)
    await world.chat(question(request_id="r", append_only=True), after=position.event_id)
    assert world.events[0] == REST
    assert world.only(Completed).corrected_answer == ""
