"""Figures of a whole set, out of those of its questions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from groundline_cli.evaluation.measures import DEPTHS, RANK_DEPTH

ANSWERS: Final = "answers"
"""Group of the figures of answers; those of retrieval are in groups named for their modes."""

CALIBRATION_BINS: Final = 10

type Items = Sequence[Sequence[float]]
"""Figures of the questions that a measure is taken of, a row for each question."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a set of questions."""

    name: str
    title: str
    columns: Sequence[str]
    """Figures of a question that it is made of."""
    statistic: Callable[[Items], float]
    higher_is_better: bool = True

    def items(self, questions: Iterable[Mapping[str, float]]) -> list[tuple[float, ...]]:
        """Return the rows of the questions that have all of its columns."""
        return [
            tuple(one[column] for column in self.columns)
            for one in questions
            if all(column in one for column in self.columns)
        ]


def calibration_bins(items: Items) -> list[tuple[int, float, float]]:
    """Return number, mean confidence and share of right answers of each tenth of the confidence's range that
    is not empty, for rows of confidence and right (1) or wrong (0)."""
    parts: dict[int, list[Sequence[float]]] = {}
    for item in items:
        parts.setdefault(min(int(item[0] * CALIBRATION_BINS), CALIBRATION_BINS - 1), []).append(item)
    return [
        (len(part), fmean(item[0] for item in part), fmean(item[1] for item in part))
        for _, part in sorted(parts.items())
    ]


def risk_coverage(items: Items) -> list[tuple[float, float]]:
    """Return points (share that is answered, share of these that is wrong) as the confidence that is asked
    for falls; answers of equal confidence come together (El-Yaniv and Wiener, JMLR 2010)."""
    wrong: dict[float, list[float]] = {}
    for confidence, right in items:
        wrong.setdefault(confidence, []).append(1 - right)
    points, answered, errors = [], 0, 0.0
    for confidence in sorted(wrong, reverse=True):
        answered += len(wrong[confidence])
        errors += sum(wrong[confidence])
        points.append((answered / len(items), errors / answered))
    return points


def lowest_confidence(items: Items, right: float) -> tuple[float, float] | None:
    """Return the lowest confidence from which on at least a share `right` of the answers are right, and the
    share of answers that reach it; None if no confidence does. Rows are as for `calibration_bins`."""
    found = None
    for confidence, (share, risk) in zip(
        sorted({item[0] for item in items}, reverse=True), risk_coverage(items), strict=True
    ):
        if 1 - risk >= right:
            found = (confidence, share)
    return found


def _mean(items: Items) -> float:
    return fmean(item[0] for item in items)


def _calibration_error(items: Items) -> float:
    """Compute the expected calibration error (Naeini et al., AAAI 2015)."""
    return sum(count * abs(stated - right) for count, stated, right in calibration_bins(items)) / len(items)


def _risk_coverage_area(items: Items) -> float:
    """Compute the mean risk over all coverages: each answer at the risk of its confidence."""
    points = risk_coverage(items)
    shares = [share - before for (share, _), (before, _) in zip(points, [(0.0, 0.0), *points], strict=False)]
    return sum(share * risk for share, (_, risk) in zip(shares, points, strict=True))


def _mean_of(name: str, title: str, *, higher_is_better: bool = True) -> Measure:
    return Measure(name, title, (name,), _mean, higher_is_better)


RETRIEVAL_MEASURES: Final = (
    *(_mean_of(f"recall@{k}", f"R@{k}") for k in DEPTHS),
    _mean_of(f"mrr@{RANK_DEPTH}", f"MRR@{RANK_DEPTH}"),
    _mean_of(f"ndcg@{RANK_DEPTH}", f"NDCG@{RANK_DEPTH}"),
    *(_mean_of(f"content@{k}", f"C@{k}") for k in DEPTHS),
)
ANSWER_MEASURES: Final = (
    _mean_of("contains", "contains an accepted answer"),
    _mean_of("answered", "answered, of the answerable"),
    _mean_of("refused", "refused, of the unanswerable"),
    _mean_of("cited_precision", "cited precision"),
    _mean_of("cited_recall", "cited recall"),
    _mean_of("cited_mrr", "cited MRR"),
    _mean_of("right", "right, of those given"),
    _mean_of("grounded", "grounded, of those given"),
    _mean_of("grounded_though_wrong", "grounded, of the wrong ones", higher_is_better=False),
    Measure(
        "calibration_error",
        "expected calibration error",
        ("confidence", "right"),
        _calibration_error,
        higher_is_better=False,
    ),
    _mean_of("brier", "Brier score", higher_is_better=False),
    Measure(
        "risk_coverage_area",
        "area under risk–coverage",
        ("confidence", "right"),
        _risk_coverage_area,
        higher_is_better=False,
    ),
)


def measures_of(group: str) -> Sequence[Measure]:
    """Return the measures of a group of figures."""
    return ANSWER_MEASURES if group == ANSWERS else RETRIEVAL_MEASURES
