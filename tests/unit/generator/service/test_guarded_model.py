import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from groundline.v1 import chat_pb2, error_pb2
from groundline_generator.domain.calls import ModelCall, ModelFinished
from groundline_generator.service.breaker import Breaker
from groundline_generator.service.guarded_model import GuardedModel
from groundline_generator.service.quota import Limiter
from groundline_runtime.context import Caller, acting_as, deadline_at
from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_tests.generator.messages import used, user
from groundline_tests.generator.models import ScriptedChat
from groundline_tests.runtime import Clock

CALL = ModelCall("m", "", (user("Hi"),))
END = ModelFinished(chat_pb2.FINISH_REASON_STOP, used(5, 0, 2))
DOWN = UnavailableError("PROVIDER_UNAVAILABLE", "down")


class Guarded:
    """A guarded scripted model whose waits take no time."""

    def __init__(self, *scripts: Sequence[str | ModelFinished | Exception]) -> None:
        self.chat = ScriptedChat(*scripts)
        self.clock = Clock()
        self.model = GuardedModel(
            self.chat,
            Limiter(),
            Breaker(clock=self.clock),
            max_attempts=3,
            max_wait_seconds=10,
            sleep=self.clock.sleep,
        )

    @property
    def waits(self) -> list[float]:
        return self.clock.waits

    async def events(self) -> list[str | ModelFinished]:
        return [event async for event in self.model.stream(CALL)]


async def test_a_failure_before_the_first_token_is_tried_again() -> None:
    guarded = Guarded([DOWN], [DOWN], ["Hi", END])
    assert await guarded.events() == ["Hi", END]
    assert len(guarded.waits) == 2
    assert guarded.waits[1] > guarded.waits[0]


@pytest.mark.parametrize("cost", [0.25, 0.0, None])
async def test_a_call_says_what_it_cost_where_that_is_known(cost: float | None) -> None:
    chat = ScriptedChat(["Hi", ModelFinished(chat_pb2.FINISH_REASON_STOP, used(5, 0, 2))])
    asked: list[tuple[str, int]] = []

    def cost_of(model: str, usage: chat_pb2.Usage) -> float | None:
        asked.append((model, usage.prompt_tokens))
        return cost

    model = GuardedModel(chat, Limiter(), Breaker(), max_attempts=1, max_wait_seconds=1, cost_of=cost_of)
    *_, finished = [event async for event in model.stream(CALL)]
    assert isinstance(finished, ModelFinished)
    assert asked == [(CALL.model, 5)]
    assert finished.usage.HasField("cost_usd") == (cost is not None)
    assert finished.usage.cost_usd == (cost or 0)


async def test_after_the_first_token_nothing_is_tried_again() -> None:
    guarded = Guarded(["Hi", DOWN], ["never", END])
    with pytest.raises(UnavailableError):
        await guarded.events()
    assert len(guarded.chat.calls) == 1


async def test_the_last_attempts_failure_is_told() -> None:
    guarded = Guarded([DOWN], [DOWN], [DOWN], ["never", END])
    with pytest.raises(UnavailableError):
        await guarded.events()
    assert len(guarded.chat.calls) == 3


async def test_a_wait_that_the_provider_asks_for_is_kept() -> None:
    guarded = Guarded([ResourceExhaustedError("Q", "quota", retry_after_seconds=7)], ["Hi", END])
    await guarded.events()
    assert 7 <= guarded.waits[0] < 8


async def test_a_wait_is_told_with_its_reason_and_length_unless_it_is_short() -> None:
    told: list[chat_pb2.ModelWait] = []

    async def tell(wait: chat_pb2.ModelWait) -> None:
        told.append(wait)

    quota = ResourceExhaustedError("PROVIDER_QUOTA_EXHAUSTED", "quota", retry_after_seconds=7)
    guarded = Guarded([DOWN], [quota], ["Hi", END])
    call = replace(CALL, on_wait=tell)
    assert [event async for event in guarded.model.stream(call)] == ["Hi", END]
    assert [wait.reason for wait in told] == [error_pb2.PROVIDER_QUOTA_EXHAUSTED]
    assert 7 <= told[0].duration_seconds < 8


async def test_no_more_calls_than_the_maximum_are_under_way_and_wait() -> None:
    told: asyncio.Queue[chat_pb2.ModelWait] = asyncio.Queue()

    chat = ScriptedChat(["one", END], ["two", END], ["three", END])
    limiter = Limiter(max_concurrent=1, max_waiting=1)
    model = GuardedModel(chat, limiter, Breaker(), max_attempts=1, max_wait_seconds=10)
    first = model.stream(CALL)
    assert await anext(first) == "one"

    async def events() -> list[str | ModelFinished]:
        return [event async for event in model.stream(replace(CALL, on_wait=told.put))]

    second = asyncio.create_task(events())
    assert await told.get() == chat_pb2.ModelWait(reason=error_pb2.GENERATOR_QUOTA_EXHAUSTED)
    with pytest.raises(ResourceExhaustedError) as refused:
        await anext(model.stream(CALL))
    assert refused.value.retry_after_seconds
    assert len(chat.calls) == 1
    await first.aclose()
    assert await second == ["two", END]
    cancelled = model.stream(CALL)
    assert await anext(cancelled) == "three"
    await cancelled.aclose()


async def test_a_client_whose_calls_fill_the_queue_does_not_keep_another_from_its_turn() -> None:
    limiter = Limiter(max_concurrent=2, max_waiting=2)
    ended: list[str] = []
    may_end = asyncio.Event()

    async def call(client: str) -> None:
        with acting_as(Caller((f"key:{client}",))):
            async with limiter.place():
                await may_end.wait()
                ended.append(client)

    many = [asyncio.create_task(call("a")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhaustedError):
        await call("a")
    others = [asyncio.create_task(call("b")) for _ in range(2)]
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(*many, *others)
    assert ended == ["a", "b", "a", "b", "a"]


async def test_what_would_come_after_the_deadline_is_not_waited_for() -> None:
    guarded = Guarded([ResourceExhaustedError("Q", "quota", retry_after_seconds=7)], ["never", END])
    with deadline_at(time.monotonic() + 5), pytest.raises(ResourceExhaustedError) as failure:
        await guarded.events()
    assert failure.value.retry_after_seconds == 7
    assert guarded.waits == []


async def test_a_wait_beyond_any_patience_is_told_at_once() -> None:
    guarded = Guarded([ResourceExhaustedError("Q", "quota", retry_after_seconds=100)], ["never", END])
    with pytest.raises(ResourceExhaustedError) as failure:
        await guarded.events()
    assert failure.value.retry_after_seconds == 100
    assert guarded.waits == []


async def test_all_waits_of_a_call_together_keep_to_the_maximum() -> None:
    busy = ResourceExhaustedError("Q", "quota", retry_after_seconds=6)
    guarded = Guarded([busy], [busy], ["never", END])
    with pytest.raises(ResourceExhaustedError):
        await guarded.events()
    assert len(guarded.waits) == 1


@pytest.mark.parametrize(
    "error", [FailedPreconditionError("MODEL_NOT_AVAILABLE", "no"), InternalError("PROVIDER_REJECTED", "no")]
)
async def test_what_waiting_does_not_mend_is_not_tried_again(error: GroundlineError) -> None:
    guarded = Guarded([error], ["never", END])
    with pytest.raises(type(error)):
        await guarded.events()
    assert len(guarded.chat.calls) == 1


async def test_a_stream_that_ends_without_an_end_was_cut() -> None:
    with pytest.raises(UnavailableError) as failure:
        await Guarded(["Hi"]).events()
    assert failure.value.reason == "PROVIDER_STREAM_CUT"


async def test_leaving_closes_the_providers_stream() -> None:
    guarded = Guarded(["Hi", "there", END])
    events = guarded.model.stream(CALL)
    await anext(events)
    assert guarded.chat.open == 1
    await events.aclose()
    assert guarded.chat.open == 0


async def test_an_attempt_that_failed_gives_its_tokens_back() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    limiter = Limiter(tokens_per_minute=600, clock=lambda: 1000.0, sleep=sleep)
    chat = ScriptedChat([InternalError("PROVIDER_REJECTED", "no")], ["Hi", END])
    model = GuardedModel(chat, limiter, Breaker(), max_attempts=1, max_wait_seconds=10)
    with pytest.raises(InternalError):
        await anext(model.stream(CALL))
    assert await anext(model.stream(CALL)) == "Hi"
    assert waits == []
