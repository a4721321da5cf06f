"""Grafana's JSON of dashboards: rows of panels, each with its queries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

type Node = dict[str, Any]

SCHEMA: Final = 41
"""Version of the form of dashboards; Grafana brings older ones up to date."""
WIDTH: Final = 24
HEIGHT: Final = 8
DATASOURCE: Final[Node] = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph over time."""

    title: str
    queries: tuple[tuple[str, str], ...]
    """Pairs of a query and the legend of its series, in which {{label}} stands for a label's value."""
    unit: str = "short"
    """Grafana's name of the unit: s, bytes, percentunit, reqps, currencyUSD, short."""
    about: str = ""
    with_exemplars: bool = False
    """Whether points lead to the traces that the buckets name."""
    needs: str = ""
    """Part that an installation must have for data to come; empty if all have it."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    name: str
    title: str
    about: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    of_service: bool = False
    """Whether it shows one service, which is chosen."""


def queries(dashboard: Dashboard) -> Iterable[tuple[Panel, str]]:
    """Yield every query with its panel."""
    for _, panels in dashboard.rows:
        for panel in panels:
            for query, _ in panel.queries:
                yield panel, query


def as_grafana(dashboard: Dashboard) -> Node:
    """Return the dashboard in Grafana's form."""
    shown: list[Node] = []
    top = 0
    for title, panels in dashboard.rows:
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
            for place, (query, legend) in enumerate(panel.queries)
        ],
    }
