"""Goals of `groundline bench soak`, on invented figures."""

from collections.abc import Mapping

import pytest
from groundline_benchmarks.measuring.processes import Held
from groundline_benchmarks.soak.benchmark import SoakFigures

WARM = Held(processes=20, memory_mib=100, descriptors=1_000, connections=20, threads=20)


def missed(name: str, after: Held, failures: Mapping[str, int] | None = None) -> set[str]:
    found = SoakFigures(10, 15_000, failures or {}, {name: WARM}, {name: after})
    return {goal.name for goal in found.goals() if not goal.is_met}


@pytest.mark.parametrize(
    ("name", "after", "expected"),
    [
        ("retriever", Held(20, 117, 1_000, 20, 20), {"retriever: memory, MiB more"}),
        ("retriever", Held(20, 100, 1_017, 20, 20), {"retriever: descriptors more"}),
        ("postgres", Held(20, 100, 1_000, 37, 20), {"postgres: connections more"}),
        ("postgres", Held(20, 100, 1_000, 20, 29), {"postgres: threads more"}),
        ("postgres", Held(20, 100, 1_000 + 15_000, 20, 20), {"postgres: descriptors more"}),
    ],
    ids=["memory", "descriptors", "connections", "threads", "a file left open by each request"],
)
def test_what_grows_misses_its_bound_alone(name: str, after: Held, expected: set[str]) -> None:
    assert missed(name, after) == expected


def test_backends_that_meet_more_tables_are_no_leak() -> None:
    assert missed("postgres", Held(20, 300, 1_282, 20, 20)) == set()


def test_a_request_that_fails_is_one_too_many() -> None:
    assert missed("retriever", WARM, failures={"chat failed OVERLOADED": 1}) == {"requests that failed"}
