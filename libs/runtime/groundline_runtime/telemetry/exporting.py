"""Spans and metrics on their way to a collector over OTLP.

Imported only in a process that has a collector: the SDK and its exporters take 4 MB of memory.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from urllib.parse import urlsplit

import structlog
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.util.types import Attributes

__all__ = ["exporting"]

EXPORT_TIMEOUT_SECONDS: Final = 5.0
FLUSH_SECONDS: Final = 2.0
SPAN_DELAY_MILLIS: Final = 1_000
METRIC_INTERVAL_MILLIS: Final = 15_000

_log = structlog.get_logger(__name__)


@contextmanager
def exporting(service: str, otlp_endpoint: str) -> Iterator[None]:
    """Export spans and metrics for the length of the block, then flush for at most FLUSH_SECONDS.

    Sets process-wide providers, so once per process. A collector that fails or is away costs one warning.
    """
    _warn_once_about_exports()
    insecure = urlsplit(otlp_endpoint).scheme != "https"
    resource = Resource.create(_identity(service))
    tracers = TracerProvider(
        resource=resource, sampler=ParentBased(root=_NoPolling()), shutdown_on_exit=False
    )
    tracers.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(otlp_endpoint, insecure=insecure, timeout=EXPORT_TIMEOUT_SECONDS),
            schedule_delay_millis=SPAN_DELAY_MILLIS,
        )
    )
    meters = MeterProvider(
        [
            PeriodicExportingMetricReader(
                OTLPMetricExporter(otlp_endpoint, insecure=insecure, timeout=EXPORT_TIMEOUT_SECONDS),
                export_interval_millis=METRIC_INTERVAL_MILLIS,
                export_timeout_millis=EXPORT_TIMEOUT_SECONDS * 1000,
            )
        ],
        resource=resource,
        shutdown_on_exit=False,
    )
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(meters)
    _instrument_asyncpg()
    try:
        yield
    finally:
        _flush(tracers, meters)


class _NoPolling(Sampler):
    """Sampler of roots. No trace begins with a call to another service or the database: that is somebody's
    who looks for work, of which there may be none all day."""

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: trace.SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[trace.Link] | None = None,
        trace_state: trace.TraceState | None = None,
    ) -> SamplingResult:
        if kind is trace.SpanKind.CLIENT:
            return SamplingResult(Decision.DROP)
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)

    def get_description(self) -> str:
        return "NoPolling"


def _identity(service: str) -> dict[str, str]:
    identity = {SERVICE_NAME: service}
    with suppress(PackageNotFoundError):
        identity[SERVICE_VERSION] = version(service)
    return identity


def _instrument_asyncpg() -> None:
    """Give each SQL statement a span, where groundline-database is installed; parameters are left out."""
    try:
        from opentelemetry.instrumentation.asyncpg import AsyncPGInstrumentor
    except ModuleNotFoundError:
        return
    AsyncPGInstrumentor(capture_parameters=False).instrument()  # type: ignore[no-untyped-call]


def _flush(tracers: TracerProvider, meters: MeterProvider) -> None:
    # The SDK's own bounds do not cover an exporter that hangs, so the threads are left behind after ours.
    def stop() -> None:
        tracers.shutdown()
        meters.shutdown(timeout_millis=FLUSH_SECONDS * 1000)

    worker = threading.Thread(target=stop, name="telemetry-flush", daemon=True)
    worker.start()
    worker.join(FLUSH_SECONDS)


class _WarnOnce(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._warned = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("telemetry_export_failed", error=record.getMessage())


def _warn_once_about_exports() -> None:
    handler = _WarnOnce()
    for name in ("opentelemetry.exporter", "opentelemetry.sdk"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
