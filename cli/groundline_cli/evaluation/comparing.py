"""Two measurements of the same questions, before and after a change."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from groundline_cli.evaluation.figures import Measure, measures_of
from groundline_cli.evaluation.results import Evaluation, QuestionRecord
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.evaluation.statistics import SIGNIFICANT, bootstrap_interval, randomisation_test

type _Figures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Figures of an earlier measurement, by text and id of the question, then as in a QuestionRecord."""

    figures: Mapping[tuple[str, str], _Figures]

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Baseline":
        """Return the figures of a measurement."""
        return cls({(one.text, one.id): one.figures for one in evaluation.questions})

    @classmethod
    def read(cls, path: Path) -> "Baseline":
        """Read what `--output` has written. Raises DatasetError."""
        try:
            records = json.loads(path.read_text(encoding="utf-8"))["records"]
            return cls({(one["text"], one["id"]): one["figures"] for one in records})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DatasetError(f"{path}: not what --output writes ({type(error).__name__})") from error


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure before and after, over the questions that both times have a figure."""

    group: str
    name: str
    title: str
    before: float
    after: float
    low: float
    """Lower end of the 95 % interval of the difference, after less before."""
    high: float
    probability: float
    """Probability of such a difference if nothing had changed."""
    questions: int
    drop: float
    """How much worse it has become; below 0 it is better."""
    worse: Sequence[QuestionRecord] = ()
    """Questions whose figures have become worse."""

    def is_loss(self, max_drop: float) -> bool:
        """Tell whether it has become worse by more than `max_drop`, and not by chance."""
        # Figures are sums of floats: a drop of just the maximum is allowed.
        return self.drop > max_drop + 1e-9 and self.probability < SIGNIFICANT

    def as_json(self) -> dict[str, Any]:
        """Return the fields for programs; of questions the ids alone."""
        return {**asdict(self), "worse": [record.id for record in self.worse]}


@dataclass(slots=True)
class BaselineComparison:
    """A measurement held against an earlier one."""

    common: int
    """Number of questions that both have."""
    missing: int
    """Number of questions that only the earlier one has."""
    differences: list[Difference] = field(default_factory=list)

    @classmethod
    def of(cls, baseline: Baseline, evaluation: Evaluation) -> "BaselineComparison":
        """Compare by question. Raises DatasetError if both have none in common."""
        pairs = [
            (baseline.figures[record.text, record.id], record)
            for record in evaluation.questions
            if (record.text, record.id) in baseline.figures
        ]
        if not pairs:
            raise DatasetError("the baseline has none of these questions")
        comparison = cls(len(pairs), len(baseline.figures) - len(pairs))
        for group in evaluation.groups():
            differences = (_difference(group, measure, pairs) for measure in measures_of(group))
            comparison.differences += [one for one in differences if one is not None]
        return comparison

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "common": self.common,
            "missing": self.missing,
            "differences": [one.as_json() for one in self.differences],
        }

    def losses(self, max_drop: float) -> list[Difference]:
        """Return the measures that have become worse by more than `max_drop`, and not by chance."""
        return [difference for difference in self.differences if difference.is_loss(max_drop)]


def _difference(
    group: str, measure: Measure, pairs: Sequence[tuple[_Figures, QuestionRecord]]
) -> Difference | None:
    """Return a measure's difference, or None if no question has its figures both times."""
    rows = [
        (was[0], now[0], record)
        for earlier, record in pairs
        if (was := measure.items([earlier.get(group, {})]))
        and (now := measure.items([record.figures.get(group, {})]))
    ]
    if not rows:
        return None
    earlier_items = [was for was, _, _ in rows]
    later_items = [now for _, now, _ in rows]
    sign = 1 if measure.higher_is_better else -1

    def change(resampled: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
        return measure.statistic([one[1] for one in resampled]) - measure.statistic(
            [one[0] for one in resampled]
        )

    low, high = bootstrap_interval(list(zip(earlier_items, later_items, strict=True)), change)
    first, second = measure.statistic(earlier_items), measure.statistic(later_items)
    return Difference(
        group,
        measure.name,
        measure.title,
        first,
        second,
        low,
        high,
        randomisation_test(earlier_items, later_items, measure.statistic),
        len(rows),
        sign * (first - second),
        [
            record
            for was, now, record in rows
            if sign * (measure.statistic([now]) - measure.statistic([was])) < 0
        ],
    )
