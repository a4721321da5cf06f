"""Figures of a load: what came of it, by kind and by time, and the rate up to which it held."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from groundline_benchmarks.load.arrivals import Ramp
from groundline_benchmarks.load.sending import Ended, Sent
from groundline_benchmarks.measuring.processes import Held
from groundline_benchmarks.measuring.statistics import percentile

FAILED_SHARE: Final = 0.01
"""Maximum share of requests that are not answered, for whatever reason, while a load holds."""

_WINDOWS: Final = 10
_SHARES: Final = (0.5, 0.95, 0.99)
_LATE_SENDER_SECONDS: Final = 0.01
"""Maximum lag of the sender at the 99th percentile; above, it is the sender that was measured."""


@dataclass(frozen=True, slots=True)
class Window:
    """Requests that were due in a part of the run."""

    begin: float
    """Begin since the run's, in seconds."""
    rate: float
    """Planned rate in its middle, a second."""
    offered: float
    """Requests due, a second."""
    goodput: float
    """Requests answered within the bound, a second."""
    counts: Mapping[Ended, int]
    waited: tuple[float, ...] = ()
    """Time that users waited at the median, 95th and 99th percentile, in seconds; empty if nothing was
    answered."""

    def holds(self, within: float) -> bool:
        """Tell whether 99 % were answered within this time, in seconds, and hardly any not at all. Where
        nothing was due it holds."""
        total = sum(self.counts.values())
        answered = self.counts[Ended.ANSWERED] + self.counts[Ended.DEGRADED]
        return total - answered <= FAILED_SHARE * total and (not total or self.waited[-1] <= within)


@dataclass(slots=True)
class LoadFigures:
    """Figures of a run; those of processes are of a suite of its own."""

    ramp: Ramp
    mix: Mapping[str, float]
    within: float
    """Time within which 99 % are answered while the load holds, in seconds: a stream's first text, the end of
    anything else."""
    sent: Sequence[Sent]
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Processor time of each process for a request of each kind, alone at a steady rate, in milliseconds."""
    idle: Mapping[str, Held] = field(default_factory=dict)
    """Resources of each process before the run."""
    loaded: Mapping[str, Held] = field(default_factory=dict)
    """Resources of each process at the end of the run."""
    database_connections: Mapping[str, int] = field(default_factory=dict)
    """Connections to the database by service, at the end of the run."""

    @property
    def lag_seconds(self) -> float:
        """The sender's own lag at the 99th percentile."""
        lags = [one.lag for one in self.sent if one.ended is not Ended.NOT_SENT]
        return percentile(lags, 0.99) if lags else 0.0

    @property
    def is_valid(self) -> bool:
        """Whether the sender kept to its times."""
        return self.lag_seconds <= _LATE_SENDER_SECONDS

    @property
    def windows(self) -> list[Window]:
        """Parts of equal length, by the times when requests were due."""
        seconds = self.ramp.seconds / _WINDOWS
        parts: list[list[Sent]] = [[] for _ in range(_WINDOWS)]
        for one in self.sent:
            parts[min(int(one.due / seconds), _WINDOWS - 1)].append(one)
        begins = [number * seconds for number in range(_WINDOWS)]
        ramps = [
            Ramp(self.ramp.rate_at(begin), self.ramp.rate_at(begin + seconds), seconds) for begin in begins
        ]
        return [self._window(*each) for each in zip(parts, ramps, begins, strict=True)]

    @property
    def knee(self) -> float | None:
        """Highest rate up to which the load held, a second; None for a steady one, and if it never held."""
        return None if self.ramp.first == self.ramp.last else knee(self.windows, self.within)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Number of requests without an answer by reason."""
        return Counter(one.reason for one in self.sent if one.reason)

    def of_kind(self, kind: str) -> Window:
        """Return the figures of one kind over the whole run."""
        return self._window([one for one in self.sent if one.kind == kind], self.ramp, 0.0)

    def as_json(self) -> dict[str, Any]:
        """Return the figures for programs; `durations` are what a simulation needs."""
        return {
            "ramp": asdict(self.ramp),
            "mix": self.mix,
            "withinSeconds": self.within,
            "valid": self.is_valid,
            "senderLagP99Seconds": self.lag_seconds,
            "knee": self.knee,
            "windows": [asdict(one) for one in self.windows],
            "kinds": {kind: asdict(self.of_kind(kind)) for kind in self.mix},
            "reasons": self.reasons,
            "processorMs": self.costs,
            "idle": {name: asdict(held) for name, held in self.idle.items()},
            "loaded": {name: asdict(held) for name, held in self.loaded.items()},
            "databaseConnections": self.database_connections,
            "durations": [round(one.seconds, 6) for one in self.sent if one.is_answered],
        }

    def _window(self, sent: Sequence[Sent], ramp: Ramp, begin: float) -> Window:
        waited = [one.waited for one in sent if one.is_answered]
        counts = Counter(one.ended for one in sent)
        return Window(
            begin=begin,
            rate=ramp.mean,
            offered=len(sent) / ramp.seconds,
            goodput=sum(seconds <= self.within for seconds in waited) / ramp.seconds,
            counts={ended: counts[ended] for ended in Ended},
            waited=tuple(percentile(waited, share) for share in _SHARES) if waited else (),
        )


def knee(windows: Sequence[Window], within: float) -> float | None:
    """Return the highest rate such that the load held there and at every lower rate; None if it never
    held."""
    held = None
    for window in sorted(windows, key=lambda one: one.rate):
        if not window.holds(within):
            break
        held = window.rate
    return held
