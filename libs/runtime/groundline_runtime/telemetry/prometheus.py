"""Endpoint from which Prometheus reads this process's metrics, with exemplars that name traces.

Imported only in a process that has such an endpoint.
"""

import socket
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from opentelemetry.sdk.metrics.export import (
    Gauge,
    Histogram,
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
    Sum,
)
from opentelemetry.trace import format_span_id, format_trace_id
from opentelemetry.util.types import AttributeValue
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, make_wsgi_app
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.metrics.declaring import prometheus_label, prometheus_name

READ_SECONDS: Final = 5.0
"""Maximum time between two parts of a request, in seconds. Requests are answered one after the other."""

type Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

_log = structlog.get_logger(__name__)


@contextmanager
def serving_metrics(
    reader: InMemoryMetricReader, host: str, port: int, identity: Mapping[str, str]
) -> Iterator[None]:
    """Serve the reader's metrics, and those of the process, for the length of the block; `port` 0 takes a
    free one, which the event `metrics_served` names.

    `identity` is told as the labels of `target_info`. Raises FailedPreconditionError (ADDRESS_UNUSABLE) if
    the address cannot be bound.
    """
    registry = CollectorRegistry()
    registry.register(_Collector(reader, identity))
    ProcessCollector(registry=registry)
    GCCollector(registry)
    address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server_class = type("_Server", (WSGIServer,), {"address_family": address_family})
    try:
        server: WSGIServer = make_server(
            host.strip("[]"), port, make_wsgi_app(registry), server_class, _Handler
        )
    except OSError as error:
        raise FailedPreconditionError(
            "ADDRESS_UNUSABLE", f"cannot listen for metrics on {host}:{port}: {error.strerror}"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    _log.info("metrics_served", host=host, port=server.server_port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(WSGIRequestHandler):
    timeout = READ_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


class _Collector(Collector):
    def __init__(self, reader: InMemoryMetricReader, identity: Mapping[str, str]) -> None:
        self._reader = reader
        self._identity = {prometheus_label(key): value for key, value in identity.items()}

    def collect(self) -> Iterable[Any]:
        yield InfoMetricFamily("target", "What is measured.", self._identity)
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                yield from map(_family, scope.metrics)


def _family(metric: Metric) -> Family:
    data = metric.data
    name = prometheus_name(metric.name, metric.unit or "", is_counter=False)
    help_text = metric.description or ""
    # Points of a metric may have different attributes; a label that one lacks is empty.
    labels = sorted({key for point in data.data_points for key in point.attributes or {}})
    names = [prometheus_label(key) for key in labels]
    family: Family
    match data:
        case Histogram():
            family = HistogramMetricFamily(name, help_text, labels=names)
            for point in data.data_points:
                values = _values(point.attributes, labels)
                family.add_metric(values, _buckets(point), point.sum)
        case Sum(is_monotonic=True):
            family = CounterMetricFamily(name, help_text, labels=names)
            for number in data.data_points:
                family.add_metric(_values(number.attributes, labels), number.value)
        case Sum() | Gauge():
            family = GaugeMetricFamily(name, help_text, labels=names)
            for number in data.data_points:
                family.add_metric(_values(number.attributes, labels), number.value)
        case _:
            raise AssertionError(f"{metric.name}: no view makes {type(data).__name__}")
    return family


def _values(attributes: Mapping[str, AttributeValue] | None, labels: Iterable[str]) -> list[str]:
    found = attributes or {}
    return [_text(found.get(label, "")) for label in labels]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _buckets(point: HistogramDataPoint) -> Sequence[tuple[str, float] | tuple[str, float, Exemplar]]:
    """Return each bucket's upper bound, the count up to it, and its last exemplar with a trace."""
    exemplars: dict[int, Exemplar] = {}
    for each in sorted(point.exemplars, key=lambda each: each.time_unix_nano):
        if each.trace_id and each.span_id:
            exemplars[bisect_left(point.explicit_bounds, each.value)] = Exemplar(
                {"trace_id": format_trace_id(each.trace_id), "span_id": format_span_id(each.span_id)},
                float(each.value),
                each.time_unix_nano / 1e9,
            )
    count = 0
    found: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for index, (bound, part) in enumerate(
        zip([*map(str, map(float, point.explicit_bounds)), "+Inf"], point.bucket_counts, strict=True)
    ):
        count += part
        exemplar = exemplars.get(index)
        found.append((bound, count) if exemplar is None else (bound, count, exemplar))
    return found
