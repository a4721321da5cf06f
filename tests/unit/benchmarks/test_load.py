"""`groundline bench load`: its arrivals, its clock, and what it finds in outcomes."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from click.testing import CliRunner
from groundline_benchmarks.command import bench
from groundline_benchmarks.load.arrivals import Ramp, drawn, paced
from groundline_benchmarks.load.figures import LoadFigures, Window, knee
from groundline_benchmarks.load.page import page_of
from groundline_benchmarks.load.sending import Ended, Reply, Sent, send

WITHIN = 1.0


def moments(ramp: Ramp, seed: int = 1) -> list[float]:
    return ramp.moments(np.random.default_rng(seed))


@pytest.mark.parametrize("arguments", [["--rate", "0"], ["--rate", "5.."], ["--rate", "fast"]])
def test_a_rate_that_is_none_is_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(bench, ["load", *arguments])
    assert result.exit_code == 2
    assert "rate" in result.output


@pytest.mark.parametrize("mix", ["searches=1", "search=0", "search=x", "search=1,search=2", ""])
def test_a_mix_of_unknown_kinds_or_weights_is_refused(mix: str) -> None:
    result = CliRunner().invoke(bench, ["load", "--mix", mix])
    assert result.exit_code == 2
    assert "--mix" in result.output


def test_a_gateway_at_hand_needs_a_key() -> None:
    result = CliRunner(env={"GROUNDLINE_API_KEY": ""}).invoke(bench, ["load", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 2
    assert "GROUNDLINE_API_KEY" in result.output


def test_the_same_seed_draws_the_same_arrivals_and_another_does_not() -> None:
    ramp = Ramp(5, 50, 60)
    assert moments(ramp) == moments(ramp)
    assert moments(ramp) != moments(ramp, seed=2)


def test_arrivals_in_a_second_have_the_rate_as_mean_and_as_variance() -> None:
    counts = np.histogram(moments(Ramp(20, 20, 5_000)), bins=5_000, range=(0, 5_000))[0]
    assert counts.mean() == pytest.approx(20, rel=0.02)
    assert counts.var() == pytest.approx(20, rel=0.1)  # of even spacing it would be 0


def test_times_between_arrivals_are_exponential() -> None:
    between = np.diff(moments(Ramp(20, 20, 5_000)))
    assert between.mean() == pytest.approx(1 / 20, rel=0.02)
    assert between.std() == pytest.approx(1 / 20, rel=0.05)


@pytest.mark.parametrize(("first", "last"), [(5.0, 50.0), (50.0, 5.0)])
def test_a_ramp_has_at_each_time_the_rate_that_is_due(first: float, last: float) -> None:
    ramp = Ramp(first, last, 1_000)
    arrivals = moments(ramp)
    assert arrivals == sorted(arrivals)
    assert 0 <= arrivals[0] <= arrivals[-1] <= 1_000
    counts = np.histogram(arrivals, bins=10, range=(0, 1_000))[0]
    for number, count in enumerate(counts):
        assert count / 100 == pytest.approx(ramp.rate_at(100 * number + 50), rel=0.15)


def test_kinds_come_as_often_as_their_weights_say() -> None:
    plan = drawn({"search": 8.0, "chat": 2.0}, [0.0] * 10_000, np.random.default_rng(1))
    assert Counter(kind for _, kind in plan)["chat"] == pytest.approx(2_000, rel=0.1)


async def test_what_is_late_comes_at_once() -> None:
    begun = time.perf_counter() - 5
    plan = [(float(number), number) for number in range(5)]
    assert [one async for _, one in paced(plan, begun)] == list(range(5))


@pytest.fixture
async def stalling() -> AsyncIterator[str]:
    """A server that stalls for a second at its sixth request, as in a pause of its garbage collector."""
    numbers = itertools.count()
    pause = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        number = next(numbers)
        if number == 5:
            asyncio.get_running_loop().call_later(1.0, pause.set)
        if number >= 5:
            await pause.wait()
        return web.Response()

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def test_a_server_that_stalls_shows_in_the_tail(stalling: str) -> None:
    """A client that asks again only after an answer would meet the pause once in fifty requests; here all
    that were due during it have waited."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(_: str) -> Reply:
            async with session.get(stalling):
                return Reply(Ended.ANSWERED)

        plan = [(number / 50, "search") for number in range(50)]
        sent = await send(plan, ask, max_in_flight=1_000)
    assert len(sent) == 50
    assert sum(one.seconds > 0.25 for one in sent) >= 20
    assert max(one.seconds for one in sent) >= 0.9


async def test_the_senders_own_lag_is_in_the_duration_and_makes_the_run_invalid() -> None:
    async def ask(kind: str) -> Reply:
        if kind == "blocks":
            time.sleep(0.3)  # noqa: ASYNC251 (holds up the sender, as too much work would)
        return Reply(Ended.ANSWERED)

    plan = [(0.0, "blocks"), *((0.01, "search") for _ in range(20))]
    sent = await send(plan, ask, max_in_flight=100)
    late = [one for one in sent if one.kind == "search"]
    assert all(one.seconds >= one.lag >= 0.2 for one in late)
    assert not figures_of(sent).is_valid


async def test_what_is_due_beyond_the_limit_is_counted_and_not_sent() -> None:
    together = asyncio.Barrier(2)

    async def ask(_: str) -> Reply:
        await together.wait()  # both are in flight at the same time
        return Reply(Ended.ANSWERED)

    sent = await send([(0.0, "search")] * 5, ask, max_in_flight=2)
    assert Counter(one.ended for one in sent) == {Ended.ANSWERED: 2, Ended.NOT_SENT: 3}


def part(rate: float, *, p99: float = 0.1, answered: int = 100, failed: int = 0) -> Window:
    counts = Counter({Ended.ANSWERED: answered, Ended.REFUSED: failed})
    return Window(0.0, rate, rate, rate, counts, (p99,) * 3 if answered else ())


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([part(10), part(20), part(30, p99=1.1)], 20),
        ([part(10), part(20, failed=2), part(30)], 10),
        ([part(10, p99=2.0), part(20)], None),
        ([part(10), part(20, answered=0, failed=5)], 10),
        ([part(30, p99=2.0), part(10), part(20)], 20),
        ([part(10), part(20, failed=1)], 20),
    ],
    ids=["slow", "a dip that recovers", "never", "nothing answered", "a falling ramp", "within the bound"],
)
def test_the_knee_is_the_highest_rate_up_to_which_every_part_held(
    windows: list[Window], expected: float | None
) -> None:
    assert knee(windows, WITHIN) == expected


def figures_of(sent: list[Sent], ramp: Ramp | None = None) -> LoadFigures:
    return LoadFigures(ramp or Ramp(10, 20, 10), {"search": 1.0, "chat": 1.0}, WITHIN, sent)


def test_a_request_belongs_to_the_part_in_which_it_was_due_however_late_it_ends() -> None:
    sent = [
        Sent("search", 0.5, Ended.ANSWERED, seconds=9.0),
        Sent("search", 9.99, Ended.ANSWERED, seconds=0.1),
    ]
    first, *others, last = figures_of(sent).windows
    assert (first.waited[-1], last.waited[-1]) == (9.0, 0.1)
    assert (first.goodput, last.goodput) == (0, 1)
    assert not any(sum(one.counts.values()) for one in others)


def test_a_stream_counts_by_its_first_text() -> None:
    chat = Sent("chat", 0.0, Ended.ANSWERED, seconds=20.0, first_seconds=0.2)
    assert figures_of([chat]).of_kind("chat").waited == (0.2,) * 3


def test_refusals_stand_apart_from_errors_in_the_json_and_on_the_page() -> None:
    sent = [
        Sent("search", 1.0, Ended.REFUSED, reason="429"),
        Sent("search", 1.0, Ended.FAILED, reason="500"),
        Sent("search", 1.0, Ended.ANSWERED, seconds=0.25),
    ]
    figures = figures_of(sent)
    kinds = figures.as_json()["kinds"]["search"]["counts"]
    assert (kinds[Ended.REFUSED], kinds[Ended.FAILED], kinds[Ended.ANSWERED]) == (1, 1, 1)
    assert figures.as_json()["durations"] == [0.25]
    page = page_of(figures)
    assert "without an answer: 1 for 429" in page
    assert "://" not in page.replace("http://www.w3.org", "")
    assert page.count("<svg") == 2
