"""Alerts of the suite, each with what makes it fire. docs/runbooks has a page for each."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from groundline_coordinator.metrics import ANSWERS
from groundline_database.pool import CONNECTION_WAIT
from groundline_generator.metrics import CALL_COST, CALL_DURATION, PAUSED
from groundline_indexing.feed.metrics import INDEX_LAG, INDEX_SET_ASIDE
from groundline_ingestor.metrics import DOCUMENTS, OLDEST_ITEM
from groundline_retriever.telemetry import PASSAGES, STANDBY_LAG
from groundline_runtime.metrics.common import DEGRADATIONS, REQUESTS_REFUSED, RPC_DURATION

from monitoring_parts.expressions import increase, rate, series

SERVICES: Final = "coordinator|retriever|reranker|generator|ingestor|ingestor-worker|collector|bridge|gateway"
BACKENDS: Final = "coordinator|retriever|ingestor|bridge"
UP: Final = f'up{{service=~"{SERVICES}"}}'
HEALTHY: Final = f'envoy_cluster_membership_healthy{{envoy_cluster_name=~"{BACKENDS}"}}'
UNEXPECTED: Final = series(
    RPC_DURATION, 'rpc_response_status_code=~"INTERNAL|UNKNOWN|DATA_LOSS"', suffix="_count"
)
FAILED: Final = series(DOCUMENTS, 'outcome="failed"')
ENDED: Final = series(DOCUMENTS, 'outcome!~"postponed|lost"')
SPENT: Final = increase(CALL_COST, window="1h")
PROVIDER: Final = "service, instance, gen_ai_provider_name"


def _since(counted: str, window: str) -> str:
    """Return the query of what a counter counted within the window, also where its series began in it."""
    return f"({counted} unless {counted} offset {window}) or increase({counted}[{window}])"


def _calls(*matchers: str) -> str:
    return increase(CALL_DURATION, *matchers, by=["gen_ai_request_model"], window="5m")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. `page` wakes somebody; `ticket` waits for working hours."""

    name: str
    query: str
    lasting: str
    """How long the query must find something."""
    severity: Literal["page", "ticket"]
    summary: str


ALERTS: Final = (
    Alert(
        "GroundlineServiceDown",
        f"max by (service) (max_over_time({UP}[1d])) == 1 unless max by (service) ({UP}) == 1",
        "2m",
        "page",
        "No replica of {{ $labels.service }} answers.",
    ),
    Alert(
        "GroundlineNoHealthyBackend",
        f"max by (envoy_cluster_name) ({HEALTHY}) == 0"
        f" and max by (envoy_cluster_name) (max_over_time({HEALTHY}[1d])) > 0",
        "1m",
        "page",
        "The gateway finds no healthy replica of {{ $labels.envoy_cluster_name }}.",
    ),
    Alert(
        "GroundlineUnexpectedErrors",
        f"sum by (service, rpc_method) ({_since(UNEXPECTED, '10m')}) > 0",
        "0m",
        "ticket",
        "{{ $labels.rpc_method }} of {{ $labels.service }} failed unexpectedly.",
    ),
    Alert(
        "GroundlineOverloaded",
        rate(REQUESTS_REFUSED, by=["service"], window="5m") + " > 0.05",
        "5m",
        "page",
        "{{ $labels.service }} refuses requests, more come than it can answer in time.",
    ),
    Alert(
        "GroundlineDatabaseOutOfReach",
        rate(CONNECTION_WAIT, 'outcome=~"late|failed"', by=["service"], window="2m") + " > 0",
        "2m",
        "page",
        "{{ $labels.service }} gets no connection to the database in time.",
    ),
    Alert(
        "GroundlineAnswersDegraded",
        f"{increase(ANSWERS, 'degraded="true"', window='10m')} / {increase(ANSWERS, window='10m')} > 0.1",
        "10m",
        "ticket",
        "{{ $value | humanizePercentage }} of answers went on without something.",
    ),
    Alert(
        "GroundlineSearchesDegraded",
        f"{increase(DEGRADATIONS, 'service="retriever"', by=['component', 'reason'], window='10m')}"
        f" / on () group_left () {increase(PASSAGES, window='10m')} > 0.1",
        "10m",
        "ticket",
        "Searches go on without {{ $labels.component }}: {{ $labels.reason }}.",
    ),
    Alert(
        "GroundlineSearchesEmpty",
        f"sum(increase({series(PASSAGES, 'le="0.0"', suffix='_bucket')}[15m]))"
        f" / {increase(PASSAGES, window='15m')} > 0.5 and {increase(PASSAGES, window='15m')} > 20",
        "15m",
        "ticket",
        "{{ $value | humanizePercentage }} of searches find nothing.",
    ),
    Alert(
        "GroundlineModelFailing",
        f"{_calls('error_type!~"|QUOTA_EXHAUSTED"')} / {_calls()} > 0.25"
        f" and on (gen_ai_request_model) {_calls()} > 5",
        "5m",
        "page",
        "{{ $value | humanizePercentage }} of the calls of {{ $labels.gen_ai_request_model }} fail.",
    ),
    Alert(
        "GroundlineModelPaused",
        f"max by (gen_ai_provider_name) ({series(PAUSED)} == 1 and on ({PROVIDER})"
        f" {increase(CALL_DURATION, by=[PROVIDER], window='10m')} > 0)",
        "10m",
        "ticket",
        "Calls of {{ $labels.gen_ai_provider_name }} wait, since it fails or asks for a pause.",
    ),
    Alert(
        "GroundlineSpendingJumped",
        f"{SPENT} > 3 * max_over_time({SPENT}[7d:1h] offset 1h) and {SPENT} > 5"
        ' and on () group(up{service="generator"} offset 1d)',
        "5m",
        "ticket",
        "Model calls cost {{ $value | humanize }} USD in an hour, three times the dearest hour of a week.",
    ),
    Alert(
        "GroundlineIngestionStuck",
        f"max({series(OLDEST_ITEM)}) > 900",
        "5m",
        "ticket",
        "A document has been waiting for {{ $value | humanizeDuration }} to be taken in.",
    ),
    Alert(
        "GroundlineIngestionFailing",
        f"sum({_since(FAILED, '30m')}) / sum({_since(ENDED, '30m')}) > 0.2"
        f" and sum({_since(ENDED, '30m')}) > 5",
        "5m",
        "ticket",
        "{{ $value | humanizePercentage }} of documents fail to be taken in.",
    ),
    Alert(
        "GroundlineSearchIndexLate",
        f"max({series(INDEX_LAG)}) > 300",
        "5m",
        "page",
        "The distributed index is {{ $value | humanizeDuration }} behind the database.",
    ),
    Alert(
        "GroundlineSearchIndexRefuses",
        f"max({series(INDEX_SET_ASIDE)}) > 0",
        "10m",
        "ticket",
        "The distributed index refused {{ $value }} chunks, which searches miss.",
    ),
    Alert(
        "GroundlineStandbyLate",
        f"max by (standby) ({series(STANDBY_LAG)}) > {64 * 2**20}",
        "5m",
        "ticket",
        "The standby {{ $labels.standby }} is {{ $value | humanize1024 }}B behind the primary.",
    ),
)


def as_rules() -> dict[str, Any]:
    """Return the alerts in the form of Prometheus' files of rules."""
    return {
        "groups": [
            {
                "name": "groundline",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.query,
                        "for": alert.lasting,
                        "labels": {"severity": alert.severity},
                        "annotations": {
                            "summary": alert.summary,
                            "runbook": f"docs/runbooks/{alert.name}.md",
                        },
                    }
                    for alert in ALERTS
                ],
            }
        ]
    }
