"""Metrics that packages declare, and what a query names that nobody declares."""

import re
from collections.abc import Mapping
from typing import Final

import groundline_bridge.metrics
import groundline_coordinator.metrics
import groundline_database.pool
import groundline_embedding.metrics
import groundline_generator.metrics
import groundline_indexing.feed.metrics
import groundline_ingestor.metrics
import groundline_retriever.telemetry
import groundline_runtime.metrics.common
from groundline_runtime.metrics.declaring import Histogram, Metric, prometheus_label

DECLARING: Final = {
    "every service": (groundline_runtime.metrics.common, groundline_database.pool),
    "coordinator": (groundline_coordinator.metrics,),
    "retriever": (groundline_retriever.telemetry,),
    "generator": (groundline_generator.metrics,),
    "ingestor": (groundline_ingestor.metrics, groundline_indexing.feed.metrics),
    "retriever and ingestor, with a hosted embedding model": (groundline_embedding.metrics,),
    "bridge": (groundline_bridge.metrics,),
}
"""Modules that declare metrics, by the service that has them."""

METRICS: Final[Mapping[str, Mapping[str, Metric]]] = {
    owner: {
        each.prometheus_name: each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, Metric)
    }
    for owner, modules in DECLARING.items()
}
"""Metrics by their name in Prometheus, by the service that has them."""

ADDED: Final = {"service", "instance", "le"}
"""Labels that the scrape and the buckets add."""

ENVOY: Final = {
    "envoy_http_downstream_rq_xx": {"envoy_http_conn_manager_prefix", "envoy_response_code_class"},
    "envoy_http_downstream_rq_time_bucket": {"envoy_http_conn_manager_prefix"},
    "envoy_cluster_upstream_rq_xx": {"envoy_cluster_name", "envoy_response_code_class"},
    "envoy_cluster_membership_healthy": {"envoy_cluster_name"},
}
"""Metrics of the gateway that are asked for, by name, with their labels."""

PROCESS: Final = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
}
"""Metrics of every process of Python."""

WINDOW: Final = "$__rate_interval"
"""Range of rates in dashboards, which Grafana fills in."""

_MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING: Final = re.compile(r"\b(?:by|on|group_left) \(([^)]*)\)")
_NAME: Final = re.compile(r"\b(?:groundline|gen_ai|rpc|http|envoy|process|python)_\w+|\bup\b")
_SUFFIX: Final = re.compile(r"_(?:bucket|count|sum)$")


def problems(query: str) -> list[str]:
    """Return what a query names that nobody declares: metrics, and labels of all that it names."""
    declared = {name: metric for found in METRICS.values() for name, metric in found.items()}
    labels = set(ADDED)
    wrong = []
    for name in dict.fromkeys(_NAME.findall(re.sub(r'"[^"]*"', '""', _GROUPING.sub("", _inner(query))))):
        metric = declared.get(_SUFFIX.sub("", name))
        if metric is not None and isinstance(metric, Histogram) == bool(_SUFFIX.search(name)):
            labels |= set(map(prometheus_label, metric.labels))
        elif name in ENVOY:
            labels |= ENVOY[name]
        elif name not in PROCESS and name != "up":
            wrong.append(f"no metric {name}")
    named = {*_MATCHER.findall(query)}
    named |= {label.strip() for group in _GROUPING.findall(query) for label in group.split(",") if label}
    return [*wrong, *(f"no label {label}" for label in sorted(named - labels))]


def _inner(query: str) -> str:
    """Return the query without the names of its matchers' labels."""
    return re.sub(r"\{[^}]*\}", "", query)
