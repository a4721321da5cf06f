"""Who is worked on, who waits, and who is refused. The clock stands still unless a test moves it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from groundline_runtime.context import Caller, acting_as, begun, deadline_at, give_place_back
from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.serving.admission import MAX_WAITING, Admission
from groundline_runtime.serving.share import ClientShare, processor_wait_seconds
from groundline_tests.runtime import Clock

LEAST = 32


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Guests:
    """Requests that hold their places until they are let go."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.served: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def come(self, name: str, client: str = "") -> asyncio.Task[None]:
        self._ends[name] = asyncio.Event()

        async def stay() -> None:
            async with self.admission.place("Search"):
                self.served.append(name)
                await self._ends[name].wait()

        with acting_as(Caller((client,) if client else ())):
            self.tasks[name] = asyncio.create_task(stay())
        return self.tasks[name]

    def fill(self, client: str = "") -> None:
        for number in range(LEAST):
            self.come(f"guest {number}", client)

    async def go(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]
        await settle()


@asynccontextmanager
async def guests_of(admission: Admission) -> AsyncIterator[Guests]:
    guests = Guests(admission)
    try:
        yield guests
    finally:
        for task in guests.tasks.values():
            task.cancel()
        await asyncio.gather(*guests.tasks.values(), return_exceptions=True)
        assert (admission.under_way, admission.waiting) == (0, 0)


@pytest.fixture
async def admission(clock: Clock) -> Admission:
    return Admission(max_wait_seconds=1e6, clock=clock)


@pytest.fixture
async def guests(admission: Admission) -> AsyncIterator[Guests]:
    async with guests_of(admission) as found:
        yield found


@pytest.fixture
async def full(guests: Guests) -> Guests:
    """All places are held."""
    guests.fill()
    await settle()
    return guests


@pytest.fixture
async def full_of_ann(guests: Guests) -> Guests:
    """Ann holds all places, and many requests of hers wait."""
    guests.fill("ann")
    for number in range(100):
        guests.come(f"ann {number}", "ann")
    await settle()
    return guests


async def take(admission: Admission, clock: Clock, seconds: float) -> None:
    """Record requests of this duration, until it is the mean."""
    for _ in range(100):
        async with admission.place("Search"):
            clock.now += seconds


@pytest.fixture
def in_a_minute() -> Iterator[None]:
    with deadline_at(time.monotonic() + 60):
        yield


async def test_what_would_have_to_wait_beyond_its_deadline_is_refused_at_once(
    admission: Admission, clock: Clock, guests: Guests
) -> None:
    await take(admission, clock, 10)
    guests.fill()
    await settle()
    with deadline_at(time.monotonic() + 5):
        late = guests.come("late")
        await settle()
    assert late.done()
    error = late.exception()
    assert isinstance(error, ResourceExhaustedError)
    assert error.reason == "OVERLOADED"
    assert error.retry_after_seconds is not None
    assert error.retry_after_seconds >= 1


async def test_what_would_have_to_wait_too_long_is_refused_although_it_has_time(clock: Clock) -> None:
    admission = Admission(max_wait_seconds=5, clock=clock)
    async with guests_of(admission) as guests:
        await take(admission, clock, 1)
        guests.fill()
        for number in range(200):
            guests.come(f"waiting {number}")
        await settle()
        refused = [task for task in guests.tasks.values() if task.done()]
        # 160 at one second each in 32 places take five seconds.
        assert admission.waiting == pytest.approx(160, abs=1)
        assert len(refused) == 200 - admission.waiting


async def test_what_waits_longer_than_was_expected_is_refused_then() -> None:
    admission = Admission(max_wait_seconds=0.001)
    async with guests_of(admission) as guests:
        guests.fill()
        await settle()
        with pytest.raises(ResourceExhaustedError, match="try again later"):
            await guests.come("patient")


async def test_the_queue_is_bounded(full: Guests) -> None:
    for number in range(MAX_WAITING + 7):
        full.come(f"waiting {number}")
    await settle()
    assert full.admission.waiting == MAX_WAITING
    assert sum(task.done() for task in full.tasks.values()) == 7


async def test_who_comes_first_is_served_first(full: Guests) -> None:
    for name in ("first", "second", "third"):
        full.come(name)
    await settle()
    await full.go("guest 0")
    await full.go("guest 1")
    assert full.served[LEAST:] == ["first", "second"]


async def test_beside_a_full_queue_anothers_single_request_gets_the_next_place(
    full_of_ann: Guests,
) -> None:
    full_of_ann.come("bob", "bob")
    await settle()
    await full_of_ann.go("guest 0")
    assert full_of_ann.served[LEAST:] == ["bob"]


async def test_who_would_wait_too_long_behind_a_client_is_not_refused_for_its_queue(clock: Clock) -> None:
    admission = Admission(max_wait_seconds=5, clock=clock)
    async with guests_of(admission) as guests:
        await take(admission, clock, 1)
        guests.fill("ann")
        for number in range(200):
            guests.come(f"ann {number}", "ann")
        await settle()
        assert any(task.done() for task in guests.tasks.values()), "the queue is as long as it may be"
        bob = guests.come("bob", "bob")
        await settle()
        assert not bob.done()


async def test_clients_of_whom_many_wait_get_as_many_places_each(full_of_ann: Guests) -> None:
    for number in range(100):
        full_of_ann.come(f"bob {number}", "bob")
    await settle()
    for number in range(LEAST):
        await full_of_ann.go(f"guest {number}")
    served = full_of_ann.served[LEAST:]
    # Bob catches up first, and then they alternate.
    assert served[: LEAST // 2] == [f"bob {number}" for number in range(LEAST // 2)]
    assert sum(name.startswith("bob") for name in served) == LEAST // 2


async def test_of_clients_with_as_many_places_who_has_held_them_for_less_time_goes_first(
    clock: Clock, guests: Guests
) -> None:
    with acting_as(Caller(("slow",))):
        await take(guests.admission, clock, 0.1)
    guests.fill("other")
    guests.come("slow", "slow")
    guests.come("quick", "quick")
    await settle()
    await guests.go("guest 0")
    assert guests.served[LEAST:] == ["quick"]


async def test_in_a_full_queue_the_client_with_most_requests_makes_room_for_another(guests: Guests) -> None:
    guests.fill("ann")
    for number in range(MAX_WAITING):
        guests.come(f"ann {number}", "ann")
    await settle()
    bob = guests.come("bob", "bob")
    hers = guests.come("ann again", "ann")
    await settle()
    refused = guests.tasks[f"ann {MAX_WAITING - 1}"]
    for task in (refused, hers):
        assert isinstance(task.exception(), ResourceExhaustedError)
    assert (bob.done(), guests.admission.waiting) == (False, MAX_WAITING)


async def test_a_client_with_all_places_comes_last_although_its_chats_have_begun(
    full_of_ann: Guests,
) -> None:
    with begun():
        full_of_ann.come("ann, begun", "ann")
    full_of_ann.come("bob", "bob")
    with begun():
        full_of_ann.come("carol, begun", "carol")
    await settle()
    for number in range(3):
        await full_of_ann.go(f"guest {number}")
    assert full_of_ann.served[LEAST:] == ["carol, begun", "bob", "ann, begun"]


async def test_a_chat_that_has_begun_comes_before_what_is_new(full: Guests) -> None:
    full.come("new")
    with begun():
        full.come("begun")
    await settle()
    await full.go("guest 0")
    assert full.served[LEAST:] == ["begun"]


async def test_a_begun_chat_waits_as_long_as_its_deadline_allows(clock: Clock, in_a_minute: None) -> None:
    admission = Admission(max_wait_seconds=0.5, clock=clock)
    async with guests_of(admission) as guests:
        await take(admission, clock, 20)
        guests.fill()
        await settle()
        new = guests.come("new")
        with begun():
            guests.come("begun")
        await settle()
        assert isinstance(new.exception(), ResourceExhaustedError)
        await guests.go("guest 0")
        assert guests.served[-1] == "begun"


async def test_who_leaves_the_queue_makes_room_in_it(full: Guests) -> None:
    full.come("gone").cancel()
    full.come("waiting")
    await settle()
    assert full.admission.waiting == 1
    await full.go("guest 0")
    assert full.served[LEAST:] == ["waiting"]


async def test_a_place_whose_owner_leaves_as_it_comes_goes_to_the_next(full: Guests) -> None:
    gone = full.come("gone")
    full.come("next")
    await settle()
    full.tasks["guest 0"].cancel()
    await asyncio.sleep(0)  # the place is free, and given to who is about to go
    gone.cancel()
    await settle()
    assert full.served[LEAST:] == ["next"]


async def test_who_only_waits_for_others_gives_the_place_back(full: Guests) -> None:
    started = asyncio.Event()
    released = asyncio.Event()

    async def chat() -> None:
        async with full.admission.place("Chat"):
            give_place_back()
            give_place_back()  # a second time is none
            started.set()
            await released.wait()

    full.tasks["chat"] = asyncio.create_task(chat())
    full.come("next")
    await full.go("guest 0")
    await started.wait()
    await settle()
    assert full.served[LEAST:] == ["next"]
    assert full.admission.under_way == LEAST


async def test_what_fails_does_not_tell_how_long_work_takes(admission: Admission, clock: Clock) -> None:
    await take(admission, clock, 10)
    for _ in range(100):
        with suppress(ValueError):
            async with admission.place("Search"):
                raise ValueError
    async with guests_of(admission) as guests:
        guests.fill()
        await settle()
        with deadline_at(time.monotonic() + 5):
            late = guests.come("late")
            await settle()
        assert isinstance(late.exception(), ResourceExhaustedError)


class Processor:
    """Processor for which the event loop waits for `part` of its time."""

    def __init__(self, clock: Clock) -> None:
        self.part = 0.0
        self._clock, self._counted, self._seconds = clock, clock.now, 0.0

    def waited_seconds(self) -> float:
        self._seconds += self.part * (self._clock.now - self._counted)
        self._counted = self._clock.now
        return self._seconds


@pytest.fixture
def processor(clock: Clock) -> Processor:
    return Processor(clock)


@pytest.fixture
async def sharing(clock: Clock, processor: Processor) -> AsyncIterator[Guests]:
    """Ann and Bob ask for places of a server whose processor has become short."""
    share = ClientShare(clock, processor.waited_seconds)
    async with guests_of(Admission(share=share, max_wait_seconds=5, clock=clock)) as guests:
        processor.part = 0.9
        await pass_by(guests, clock, seconds=4)
        yield guests


async def pass_by(guests: Guests, clock: Clock, seconds: float) -> None:
    """Let time pass in which Ann and Bob ask for something that is done at once."""
    for _ in range(round(5 * seconds)):
        clock.now += 0.2
        for client in ("ann", "bob"):
            guests.come("quick", client)
            await settle()
            await guests.go("quick")
    guests.served.clear()


async def test_while_the_processor_is_short_a_client_holds_one_place_and_who_else_comes_has_one_at_once(
    sharing: Guests,
) -> None:
    for number in range(10):
        sharing.come(f"ann {number}", "ann")
    sharing.come("bob", "bob")
    await settle()
    assert sharing.served == ["ann 0", "bob"]
    await sharing.go("bob")
    assert sharing.admission.under_way == 1, "what Ann may not have is kept for others"
    await sharing.go("ann 0")
    assert sharing.served == ["ann 0", "bob", "ann 1"]


async def test_of_a_client_with_one_place_chats_that_have_begun_leave_each_fourth_turn_to_searches(
    sharing: Guests,
) -> None:
    sharing.come("first", "ann")
    for number in range(3):
        sharing.come(f"search {number}", "ann")
    with begun():
        for number in range(7):
            sharing.come(f"chat {number}", "ann")
    await settle()
    for _ in range(10):
        await sharing.go(sharing.served[-1])
    assert sharing.served == [
        "first",
        *("chat 0", "chat 1", "chat 2", "search 0"),
        *("chat 3", "chat 4", "chat 5", "search 1"),
        *("chat 6", "search 2"),
    ]


async def test_a_client_alone_has_all_places_on_a_short_processor(sharing: Guests, clock: Clock) -> None:
    clock.now += 11  # Bob has gone
    sharing.fill("ann")
    await settle()
    assert sharing.admission.under_way == LEAST


async def test_who_waits_for_more_than_a_share_gets_it_when_the_processor_is_free_again(
    sharing: Guests, clock: Clock, processor: Processor
) -> None:
    for number in range(5):
        sharing.come(f"ann {number}", "ann")
    await settle()
    processor.part = 0.1
    for _ in range(4):
        clock.now += 0.2
        sharing.come("bob", "bob")
        await settle()
        await sharing.go("bob")
    assert sharing.admission.under_way == 5


async def test_what_waits_for_something_else_than_the_processor_has_all_places(
    sharing: Guests, clock: Clock, processor: Processor
) -> None:
    processor.part = 0.2
    await pass_by(sharing, clock, seconds=10)
    sharing.fill("ann")
    await settle()
    assert sharing.admission.under_way == LEAST


async def test_who_waits_for_nobody_but_itself_is_not_refused_at_once(sharing: Guests, clock: Clock) -> None:
    await take(sharing.admission, clock, 10)
    await pass_by(sharing, clock, seconds=4)
    for number in range(50):
        sharing.come(f"ann {number}", "ann")
    await settle()
    assert sharing.admission.waiting == 49


async def test_who_waits_for_itself_for_too_long_is_refused_then(clock: Clock, processor: Processor) -> None:
    share = ClientShare(clock, processor.waited_seconds)
    async with guests_of(Admission(share=share, max_wait_seconds=0.001, clock=clock)) as guests:
        processor.part = 0.9
        await pass_by(guests, clock, seconds=4)
        guests.come("ann", "ann")
        with pytest.raises(ResourceExhaustedError, match="try again later"):
            await guests.come("patient", "ann")


def test_the_system_tells_how_long_a_thread_has_waited_for_a_processor() -> None:
    assert processor_wait_seconds() >= 0


def test_outside_a_request_there_is_no_place_to_give_back() -> None:
    give_place_back()
