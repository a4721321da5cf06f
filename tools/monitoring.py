"""Make what operators watch the suite with from the metrics that packages declare.

monitoring.py write    write the dashboards, the operator's rules and docs/reference/metrics.md
monitoring.py check    fail when they are stale, or something names a metric or label that nobody declares
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml
from generated import write_or_check
from groundline_runtime.metrics.declaring import Metric, prometheus_label
from monitoring_parts.expressions import METRICS, problems
from monitoring_parts.panels import DASHBOARDS, as_grafana, queries
from project import ROOT

FOLDER: Final = ROOT / "deploy/observability"
OBJECTIVES: Final = FOLDER / "objectives.yaml"
MANIFEST: Final = ROOT / "deploy/k8s/components/prometheus-operator/prometheus-rule.yaml"
HEADER: Final = "# Made by tools/monitoring.py.\n"


def files() -> dict[Any, str]:
    """Return the text of each file by its path."""
    groups = [group for name in ("alerts", "objectives") for group in _rules(name)]
    found: dict[Any, str] = {MANIFEST: HEADER + _yaml(_manifest(groups))}
    for dashboard in DASHBOARDS:
        found[FOLDER / f"dashboards/{dashboard.name}.json"] = (
            json.dumps(as_grafana(dashboard), indent=1) + "\n"
        )
    found[ROOT / "docs/reference/metrics.md"] = _reference()
    return found


def _rules(name: str) -> list[Any]:
    """Return the groups of a file of rules."""
    groups: list[Any] = yaml.safe_load((FOLDER / f"rules/{name}.yaml").read_text(encoding="utf-8"))["groups"]
    return groups


def _manifest(groups: list[Any]) -> Any:
    """Return the rules as an object of the Prometheus Operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "groundline", "labels": {"app.kubernetes.io/part-of": "groundline"}},
        "spec": {"groups": groups},
    }


def _yaml(node: Any) -> str:
    return yaml.safe_dump(node, sort_keys=False, width=1_000, allow_unicode=True)


def _reference() -> str:
    lines = [
        "# Metrics",
        "",
        "<!-- Made by tools/monitoring.py. -->",
        "",
        "Names are those of Prometheus; over OTLP a metric has the name in the second column. A histogram",
        "has the series `_bucket`, `_count` and `_sum`. [How to read them](../how-to/observability.md).",
    ]
    for owner, metrics in METRICS.items():
        title = owner[0].upper() + owner[1:]
        lines += [
            "",
            f"## {title}",
            "",
            "| metric | over OTLP | kind | labels | meaning |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(metric) for metric in metrics.values()]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{prometheus_label(label)}`" for label in sorted(metric.labels))
    return (
        f"| `{metric.prometheus_name}` | `{metric.name}` | {metric.kind} | {labels} | {metric.description} |"
    )


def wrong() -> Iterator[str]:
    """Yield what queries name that nobody declares."""
    for dashboard in DASHBOARDS:
        for panel, query in queries(dashboard):
            for problem in problems(query):
                yield f"dashboard {dashboard.name}, {panel.title}: {problem}"
    for group in _rules("alerts"):
        for alert in group["rules"]:
            for problem in problems(alert["expr"]):
                yield f"alert {alert['alert']}: {problem}"
    for objective in yaml.safe_load(OBJECTIVES.read_text())["slos"]:
        for query in objective["sli"]["events"].values():
            for problem in problems(re.sub(r"\{\{.*?\}\}", "5m", query)):
                yield f"objective {objective['name']}: {problem}"


def main(arguments: list[str]) -> int:
    if found := list(wrong()):
        print(*found, sep="\n", file=sys.stderr)
        return 1
    return write_or_check(arguments, files(), "make monitoring", __doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
