"""Queries of dashboards and alerts, checked against the metrics that packages declare."""

import pytest
from groundline_runtime.metrics.common import RPC_DURATION
from groundline_runtime.metrics.declaring import Counter, Gauge, prometheus_name
from monitoring_parts.expressions import METRICS, problems
from monitoring_parts.panels import DASHBOARDS, Panel, as_grafana


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sum(rate(groundline_answers_total[5m]))", []),
        ('sum by (service) (up{service="coordinator"})', []),
        ("groundline_answers", ["no metric groundline_answers"]),
        ("groundline_answered_total", ["no metric groundline_answered_total"]),
        ('groundline_answers_total{reason="x"}', ["no label reason"]),
        ("sum by (finish_reason, planet) (groundline_answers_total)", ["no label planet"]),
        ("a_total / on (planet) groundline_answers_total", ["no label planet"]),
        # A histogram has no series of its own name.
        ("groundline_admission_wait_seconds", ["no metric groundline_admission_wait_seconds"]),
        ("groundline_admission_wait_seconds_bucket", []),
        ('envoy_cluster_upstream_rq_xx{envoy_response_code_class="5"}', []),
        # The value of a label is not a name.
        ('sum(up{service="groundline_unknown_total"})', []),
    ],
)
def test_a_name_or_label_that_nobody_declares_is_found(query: str, expected: list[str]) -> None:
    assert problems(query) == expected


def test_quantiles_are_shown_by_their_legend() -> None:
    panel = Panel(title="Waits", quantiles_of="sum by (le, service) (waits)", legend="{{service}}")
    assert panel.every_query() == {
        "{{service}} p50": "histogram_quantile(0.5, sum by (le, service) (waits))",
        "{{service}} p95": "histogram_quantile(0.95, sum by (le, service) (waits))",
        "{{service}} p99": "histogram_quantile(0.99, sum by (le, service) (waits))",
    }


@pytest.mark.parametrize(
    ("name", "unit", "is_counter", "expected"),
    [
        ("groundline.answers", "{answer}", True, "groundline_answers_total"),
        ("groundline.generator.cost", "{USD}", True, "groundline_generator_cost_usd_total"),
        ("rpc.server.call.duration", "s", False, "rpc_server_call_duration_seconds"),
        ("groundline.retriever.standby.lag", "By", False, "groundline_retriever_standby_lag_bytes"),
        ("groundline.wait_seconds", "s", False, "groundline_wait_seconds"),
    ],
)
def test_names_are_as_opentelemetry_says(name: str, unit: str, is_counter: bool, expected: str) -> None:
    assert prometheus_name(name, unit, is_counter=is_counter) == expected


def test_a_label_that_is_not_declared_fails_the_measurement() -> None:
    with pytest.raises(AssertionError, match="does not declare"):
        RPC_DURATION.record(1, {"rpc.method": "a/b", "client": "alice"})


def test_every_metric_is_declared_once_and_shown_in_a_dashboard() -> None:
    names = [name for found in METRICS.values() for name in found]
    assert len(names) == len(set(names))
    shown = str([as_grafana(dashboard) for dashboard in DASHBOARDS])
    assert [name for name in names if name not in shown] == []


def test_every_metric_says_what_it_counts() -> None:
    for found in METRICS.values():
        for metric in found.values():
            assert metric.description.endswith("."), metric.name
            assert metric.unit or isinstance(metric, Counter | Gauge), metric.name
