"""Results: what was measured of each question of a set, and the figures of all of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Final

from groundline_cli.evaluation.answers import Outcome, answer_figures
from groundline_cli.evaluation.asking import JudgedClaim, RankedDocuments
from groundline_cli.evaluation.figures import ANSWERS, lowest_confidence, measures_of
from groundline_cli.evaluation.measures import DEPTHS, kappa, ranking_measures
from groundline_cli.evaluation.sets import EvaluationSet, Query
from groundline_cli.evaluation.statistics import bootstrap_interval

OPERATING_SHARES: Final = (0.9, 0.95, 0.99)
"""Shares of right answers for which a confidence is looked for."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the interval that it lies in at 95 %, over a number of questions."""

    value: float
    low: float
    high: float
    questions: int


@dataclass(frozen=True, slots=True)
class OperatingLine:
    """Confidence at which answers could be given without a person's look."""

    right: float
    """Least share of right answers at and above the confidence."""
    confidence: float
    share: float
    """Share of the given answers that reach it."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of the suite's judges of claims with a person's labels."""

    kappa: Estimate
    """Cohen's kappa; its questions are claims."""
    judges: Mapping[str, int]
    """Number of claims that each judge decided: rules, reader, or a language model by name."""
    degraded: int
    """Number of claims for which a judge failed or was not believed."""

    @classmethod
    def of(cls, judged: Sequence[JudgedClaim]) -> "Agreement":
        """Return the agreement on at least one claim."""
        pairs = [(one.label, one.verdict) for one in judged]
        estimate = Estimate(kappa(pairs), *bootstrap_interval(pairs, kappa), len(pairs))
        judges = Counter[str]()
        for one in judged:
            judges.update(one.judges)
        return cls(estimate, dict(judges.most_common()), sum(one.degraded for one in judged))

    def as_text(self) -> str:
        """Return it in one line."""
        judges = ", ".join(f"{judge} {count}" for judge, count in self.judges.items())
        one = self.kappa
        degraded = f"; {self.degraded} of them degraded" if self.degraded else ""
        return (
            f"agreement of the judge with labels (kappa): {one.value:.3f} ({one.low:.3f}–{one.high:.3f}) "
            f"of {one.questions} claims, decided by {judges}{degraded}"
        )


@dataclass(slots=True)
class QuestionRecord:
    """Figures of a question, and what they were taken of."""

    id: str
    text: str
    answerable: bool
    answers: Sequence[str] = ()
    relevant: Sequence[str] = ()
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """Figures by group (a retrieval mode, or answers) and name."""
    rankings: dict[str, Sequence[str]] = field(default_factory=dict)
    """Documents found by each retrieval mode, as far as they are measured."""
    outcome: Outcome | None = None
    kind: str = ""

    def verdict(self) -> str:
        """Return what went wrong; "" if nothing did."""
        answer = self.figures.get(ANSWERS, {})
        if self.outcome is not None and self.outcome.error:
            return "no answer"
        if answer.get("refused") == 0:
            return "answered, though it cannot be"
        if answer.get("answered") == 0:
            return "refused, though it can be answered"
        if answer.get("right") == 0:
            return "no accepted answer" if self.answers else "no relevant document cited"
        if answer.get("cited_recall") == 0:
            return "right, but no relevant document cited"
        missed = [
            mode
            for mode, figures in self.figures.items()
            if mode != ANSWERS and figures.get("recall@10") == 0
        ]
        return f"not among the first 10: {', '.join(missed)}" if missed else ""


@dataclass(slots=True)
class Evaluation:
    """Measurement of a set."""

    name: str
    documents: int
    skipped: Mapping[str, int]
    """Numbers of what was passed over, by kind."""
    questions: list[QuestionRecord]
    degraded: dict[str, int] = field(default_factory=dict)
    """Number of degraded searches or answers, by group; they say little about it."""
    failed: int = 0
    """Number of questions that got no answer, but an error."""
    agreement: Agreement | None = None
    """Agreement of the judge with the set's labelled claims, if it was measured."""

    @classmethod
    def of(cls, dataset: EvaluationSet, queries: Sequence[Query]) -> "Evaluation":
        """Begin the measurement of these queries of a set."""
        records = [
            QuestionRecord(
                query.query_id,
                query.text,
                query.answerable,
                list(query.answers),
                list(query.relevance),
                kind=query.kind,
            )
            for query in queries
        ]
        return cls(dataset.name, len(dataset.contents), dict(dataset.skipped), records)

    def add_rankings(
        self, mode: str, rankings: Mapping[str, RankedDocuments], dataset: EvaluationSet
    ) -> None:
        """Enter what a retrieval mode found."""
        queries = {query.query_id: query for query in dataset.queries}
        self.degraded[mode] = sum(ranking.degraded for ranking in rankings.values())
        for record in self.questions:
            if ranking := rankings.get(record.id):
                record.rankings[mode] = ranking.documents[: max(DEPTHS)]
                record.figures[mode] = ranking_measures(
                    queries[record.id], ranking.documents, dataset.contents
                )

    def add_outcomes(self, outcomes: Mapping[str, Outcome], dataset: EvaluationSet) -> None:
        """Enter the answers."""
        queries = {query.query_id: query for query in dataset.queries}
        self.degraded[ANSWERS] = sum(outcome.degraded for outcome in outcomes.values())
        self.failed = sum(bool(outcome.error) for outcome in outcomes.values())
        for record in self.questions:
            if outcome := outcomes.get(record.id):
                record.outcome = outcome
                record.figures[ANSWERS] = answer_figures(queries[record.id], outcome)

    def groups(self) -> list[str]:
        """Return the groups of figures, in the order they were measured."""
        return list(dict.fromkeys(group for record in self.questions for group in record.figures))

    def figures(self, group: str) -> list[dict[str, float]]:
        """Return the figures of each question of a group."""
        return [record.figures[group] for record in self.questions if group in record.figures]

    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """Return each measure that some question has figures for, by group and name."""
        found: dict[str, dict[str, Estimate]] = {}
        for group in self.groups():
            figures = self.figures(group)
            for measure in measures_of(group):
                if items := measure.items(figures):
                    low, high = bootstrap_interval(items, measure.statistic)
                    estimate = Estimate(measure.statistic(items), low, high, len(items))
                    found.setdefault(group, {})[measure.name] = estimate
        return found

    def kinds(self) -> dict[str, Estimate]:
        """Return the share of questions that nothing went wrong with, by kind if the set tells kinds."""
        well: dict[str, list[float]] = {}
        for record in self.questions:
            if record.kind and record.figures:
                well.setdefault(record.kind, []).append(float(not record.verdict()))
        return {
            kind: Estimate(fmean(one), *bootstrap_interval(one, fmean), len(one))
            for kind, one in well.items()
        }

    def lines(self) -> list[OperatingLine]:
        """Return, for each share of right answers that people ask for, the confidence that reaches it."""
        items = [(one["confidence"], one["right"]) for one in self.figures(ANSWERS) if "confidence" in one]
        return [
            OperatingLine(right, *found)
            for right in OPERATING_SHARES
            if items and (found := lowest_confidence(items, right)) is not None
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the figures of the whole set for programs."""
        return {
            "set": self.name,
            "documents": self.documents,
            "questions": len(self.questions),
            "skipped": dict(self.skipped),
            "degraded": self.degraded,
            "failed": self.failed,
            "judge": asdict(self.agreement) if self.agreement else None,
            "kinds": {kind: asdict(estimate) for kind, estimate in self.kinds().items()},
            "lines": [asdict(line) for line in self.lines()],
            "measures": {
                group: {name: asdict(estimate) for name, estimate in measures.items()}
                for group, measures in self.estimates().items()
            },
        }

    def records_as_json(self) -> list[dict[str, Any]]:
        """Return what was measured of each question for programs."""
        return [asdict(record) for record in self.questions]
