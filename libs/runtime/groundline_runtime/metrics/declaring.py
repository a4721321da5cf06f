"""Declarations of metrics, of which instruments, documentation and dashboards are made.

Each package declares its own, most of them in a module named metrics.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from opentelemetry import metrics
from opentelemetry.util.types import AttributeValue

type Labels = Mapping[str, AttributeValue]

_NONE: Final[Labels] = {}

SECONDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
"""Bounds of buckets for durations in seconds: those of OpenTelemetry's conventions for RPCs, and those that
model calls need."""

TOKENS: Final = tuple(float(4**power) for power in range(14))
"""Bounds of buckets for tokens, as OpenTelemetry's conventions for generative AI give them."""

_UNITS: Final = {"s": "seconds", "By": "bytes", "1": "ratio", "{USD}": "usd"}
"""Prometheus' words for units. Other units in braces are annotations, which names leave out."""


class Metric:
    """Declaration of a metric."""

    kind: str

    def __init__(self, name: str, description: str, *, unit: str = "", labels: Collection[str] = ()) -> None:
        """Declare a metric. `labels` are the attributes that a measurement may have, of few values each."""
        self.name = name
        self.description = description
        self.unit = unit
        self.labels = frozenset(labels)
        self._meter = metrics.get_meter("groundline")

    @property
    def prometheus_name(self) -> str:
        """Name in Prometheus, without the suffixes of a histogram's series."""
        return prometheus_name(self.name, self.unit, is_counter=self.kind == "counter")

    def _known(self, labels: Labels) -> Labels:
        assert labels.keys() <= self.labels, f"{self.name} does not declare {labels.keys() - self.labels}"
        return labels


class BoundedNames:
    """Names as the values of a label: the first `maximum` ones, the others together as `other`."""

    def __init__(self, maximum: int = 100) -> None:
        self._maximum = maximum
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._maximum:
                return "other"
            self._known.add(name)
        return name


_unlabelled: Final[list["Counter"]] = []


class Counter(Metric):
    """A sum that only grows."""

    kind = "counter"

    def __init__(self, name: str, description: str, *, unit: str = "", labels: Collection[str] = ()) -> None:
        super().__init__(name, description, unit=unit, labels=labels)
        self.instrument = self._meter.create_counter(name, unit, description)
        if not self.labels:
            _unlabelled.append(self)
            self.add(0)

    def add(self, amount: float, labels: Labels = _NONE) -> None:
        self.instrument.add(amount, self._known(labels))


class Histogram(Metric):
    """A distribution, counted in buckets."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str,
        *,
        buckets: Collection[float],
        unit: str = "",
        labels: Collection[str] = (),
    ) -> None:
        super().__init__(name, description, unit=unit, labels=labels)
        self.instrument = self._meter.create_histogram(
            name, unit, description, explicit_bucket_boundaries_advisory=[*buckets]
        )

    def record(self, value: float, labels: Labels = _NONE) -> None:
        self.instrument.record(value, self._known(labels))


class Gauge(Metric):
    """A value of the moment, as it was last set."""

    kind = "gauge"

    def __init__(self, name: str, description: str, *, unit: str = "", labels: Collection[str] = ()) -> None:
        super().__init__(name, description, unit=unit, labels=labels)
        self.instrument = self._meter.create_gauge(name, unit, description)

    def set(self, value: float, labels: Labels = _NONE) -> None:
        self.instrument.set(value, self._known(labels))


class ObservedGauge(Metric):
    """A value of the moment that is read when it is asked for."""

    kind = "gauge"

    def observe(self, read: Callable[[], Iterable[tuple[float, Labels]]]) -> None:
        """Take the values, each with its labels, from `read`, which may be called in any thread."""

        def observed(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            return [metrics.Observation(value, self._known(labels)) for value, labels in read()]

        self._meter.create_observable_gauge(self.name, [observed], self.unit, self.description)


def count_from_zero() -> None:
    """Report counters without labels from now on, before anything is counted: the first count of a series
    that was not there is no increase to Prometheus."""
    for counter in _unlabelled:
        counter.add(0)


def is_measuring() -> bool:
    """Tell whether somebody reads this process's metrics; if not, none need be worked out."""
    return hasattr(metrics.get_meter_provider(), "force_flush")  # of the SDK's provider alone


def prometheus_label(label: str) -> str:
    """Return a label's name in Prometheus."""
    return label.replace(".", "_")


def prometheus_name(name: str, unit: str, *, is_counter: bool) -> str:
    """Return a metric's name in Prometheus, as OpenTelemetry's specification translates it.

    https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
    """
    found = re.sub(r"[^a-zA-Z0-9_:]+", "_", name)
    suffix = _UNITS.get(unit, "")
    if suffix and not found.endswith(f"_{suffix}"):
        found = f"{found}_{suffix}"
    return f"{found}_total" if is_counter else found
