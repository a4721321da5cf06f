"""Metrics of the bridge."""

from typing import Final

from groundline_runtime.metrics.declaring import SECONDS, Histogram

HTTP_DURATION: Final = Histogram(
    "http.server.request.duration",
    "Duration of inbound HTTP requests.",
    unit="s",
    buckets=SECONDS,
    labels=("http.request.method", "http.response.status_code"),
)
