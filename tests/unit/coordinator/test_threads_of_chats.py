import asyncio
import uuid
from collections.abc import Mapping

import pytest
from groundline.v1 import chat_pb2, error_pb2, passage_pb2, quota_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.service.quotas import QuotaLimits
from groundline_runtime.context import Caller
from groundline_runtime.errors import NotFoundError, ResourceExhaustedError, UnavailableError
from groundline_tests.coordinator.workflow import (
    DOWN,
    Completed,
    Started,
    World,
    cancelled_at,
    question,
    said,
)


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


async def test_an_answer_says_what_it_nearly_uses_up_and_a_stored_one_says_it_again() -> None:
    world = World(quota_limits=QuotaLimits(tokens=18))
    first = await world.chat(question(request_id="r"))
    await world.service.settle()
    for events in (first, await world.chat(question(request_id="r"))):
        completed = events[-1]
        assert isinstance(completed, Completed)
        [told] = completed.nearly_used
        assert (told.quota, told.used, told.limit) == (quota_pb2.QUOTA_TOKENS, 15, 18)
