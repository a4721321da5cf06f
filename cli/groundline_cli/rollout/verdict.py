"""Decision on a release: whether it may take the place of the one before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import quantiles
from typing import Any, Final

from groundline_cli.evaluation.comparing import BaselineComparison, Difference
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.evaluation.statistics import SIGNIFICANT, randomisation_test
from groundline_cli.rollout.measuring import KINDS, Before, Kind, Release

FEWEST: Final = 6
"""Minimum questions with figures of both releases: of fewer, not even a loss of all is more than chance."""

JUDGED: Final = ("recall@10", "ndcg@10", "contains", "answered", "refused")
"""Measures that decide. Each further one would find a loss by chance once in twenty times."""


class Decision(StrEnum):
    """Whether the release is good."""

    PASS = "pass"  # noqa: S105 (not a password)
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much worse than the one before a release may be."""

    max_errors: int
    max_drop: float
    max_slowdown: float


@dataclass(frozen=True, slots=True)
class Slowdown:
    """95th percentile of the durations of requests, in seconds, before and now."""

    kind: Kind
    before: float
    now: float
    probability: float
    """Probability of such a difference if nothing had changed."""
    requests: int

    @property
    def ratio(self) -> float:
        """How many times as long it takes."""
        return self.now / max(self.before, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """Return the figures for programs."""
        return {
            "before": self.before,
            "now": self.now,
            "ratio": self.ratio,
            "probability": self.probability,
            "requests": self.requests,
        }


@dataclass(slots=True)
class Assessment:
    """A verdict, why, and the figures that it rests on."""

    verdict: Decision = Decision.PASS
    reasons: list[str] = field(default_factory=list)
    differences: Sequence[Difference] = ()
    losses: list[Difference] = field(default_factory=list)
    """Differences for which the release fails."""
    slowdowns: Sequence[Slowdown] = ()
    requests: int = 0
    """Number of requests that the release answered."""
    errors: int = 0
    degraded: int = 0

    def add(self, verdict: Decision, reason: str) -> None:
        """Add a reason; a failure stays one, whatever else is not known."""
        if self.verdict is not Decision.FAIL:
            self.verdict = verdict
        self.reasons.append(reason)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "verdict": self.verdict,
            "passed": int(self.verdict is Decision.PASS),
            "reasons": self.reasons,
            "requests": self.requests,
            "errors": self.errors,
            "degraded": self.degraded,
            "measures": {
                f"{one.group}.{one.name}": {
                    "before": one.before,
                    "now": one.after,
                    "probability": one.probability,
                    "questions": one.questions,
                }
                for one in self.differences
            },
            "losses": [one.as_json() for one in self.losses],
            "seconds": {one.kind: one.as_json() for one in self.slowdowns},
        }


def judge(release: Release, before: Before | None, bounds: Bounds) -> Assessment:
    """Judge a release by its failures alone or, if there is one before, by what it finds and by how long it
    takes, too."""
    result = Assessment(requests=release.answered, errors=release.failures.total(), degraded=release.degraded)
    _judge_failures(result, release, before, bounds)
    if before is None:
        if result.requests < FEWEST and result.verdict is Decision.PASS:
            result.add(Decision.UNKNOWN, f"{result.requests} requests were answered; {FEWEST} are needed")
        return result
    try:
        found = BaselineComparison.of(before.baseline, release.evaluation).differences
    except DatasetError as error:
        result.add(Decision.UNKNOWN, str(error))
        return result
    result.differences = [one for one in found if one.name in JUDGED]
    result.slowdowns = [one for kind in KINDS if (one := _slowdown(kind, release, before)) is not None]
    for loss in result.differences:
        if loss.is_loss(bounds.max_drop):
            result.losses.append(loss)
            result.add(
                Decision.FAIL,
                f"{loss.group}: {loss.title} fell from {loss.before:.3f} to {loss.after:.3f}, of "
                f"{loss.questions} questions (p = {loss.probability:.3f})",
            )
    for slow in result.slowdowns:
        if slow.ratio > bounds.max_slowdown and slow.probability < SIGNIFICANT:
            result.add(
                Decision.FAIL,
                f"{slow.kind}: 95 % came within {slow.now:.3f} s, before within {slow.before:.3f} s: "
                f"{slow.ratio:.1f} times as long (p = {slow.probability:.3f})",
            )
    compared = max((one.questions for one in result.differences), default=0)
    if compared < FEWEST and result.verdict is Decision.PASS:
        result.add(
            Decision.UNKNOWN, f"{compared} questions have figures of both releases; {FEWEST} are needed"
        )
    return result


def _judge_failures(result: Assessment, release: Release, before: Before | None, bounds: Bounds) -> None:
    failures = ", ".join(f"{reason}: {number}" for reason, number in release.failures.most_common())
    if result.errors > bounds.max_errors:
        if before is not None and before.failures > bounds.max_errors:
            result.add(Decision.UNKNOWN, f"the release before fails, too; of this one {failures}")
        else:
            result.add(
                Decision.FAIL, f"{result.errors} requests failed ({failures}); allowed: {bounds.max_errors}"
            )
    elif release.limited:
        result.add(Decision.UNKNOWN, f"{release.limited} requests were over the limits of the key")
    elif before is not None and before.failures > bounds.max_errors:
        result.add(Decision.UNKNOWN, f"the release before failed {before.failures} times, this one did not")
    if before is not None and result.degraded - before.degraded > bounds.max_errors:
        result.add(
            Decision.FAIL,
            f"{result.degraded} searches and answers were degraded, of the release before {before.degraded}",
        )


def _slowdown(kind: Kind, release: Release, before: Before) -> Slowdown | None:
    pairs = [
        (was, now)
        for was, now in zip(before.seconds[kind], release.seconds[kind], strict=False)
        if was is not None and now is not None
    ]
    if len(pairs) < FEWEST:
        return None
    was, now = ([pair[side] for pair in pairs] for side in (0, 1))
    return Slowdown(kind, _p95(was), _p95(now), randomisation_test(was, now, _p95), len(pairs))


def _p95(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=20, method="inclusive")[-1]
