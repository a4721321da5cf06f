"""Metrics of every server."""

from collections.abc import Iterable
from typing import Final

from groundline.v1 import error_pb2, passage_pb2

from groundline_runtime.metrics.declaring import SECONDS, Counter, Histogram, ObservedGauge
from groundline_runtime.reasons import enum_label

RPC_DURATION: Final = Histogram(
    "rpc.server.call.duration",
    "Duration of inbound RPCs, by method and status.",
    unit="s",
    buckets=SECONDS,
    labels=("rpc.system.name", "rpc.method", "rpc.response.status_code"),
)
REQUESTS_UNDER_WAY: Final = ObservedGauge(
    "groundline.admission.under_way", "Requests that hold a place.", unit="{request}"
)
REQUESTS_WAITING: Final = ObservedGauge(
    "groundline.admission.waiting", "Requests that wait for a place.", unit="{request}"
)
STREAMS_UNDER_WAY: Final = ObservedGauge(
    "groundline.streams.under_way",
    "Streamed responses that have not ended, those that wait for a place among them.",
    unit="{stream}",
)
REQUESTS_REFUSED: Final = Counter(
    "groundline.admission.refused", "Requests refused under overload.", unit="{request}"
)
PLACE_WAIT: Final = Histogram(
    "groundline.admission.wait",
    "Time that requests waited for a place and got it; requests that need not wait are not counted.",
    unit="s",
    buckets=SECONDS,
)
DEGRADATIONS: Final = Counter(
    "groundline.degradations",
    "What answers and searches went on without, by component and reason.",
    unit="{degradation}",
    labels=("component", "reason"),
)
CACHE_LOOKUPS: Final = Counter(
    "groundline.cache.lookups",
    "Lookups in a cache, by outcome: hit or miss.",
    unit="{lookup}",
    labels=("cache", "outcome"),
)


def count_degradations(degraded: Iterable[passage_pb2.Degradation]) -> None:
    """Count what an answer or a search went on without."""
    for each in degraded:
        component = enum_label(passage_pb2.Component, each.component)
        reason = error_pb2.ErrorReason.Name(each.reason)
        DEGRADATIONS.add(1, {"component": component, "reason": reason})


def count_lookups(cache: str, *, hits: int, misses: int) -> None:
    """Count lookups in a cache."""
    for outcome, count in (("hit", hits), ("miss", misses)):
        if count:
            CACHE_LOOKUPS.add(count, {"cache": cache, "outcome": outcome})
