"""Maps of confidence: they rise, they say what is right, and are measured on what they were not fitted on."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from groundline_cli.evaluation.calibrating import cross_validated, fitted, mapped
from groundline_cli.evaluation.figures import ANSWER_MEASURES

[ERROR] = [one.statistic for one in ANSWER_MEASURES if one.name == "calibration_error"]


def answers(number: int, chance: Callable[[float], float]) -> list[tuple[float, float]]:
    """Draw answers, of which those of a confidence are right with the chance that belongs to it."""
    rng = random.Random(5)
    stated = [rng.random() for _ in range(number)]
    return [(one, float(rng.random() < chance(one))) for one in stated]


@pytest.mark.parametrize("number", [40, 99, 100, 400, 5000])
@pytest.mark.parametrize(
    "chance",
    [lambda stated: stated**3, lambda stated: 0.4 + stated / 2, lambda _stated: 0.7],
    ids=["overconfident", "compressed", "blind"],
)
def test_a_map_rises_and_has_few_points(number: int, chance: Callable[[float], float]) -> None:
    points = fitted(answers(number, chance))
    assert 2 <= len(points) <= 20
    assert all(0 <= value <= 1 for point in points for value in point)
    for (before, below), (after, above) in pairwise(points):
        assert before < after
        assert below <= above


@pytest.mark.parametrize("number", [99, 400])
def test_a_wrong_confidence_becomes_right_on_answers_that_were_left_out(number: int) -> None:
    given = answers(number, lambda stated: stated**3)
    assert len(cross_validated(given)) == number
    assert ERROR(cross_validated(given)) < ERROR(given) / 1.5


def test_a_confidence_that_says_the_opposite_is_not_turned_round() -> None:
    given = answers(60, lambda stated: 1 - stated)
    points = fitted(given)
    assert mapped(points, 1.0) == pytest.approx(mapped(points, 0.0), abs=0.01)


@pytest.mark.parametrize("number", [60, 400])
def test_equal_confidences_have_one_probability(number: int) -> None:
    given = [(0.8, float(place % 4 > 0)) for place in range(number)]
    assert mapped(fitted(given), 0.8) == pytest.approx(0.75, abs=0.03)


def test_between_points_a_map_is_straight_and_beyond_them_level() -> None:
    points = [(0.2, 0.1), (0.6, 0.5)]
    assert [mapped(points, stated) for stated in (0.0, 0.2, 0.4, 0.6, 1.0)] == pytest.approx(
        [0.1, 0.1, 0.3, 0.5, 0.5]
    )
