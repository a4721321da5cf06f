"""Metrics as a backend would get them."""

from typing import Any, cast

from groundline_runtime.metrics.declaring import Metric
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader


class Metrics:
    """Figures of metrics from now on. A process has one provider of meters, so each metric in one test."""

    def __init__(self, *declared: Metric) -> None:
        self._reader = InMemoryMetricReader()
        meter = MeterProvider([self._reader]).get_meter("test")
        for each in declared:
            cast("Any", each).instrument.on_meter_set(meter)

    def points(self) -> dict[str, list[Any]]:
        """Return the data points of each metric by its name."""
        data = self._reader.get_metrics_data()
        assert data
        metrics = [
            each
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for each in scope.metrics
        ]
        return {metric.name: [*metric.data.data_points] for metric in metrics}
