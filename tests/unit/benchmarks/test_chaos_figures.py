"""Figures and goals of `groundline bench chaos`, on invented requests."""

import json

import httpx
import pytest
from groundline_benchmarks.chaos.benchmark import FaultFigures
from groundline_benchmarks.chaos.faults import FAULTS, Bounds
from groundline_benchmarks.chaos.load import Asked, Kind, Load, Outcome, marker

STRICT = Bounds(
    failed_percent=2,
    cut=0,
    slowest_seconds=15,
    slowest_later_seconds=5,
    well_after_seconds=5,
    unready_after_seconds=5,
    is_ready=True,
)


def figures(*asked: Asked, bounds: Bounds = STRICT) -> FaultFigures:
    """Return the figures of a fault from second 10 to second 20, which health reports after two."""
    return FaultFigures("f", bounds, asked=asked, begin=10, end=20, health=[(9, True), (12, False)])


def missed(found: FaultFigures) -> set[str]:
    return {goal.name for goal in found.goals() if not goal.is_met}


def search(begun: float, outcome: Outcome = Outcome.OK, seconds: float = 0.1) -> Asked:
    return Asked(Kind.SEARCH, begun, seconds, outcome)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ([search(1, Outcome.WRONG)], "silently wrong"),
        ([search(1, Outcome.CUT)], "streams cut without an end"),
        ([search(11, Outcome.FAILED)], "failed during the fault, percent"),
        ([search(1, seconds=16)], "slowest, s"),
        ([search(14, seconds=6)], "slowest from 3 s on, s"),
        ([search(26, Outcome.FAILED)], "last failure after the end, s"),
    ],
)
def test_a_single_bad_request_misses_its_bound_alone(asked: list[Asked], name: str) -> None:
    assert missed(figures(search(15), *asked)) == {name, "times unready"}


def test_lost_and_doubled_documents_and_health_miss_their_bounds() -> None:
    found = figures(search(15))
    found.lost, found.doubled, found.health = ["a"], ["b"], [(9, True), (16, False)]
    found.is_settled = False
    assert missed(found) == {
        "acknowledged documents lost",
        "documents doubled",
        "ingestion still unfinished after two minutes",
        "unready after, s",
        "times unready",
    }


def test_what_is_not_asked_of_a_fault_is_no_goal() -> None:
    names = [goal.name for goal in figures(search(15), bounds=Bounds()).goals()]
    assert names == [
        "silently wrong",
        "acknowledged documents lost",
        "documents doubled",
        "ingestion still unfinished after two minutes",
    ]


def test_hand_ins_and_what_begins_before_are_no_part_of_the_failed_share() -> None:
    hand_in = Asked(Kind.INGEST, 15, 0.1, Outcome.FAILED)
    found = figures(search(9, Outcome.FAILED), search(15), search(16, Outcome.DEGRADED), hand_in)
    assert found.failed_percent == 0
    assert figures(search(15), search(16, Outcome.FAILED)).failed_percent == 50


def test_a_search_that_fails_or_gives_another_reason_than_it_may_is_said() -> None:
    bounds = Bounds(failed_searches=0, reasons=frozenset({"BUSY"}))
    busy = Asked(Kind.CHAT, 15, 0.1, Outcome.FAILED, "BUSY")
    other = Asked(Kind.SEARCH, 15, 0.1, Outcome.FAILED, "INTERNAL")
    assert missed(figures(search(15), busy, bounds=bounds)) == set()
    assert missed(figures(other, bounds=bounds)) == {
        "searches failed during the fault",
        "failed for another reason",
    }


def test_calls_of_a_busy_provider_are_judged_by_the_chats_that_caused_them() -> None:
    chats = [Asked(Kind.CHAT, 15, 0.1, Outcome.FAILED)] * 10
    found = figures(*chats, bounds=Bounds(calls_for_each_chat=1))
    found.refused_calls = 10
    assert missed(found) == set()
    found.refused_calls = 11
    assert missed(found) == {"refused calls for each chat"}


def test_goodput_counts_what_is_answered_while_the_overload_lasts() -> None:
    answered = [search(10 + second, seconds=0.5) for second in range(10)]
    others = [search(9, seconds=0.5), search(19, seconds=5), search(15, Outcome.FAILED)]
    found = figures(*answered, *others, bounds=Bounds(well_after_seconds=10))
    assert found.goodput == 1
    found.best_rate = 1.1
    assert missed(found) == set()
    found.best_rate = 1.2
    assert missed(found) == {"goodput / best"}


def test_a_neighbour_may_make_the_median_search_half_as_slow_again() -> None:
    found = figures(search(9, seconds=9), search(15, seconds=0.3), bounds=Bounds(slowed=1.5))
    assert missed(found) == set()
    found.alone_seconds = 0.2
    assert missed(found) == set()
    found.alone_seconds = 0.1
    assert missed(found) == {"search / alone"}


def test_markers_differ_and_none_holds_another() -> None:
    words = [marker(number) for number in range(2000)]
    assert len(set(words)) == 2000
    assert not [word for word in words if any(word in other for other in words if other != word)][:1]


def search_answer(text: str, *degraded: str) -> httpx.Response:
    passages = [{"chunk": {"text": text}}]
    return httpx.Response(200, json={"passages": passages, "degraded": [{"reason": one} for one in degraded]})


def events(*bodies: object) -> httpx.Response:
    return httpx.Response(200, text="".join(f"data: {json.dumps(body)}\n\n" for body in bodies))


def source(text: str) -> dict[str, object]:
    return {"sources": {"sources": [{"snippet": text}]}}


REFUSED = httpx.Response(503, json={"details": [{"@type": "t"}, {"reason": "UNAVAILABLE"}]})


@pytest.mark.parametrize(
    ("answer", "outcome", "reason"),
    [
        (search_answer("the word stands here"), Outcome.OK, ""),
        (search_answer("another text"), Outcome.WRONG, ""),
        (search_answer("another text", "INDEX_INCOMPLETE"), Outcome.DEGRADED, ""),
        (REFUSED, Outcome.FAILED, "UNAVAILABLE"),
        (httpx.Response(502, text="<html>"), Outcome.FAILED, "NO_JSON"),
        (ConnectionResetError(), Outcome.FAILED, "ConnectionResetError"),
        (TimeoutError(), Outcome.FAILED, "TimeoutError"),
    ],
)
async def test_a_search_is_judged_by_the_word_it_asked_for(
    answer: httpx.Response | Exception, outcome: Outcome, reason: str
) -> None:
    [asked] = await asked_of(answer, "search")
    assert (asked.kind, asked.outcome, asked.reason) == (Kind.SEARCH, outcome, reason)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (events({"started": {}}, source("word"), {"completed": {}}), Outcome.OK),
        (events({"started": {}}, source("other"), {"completed": {}}), Outcome.WRONG),
        (events({"started": {}}, source("word")), Outcome.CUT),
        (events({"started": {}}, {"error": {"reason": "UNAVAILABLE"}}), Outcome.FAILED),
        (events(source("other"), {"completed": {"degraded": [{}]}}), Outcome.DEGRADED),
        (httpx.ReadError("reset"), Outcome.CUT),
        (REFUSED, Outcome.FAILED),
    ],
)
async def test_a_chat_is_judged_by_its_end_and_its_sources(
    answer: httpx.Response | Exception, outcome: Outcome
) -> None:
    [asked] = await asked_of(answer, "chat")
    assert (asked.kind, asked.outcome) == (Kind.CHAT, outcome)


def claims(*verdicts: str) -> list[dict[str, object]]:
    return [{"claim": {"verdict": f"VERDICT_{verdict}"}} for verdict in verdicts]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (events(*claims("SUPPORTED", "REFUTED"), {"completed": {}}), Outcome.OK),
        (events(*claims("SUPPORTED", "NOT_FOUND"), {"completed": {}}), Outcome.OK),
        (events(*claims("SUPPORTED", "SUPPORTED"), {"completed": {}}), Outcome.WRONG),
        (events(*claims("NOT_FOUND", "REFUTED"), {"completed": {}}), Outcome.WRONG),
        (events(*claims("SUPPORTED", "REFUTED")), Outcome.CUT),
        (events({"started": {}}, {"error": {"reason": "UNAVAILABLE"}}), Outcome.FAILED),
        (events(*claims("NOT_FOUND", "NOT_FOUND"), {"completed": {"degraded": [{}]}}), Outcome.DEGRADED),
        (httpx.ReadError("reset"), Outcome.CUT),
        (REFUSED, Outcome.FAILED),
    ],
)
async def test_a_verification_is_judged_by_its_verdicts_on_a_true_and_a_false_claim(
    answer: httpx.Response | Exception, outcome: Outcome
) -> None:
    [asked] = await asked_of(answer, "verify")
    assert (asked.kind, asked.outcome) == (Kind.VERIFY, outcome)


async def asked_of(answer: httpx.Response | Exception, what: str) -> list[Asked]:
    def respond(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def post_search(_body: object) -> tuple[int, str]:
        response = respond(httpx.Request("POST", "http://gateway"))
        return response.status_code, response.text

    transport = httpx.MockTransport(respond)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        load = Load(client, post_search, known=["word"])
        await getattr(load, what)()
    return load.asked


def test_every_fault_has_bounds_and_says_what_it_is() -> None:
    for fault in FAULTS.values():
        assert fault.summary.endswith(".")
        assert fault.bounds != Bounds()
