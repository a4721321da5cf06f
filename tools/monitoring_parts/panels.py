"""Grafana's JSON of dashboards: rows of panels, each with its queries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from project import ROOT

type Node = dict[str, Any]

SOURCE: Final = ROOT / "deploy/observability/dashboards.yaml"

SCHEMA: Final = 41
"""Version of the form of dashboards; Grafana brings older ones up to date."""
WIDTH: Final = 24
HEIGHT: Final = 8
DATASOURCE: Final[Node] = {"type": "prometheus", "uid": "${datasource}"}


QUANTILES: Final = (0.5, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """A graph over time; deploy/observability/dashboards.yaml says what its fields are."""

    title: str
    queries: Mapping[str, str] = field(default_factory=dict)
    quantiles_of: str = ""
    legend: str = ""
    unit: str = "short"
    about: str = ""
    with_exemplars: bool = False
    needs: str = ""

    def every_query(self) -> Mapping[str, str]:
        """Return each query by the legend of its series."""
        return self.queries or {
            f"{self.legend} p{share * 100:g}".strip(): f"histogram_quantile({share}, {self.quantiles_of})"
            for share in QUANTILES
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Dashboard:
    name: str
    title: str
    about: str
    rows: Mapping[str, Sequence[Panel]]
    of_service: bool = False


def _dashboards() -> Iterator[Dashboard]:
    for name, given in yaml.safe_load(SOURCE.read_text(encoding="utf-8")).items():
        rows = {title: [Panel(**panel) for panel in panels] for title, panels in given.pop("rows").items()}
        yield Dashboard(name=name, rows=rows, **given)


DASHBOARDS: Final = tuple(_dashboards())


def queries(dashboard: Dashboard) -> Iterable[tuple[Panel, str]]:
    """Yield every query with its panel."""
    for panels in dashboard.rows.values():
        for panel in panels:
            for query in panel.every_query().values():
                yield panel, query


def as_grafana(dashboard: Dashboard) -> Node:
    """Return the dashboard in Grafana's form."""
    shown: list[Node] = []
    top = 0
    for title, panels in dashboard.rows.items():
        shown.append(
            {
                "id": len(shown) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            }
        )
        width = WIDTH // len(panels)
        for place, panel in enumerate(panels):
            where = {"x": place * width, "y": top + 1, "w": width, "h": HEIGHT}
            shown.append(_panel(len(shown) + 1, panel, where))
        top += 1 + HEIGHT
    return {
        "uid": f"groundline-{dashboard.name}",
        "title": f"Groundline: {dashboard.title}",
        "description": dashboard.about,
        "tags": ["groundline"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables(dashboard.of_service)},
        "links": [
            {
                "type": "dashboards",
                "title": "Groundline",
                "tags": ["groundline"],
                "asDropdown": True,
                "keepTime": True,
            }
        ],
        "panels": shown,
    }


def _variables(of_service: bool) -> Sequence[Node]:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    if not of_service:
        return [source]
    return [
        source,
        {
            "name": "service",
            "type": "query",
            "label": "Service",
            "datasource": DATASOURCE,
            "query": {"query": "label_values(target_info, service)", "refId": "services"},
            "definition": "label_values(target_info, service)",
            "refresh": 2,
            "sort": 1,
        },
    ]


def _panel(number: int, panel: Panel, where: Node) -> Node:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": where,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": DATASOURCE,
                "expr": query,
                "legendFormat": legend,
                "exemplar": panel.with_exemplars,
                "range": True,
            }
            for place, (legend, query) in enumerate(panel.every_query().items())
        ],
    }
