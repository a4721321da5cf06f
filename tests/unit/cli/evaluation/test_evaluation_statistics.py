"""Intervals and tests against what is known of them."""

import math
from collections.abc import Sequence
from statistics import fmean

import pytest
from groundline_cli.evaluation.statistics import bootstrap_interval, randomisation_test


def mean(items: Sequence[float]) -> float:
    return fmean(items)


def test_an_interval_holds_the_figure_and_is_as_wide_as_theory_says() -> None:
    values = [1.0] * 60 + [0.0] * 40
    low, high = bootstrap_interval(values, mean)
    half = 1.96 * math.sqrt(0.6 * 0.4 / 100)
    assert low == pytest.approx(0.6 - half, abs=0.02)
    assert high == pytest.approx(0.6 + half, abs=0.02)


def test_an_interval_is_the_same_each_time() -> None:
    values = [number / 7 % 1 for number in range(30)]
    assert bootstrap_interval(values, mean) == bootstrap_interval(values, mean)


def test_equal_values_have_an_interval_without_width() -> None:
    assert bootstrap_interval([0.5] * 9, mean) == (0.5, 0.5)


def test_equal_runs_do_not_differ() -> None:
    assert randomisation_test([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], mean) == 1


def test_a_single_question_cannot_differ_significantly() -> None:
    assert randomisation_test([1.0] * 10, [*[1.0] * 9, 0.0], mean) == 1


def test_the_probability_is_near_the_exact_one() -> None:
    # Eight questions of twenty got worse and none better: 2 of the 2 ** 8 ways to swap are as extreme.
    before, after = [1.0] * 20, [0.0] * 8 + [1.0] * 12
    assert randomisation_test(before, after, mean) == pytest.approx(2 / 2**8, abs=0.005)
    # Five questions are better and five are worse: the runs do not differ.
    assert randomisation_test([1.0, 0.0] * 5, [0.0, 1.0] * 5, mean) == 1
