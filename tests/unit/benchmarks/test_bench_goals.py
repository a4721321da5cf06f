import math

import pytest
from groundline_benchmarks.measuring.goals import Goal, goals_as_json, print_goals
from groundline_benchmarks.measuring.load import services_to_postgres
from groundline_benchmarks.measuring.suite import SERVICES


def test_a_goal_is_missed_on_the_wrong_side_of_its_limit() -> None:
    assert not Goal("ratio", 1.31, 1.3).is_met
    assert Goal("ratio", 1.3, 1.3).is_met
    assert not Goal("share", 0.59, 0.6, is_minimum=True).is_met
    assert Goal("share", 0.6, 0.6, is_minimum=True).is_met


def test_a_missed_goal_is_marked_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    goals = [Goal("ratio", 2, 1.3), Goal("share", 0.7, 0.6, is_minimum=True)]
    print_goals(goals)
    missed, met = capsys.readouterr().out.splitlines()[2:]
    assert missed.endswith("at most 1.3   missed")
    assert met.endswith("at least 0.6")
    assert goals_as_json(goals) == [
        {"name": "ratio", "figure": 2, "atMost": 1.3, "met": False},
        {"name": "share", "figure": 0.7, "atLeast": 0.6, "met": True},
    ]


def test_processor_time_of_the_services_leaves_gateway_and_supervisor_out() -> None:
    taken = dict.fromkeys(SERVICES, 2.0) | {"postgres": 5.0, "envoy": 100.0, "groundline up": 100.0}
    assert services_to_postgres(taken) == pytest.approx(2 * len(SERVICES) / 5)


def test_a_database_that_took_less_than_a_tick_of_the_clock_gives_no_figure() -> None:
    ratio = services_to_postgres(dict.fromkeys(SERVICES, 10.0) | {"postgres": 0.0})
    assert ratio == math.inf
    assert goals_as_json([Goal("ratio", ratio, 1)]) == [
        {"name": "ratio", "figure": None, "atMost": 1, "met": False}
    ]
