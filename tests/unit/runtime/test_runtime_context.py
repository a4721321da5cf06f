import asyncio
from types import SimpleNamespace

import pytest
from groundline_runtime.context import (
    Caller,
    Waits,
    acting_as,
    counting,
    current_caller,
    current_trace_id,
    current_waits,
    deadline_at,
    deadline_within,
    format_principals,
    parse_principals,
    remaining_seconds,
)
from groundline_runtime.errors import DeadlineExceededError, InvalidArgumentError
from groundline_runtime.serving.detached import DetachedWork


@pytest.mark.parametrize("value", ["a,,b", "a,", "a b", "a%0Ab", ",".join(["u"] * 101), "u" * 8193])
def test_malformed_principals_are_refused(value: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_principals(value)


@pytest.mark.parametrize(
    ("value", "principals"),
    [
        ("", ()),
        ("user:alice", ("user:alice",)),
        ("user:alice, group:staff,user:alice", ("user:alice", "group:staff")),
    ],
)
def test_principals_are_read_in_order_and_once(value: str, principals: tuple[str, ...]) -> None:
    assert parse_principals(value) == Caller(principals)


def test_any_principal_survives_metadata() -> None:
    caller = Caller(("user:josé", "group:a,b", "100%", "user:alice@example.com"))
    assert format_principals(caller).isascii()
    assert parse_principals(format_principals(caller)) == caller


def test_outside_a_request_there_is_nobody_no_deadline_and_no_trace() -> None:
    assert current_caller() == Caller()
    assert remaining_seconds() is None
    assert current_trace_id() is None
    assert current_waits() is None


def test_waits_at_the_same_time_count_once() -> None:
    clock = SimpleNamespace(now=100.0)
    waits = Waits(lambda: clock.now)
    with counting(waits):
        assert current_waits() is waits
        with waits:
            clock.now += 2
            with waits:
                clock.now += 3
                assert waits.seconds == 5
        clock.now += 7
        with waits:
            clock.now += 1
    assert waits.seconds == 6
    assert current_waits() is None


async def test_what_outlives_a_request_may_wait_anew() -> None:
    found: list[Waits | None] = []

    async def store() -> None:
        found.append(current_waits())

    with counting(Waits()), deadline_at(0.0):
        assert await DetachedWork(60).in_own_time(store()) is None
        found.append(current_waits())
    own, of_the_request = found
    assert own is not None
    assert own is not of_the_request


def test_acting_as_ends_with_its_block() -> None:
    with acting_as(Caller(("user:alice",))):
        assert current_caller().principals == ("user:alice",)
    assert current_caller() == Caller()


async def test_time_over_is_a_deadline_error() -> None:
    with pytest.raises(DeadlineExceededError):
        async with deadline_within(0.001):
            await asyncio.Event().wait()
    assert remaining_seconds() is None


async def test_a_deadline_can_be_narrowed_but_not_widened() -> None:
    async with deadline_within(5), deadline_within(1000):
        remaining = remaining_seconds()
        assert remaining is not None
        assert remaining <= 5


async def test_a_timeout_of_the_blocks_own_is_not_mistaken_for_the_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with deadline_within(60):
            raise TimeoutError


def test_time_left_is_never_negative() -> None:
    with deadline_at(0.0):
        assert remaining_seconds() == 0
