"""Figures of answers against values computed by hand."""

from collections.abc import Sequence
from typing import Any

import pytest
from groundline_cli.evaluation.answers import Outcome, answer_figures, contains
from groundline_cli.evaluation.figures import (
    ANSWER_MEASURES,
    calibration_bins,
    lowest_confidence,
    risk_coverage,
)
from groundline_cli.evaluation.sets import Query
from groundline_client.models import AnswerResponse, ChatCompleted, Citation, FinishReason, Source, Validation

HIGH = Query("q", "How high?", {"tower": 1, "plan": 1}, ["308 m"])
UNKNOWN = Query("q", "How old?", {}, answerable=False)


def outcome(text: str, *cited: str, **fields: Any) -> Outcome:
    """Return an answer that cites these documents."""
    given: dict[str, Any] = {
        "refused": False, "confidence": 0.8, "raw_confidence": 0.8, "grounded": True, "issues": [],
        "degraded": False, "model": "m",
    }  # fmt: skip
    return Outcome(answer=text, citations=cited, sources=[], **{**given, **fields})


def measured(name: str, rows: Sequence[dict[str, float]]) -> float:
    """Return a measure of questions with these figures."""
    measure = next(one for one in ANSWER_MEASURES if one.name == name)
    return measure.statistic(measure.items(rows))


def test_a_question_without_an_answer_has_no_figures() -> None:
    assert answer_figures(HIGH, Outcome.failed("too long")) == {}


def test_a_refusal_has_figures_of_refusing_alone() -> None:
    refusal = outcome("308 m is not said", refused=True)
    assert answer_figures(HIGH, refusal) == {"answered": 0, "contains": 0}
    assert answer_figures(UNKNOWN, refusal) == {"refused": 1}


def test_an_answer_to_what_the_documents_do_not_say_is_wrong() -> None:
    figures = answer_figures(UNKNOWN, outcome("80 years [1].", "tower"))
    assert (figures["refused"], figures["right"], figures["grounded_though_wrong"]) == (0, 0, 1)
    assert figures["brier"] == pytest.approx(0.64)
    assert "cited_precision" not in figures


def test_citations_are_measured_as_a_ranking_of_documents() -> None:
    figures = answer_figures(HIGH, outcome("It is 308 M, high.", "other", "tower", "other", ""))
    assert figures["contains"] == figures["right"] == 1
    assert figures["cited_precision"] == pytest.approx(1 / 3)
    assert figures["cited_recall"] == 0.5
    assert figures["cited_mrr"] == 0.5
    assert "grounded_though_wrong" not in figures


def test_without_an_accepted_answer_the_citation_decides_what_is_right() -> None:
    query = Query("q", "How high?", {"tower": 1})
    assert answer_figures(query, outcome("Very.", "other", "tower"))["right"] == 1
    figures = answer_figures(query, outcome("Very.", "other"))
    assert figures["right"] == 0
    assert "contains" not in figures


@pytest.mark.parametrize(
    ("text", "accepted", "found"),
    [
        ("It has 1.8 Nm.", ["1.8 nm"], True),
        ("It has 11.8 Nm.", ["1.8 nm"], False),
        ("\N{LATIN SMALL LIGATURE FI}ve (5)", ["six", "five"], True),
        ("", ["x"], False),
        ("Two days [1] [2, 3].", ["1", "3"], False),
    ],
)
def test_an_accepted_answer_is_found_as_whole_words(text: str, accepted: list[str], found: bool) -> None:
    assert contains(text, accepted) is found


def test_calibration_compares_what_is_stated_with_what_is_right() -> None:
    rows = [(0.95, 1.0), (0.91, 0.0), (1.0, 1.0), (0.1, 1.0), (0.19, 0.0)]
    assert [(number, round(stated, 3), right) for number, stated, right in calibration_bins(rows)] == [
        (2, 0.145, 0.5),
        (3, 0.953, 2 / 3),
    ]
    figures = [{"confidence": confidence, "right": right} for confidence, right in rows]
    expected = 2 / 5 * (0.5 - 0.145) + 3 / 5 * (2.86 / 3 - 2 / 3)
    assert measured("calibration_error", [*figures, {"answered": 0}]) == pytest.approx(expected)


def test_risk_is_the_share_of_wrong_answers_among_the_most_confident() -> None:
    rows = [(0.5, 0.0), (0.9, 1.0), (0.5, 1.0), (0.2, 0.0)]
    assert risk_coverage(rows) == [(0.25, 0), (0.75, pytest.approx(1 / 3)), (1, 0.5)]
    figures = [{"confidence": confidence, "right": right} for confidence, right in rows]
    assert measured("risk_coverage_area", figures) == pytest.approx(0.5 / 3 + 0.25 * 0.5)


def test_a_line_is_the_lowest_confidence_that_keeps_a_share_right() -> None:
    rows = [(0.9, 1.0), (0.8, 1.0), (0.8, 1.0), (0.6, 0.0), (0.5, 1.0), (0.1, 0.0)]
    assert lowest_confidence(rows, 0.95) == (0.8, 0.5)
    # One wrong answer above it is made good by the right ones below.
    assert lowest_confidence(rows, 0.8) == (0.5, 5 / 6)
    assert lowest_confidence(rows, 0.5) == (0.1, 1)
    assert lowest_confidence([(0.9, 0.0), (0.2, 1.0)], 0.95) is None


def test_a_response_is_kept_as_far_as_it_is_measured() -> None:
    response = AnswerResponse(
        answer="308 m [2].",
        sources=[Source(number=1, uri="plan"), Source(number=2, uri="tower")],
        completed=ChatCompleted(
            finish_reason=FinishReason.STOP,
            citations=[Citation(source_number=2), Citation(source_number=9)],
            validation=Validation(grounded=True, confidence=0.7),
            model="extractive",
        ),
    )
    kept = Outcome.of(response)
    assert (kept.citations, kept.sources) == (["tower", ""], ["plan", "tower"])
    assert (kept.refused, kept.grounded, kept.confidence, kept.model) == (False, True, 0.7, "extractive")
    assert Outcome(**kept.as_json()) == kept
