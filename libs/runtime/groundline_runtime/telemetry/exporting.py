"""Spans, metrics and logs on their way to a collector over OTLP, and metrics for Prometheus.

Imported only in a process that has either: the SDK and its exporters take 4 MB of memory.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from opentelemetry import metrics, trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.util.types import Attributes

from groundline_runtime.metrics.declaring import count_from_zero
from groundline_runtime.telemetry.logs import json_formatter

EXPORT_TIMEOUT_SECONDS: Final = 5.0
FLUSH_SECONDS: Final = 2.0
SPAN_DELAY_MILLIS: Final = 1_000
METRIC_INTERVAL_MILLIS: Final = 15_000

_SEVERITIES: Final = {
    logging.DEBUG: SeverityNumber.DEBUG,
    logging.INFO: SeverityNumber.INFO,
    logging.WARNING: SeverityNumber.WARN,
    logging.ERROR: SeverityNumber.ERROR,
    logging.CRITICAL: SeverityNumber.FATAL,
}
_SAID_ELSEWHERE: Final = {"level", "timestamp", "service", "trace_id", "span_id"}
"""Fields of a log line that records over OTLP have in places of their own."""

_log = structlog.get_logger(__name__)


@contextmanager
def exporting(service: str, otlp_endpoint: str | None, metrics_at: tuple[str, int] | None) -> Iterator[None]:
    """Export spans, metrics and logs for the length of the block, then flush for at most FLUSH_SECONDS.

    Sets process-wide providers, so once per process. A collector that fails or is away costs one warning.
    Raises FailedPreconditionError (ADDRESS_UNUSABLE) if metrics cannot be served at host and port.
    """
    _warn_once_about_exports()
    identity = _identity(service)
    resource = Resource.create(identity)
    readers: list[MetricReader] = []
    stops: list[Callable[[], object]] = []
    with ExitStack() as stack:
        if metrics_at is not None:
            from groundline_runtime.telemetry.prometheus import serving_metrics

            read = InMemoryMetricReader()
            readers.append(read)
            stack.enter_context(serving_metrics(read, *metrics_at, identity))
        if otlp_endpoint is not None:
            readers.append(_metric_exporter(otlp_endpoint))
        meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        stops.append(lambda: meters.shutdown(timeout_millis=FLUSH_SECONDS * 1000))
        stack.callback(_flush, stops)
        metrics.set_meter_provider(meters)
        count_from_zero()
        if otlp_endpoint is not None:
            logs, tracers = _logs(otlp_endpoint, resource), _tracers(otlp_endpoint, resource)
            stops += [logs.shutdown, tracers.shutdown]
            stack.enter_context(_exported(logs, service))
            trace.set_tracer_provider(tracers)
            _instrument_asyncpg()
        yield


def _collector(otlp_endpoint: str) -> dict[str, Any]:
    """Return the arguments that every exporter takes."""
    insecure = urlsplit(otlp_endpoint).scheme != "https"
    return {"endpoint": otlp_endpoint, "insecure": insecure, "timeout": EXPORT_TIMEOUT_SECONDS}


def _tracers(otlp_endpoint: str, resource: Resource) -> TracerProvider:
    tracers = TracerProvider(
        resource=resource, sampler=ParentBased(root=_NoPolling()), shutdown_on_exit=False
    )
    tracers.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(**_collector(otlp_endpoint)), schedule_delay_millis=SPAN_DELAY_MILLIS
        )
    )
    return tracers


def _metric_exporter(otlp_endpoint: str) -> MetricReader:
    return PeriodicExportingMetricReader(
        OTLPMetricExporter(**_collector(otlp_endpoint)),
        export_interval_millis=METRIC_INTERVAL_MILLIS,
        export_timeout_millis=EXPORT_TIMEOUT_SECONDS * 1000,
    )


def _logs(otlp_endpoint: str, resource: Resource) -> LoggerProvider:
    logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPLogExporter(**_collector(otlp_endpoint))
    logs.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=SPAN_DELAY_MILLIS))
    return logs


@contextmanager
def _exported(logs: LoggerProvider, service: str) -> Iterator[None]:
    """Export what is logged, with the ids of its trace, beside the log on standard output."""
    handler = _Exported(logs, service)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


class _Exported(logging.Handler):
    """Handler that hands records on with their fields as attributes; credentials are taken out of them as
    they are in the log."""

    def __init__(self, logs: LoggerProvider, service: str) -> None:
        super().__init__()
        self.setFormatter(json_formatter(service))
        self._logger = logs.get_logger("groundline")

    def emit(self, record: logging.LogRecord) -> None:
        fields = json.loads(self.format(record))
        self._logger.emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                severity_text=record.levelname,
                severity_number=_SEVERITIES.get(record.levelno, SeverityNumber.UNSPECIFIED),
                body=fields.pop("event"),
                attributes={name: value for name, value in fields.items() if name not in _SAID_ELSEWHERE},
            )
        )


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


def _flush(stops: Sequence[Callable[[], object]]) -> None:
    # The SDK's own bounds do not cover an exporter that hangs, so the threads are left behind after ours.
    workers = [threading.Thread(target=stop, name="telemetry-flush", daemon=True) for stop in stops]
    until = time.monotonic() + FLUSH_SECONDS
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, until - time.monotonic()))


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
