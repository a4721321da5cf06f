"""Traces and metrics: W3C context always flows; data is recorded only if somebody reads it."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import propagate, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


@contextmanager
def telemetry(
    service: str, otlp_endpoint: str | None, *, metrics_at: tuple[str, int] | None = None
) -> Iterator[None]:
    """Trace and measure for the length of the block, then flush for at most two seconds.

    Sets process-wide providers, so once per process. Without an endpoint trace ids still exist, for logs and
    for the services called (see context.request_trace), but no span is made. A collector that fails or is
    away costs one warning. Metrics are also served to Prometheus at the host and port `metrics_at`; raises
    FailedPreconditionError (ADDRESS_UNUSABLE) if it cannot be bound.
    """
    propagate.set_global_textmap(TraceContextTextMapPropagator())
    if otlp_endpoint is None and metrics_at is None:
        yield
        return
    from groundline_runtime.telemetry.exporting import exporting

    with exporting(service, otlp_endpoint, metrics_at):
        yield


def is_recording() -> bool:
    """Tell whether spans are exported by this process; if not, none need be made."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)
