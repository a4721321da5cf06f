import asyncio

import pytest
from groundline_coordinator.domain.positions import Position
from groundline_coordinator.service.chats import LEASE_SECONDS
from groundline_runtime.context import Caller
from groundline_runtime.errors import AbortedError, InvalidArgumentError, UnavailableError
from groundline_tests.coordinator.fakes import rewrite
from groundline_tests.coordinator.workflow import (
    DOWN,
    NOBODY,
    RETRIEVING,
    Sources,
    Started,
    Status,
    World,
    question,
)


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
        stage=RETRIEVING, rewritten_query="Compare a and b.", sub_queries=["a", "b"], rewriting_model="rules"
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
