"""Real servers for tests, a clock, a collector that keeps its data, and spending that is kept in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
import pytest
from groundline_runtime.errors import GroundlineError
from groundline_runtime.quotas import Budgets, QuotaWarnings, Spending, Spent
from groundline_runtime.serving.server import Application, serving
from groundline_runtime.settings import ServiceSettings
from groundline_runtime.status import from_rpc_error
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

SPANS_SHOWN: Final = 100


@asynccontextmanager
async def serve(application: Application, settings: ServiceSettings | None = None) -> AsyncIterator[str]:
    """Serve on a free loopback port as `run` would; yields the target `127.0.0.1:port`.

    `settings` replaces the defaults (deadline, limits, health interval); its port should stay 0.
    """
    async with serving(application, settings or ServiceSettings.model_construct()) as running:
        yield f"127.0.0.1:{running.port}"


async def refusal(call: Awaitable[Any]) -> GroundlineError:
    """Return the error of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return from_rpc_error(raised.value)


@dataclass(frozen=True, slots=True)
class Span:
    """A received span.

    Ids are lower-case hex; `parent_span_id` is empty for a root; `status` is UNSET, OK or ERROR.
    """

    name: str
    kind: str
    service: str
    trace_id: str
    span_id: str
    parent_span_id: str
    status: str
    status_message: str
    attributes: Mapping[str, object]
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A log record."""

    service: str
    trace_id: str
    body: str
    attributes: Mapping[str, object]


class OtlpCollector:
    """An OTLP/gRPC server that records spans, log records and the names of metrics.

    `async with OtlpCollector() as collector:` then give `collector.endpoint` to the services under test.
    """

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._metrics: set[str] = set()
        self._records: list[Record] = []
        self._arrived = asyncio.Condition()
        self._server = grpc.aio.server()
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(  # type: ignore[no-untyped-call]
            _Exporter(self._received, trace_service_pb2.ExportTraceServiceResponse), self._server
        )
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(  # type: ignore[no-untyped-call]
            _Exporter(self._measured, metrics_service_pb2.ExportMetricsServiceResponse), self._server
        )
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(  # type: ignore[no-untyped-call]
            _Exporter(self._logged, logs_service_pb2.ExportLogsServiceResponse), self._server
        )
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    async def __aenter__(self) -> "OtlpCollector":
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)

    def spans(self) -> tuple[Span, ...]:
        """Return every span received so far, in order of arrival."""
        return tuple(self._spans)

    def metric_names(self) -> frozenset[str]:
        return frozenset(self._metrics)

    async def wait_for(
        self, predicate: Callable[[tuple[Span, ...]], bool], timeout_seconds: float = 15.0
    ) -> tuple[Span, ...]:
        """Return the spans once `predicate` holds for them; raise AssertionError with those that arrived
        otherwise."""
        try:
            async with asyncio.timeout(timeout_seconds), self._arrived:
                await self._arrived.wait_for(lambda: predicate(self.spans()))
        except TimeoutError:
            names = ", ".join(f"{span.service}:{span.name}" for span in self._spans[-SPANS_SHOWN:])
            raise AssertionError(
                f"the expected spans did not arrive; the last of {len(self._spans)}: {names or 'none'}"
            ) from None
        return self.spans()

    async def wait_for_metric(self, name: str, timeout_seconds: float) -> None:
        """Wait until a metric of this name arrives; raise TimeoutError otherwise."""
        async with asyncio.timeout(timeout_seconds), self._arrived:
            await self._arrived.wait_for(lambda: name in self._metrics)

    async def wait_for_records(
        self, count: int, timeout_seconds: float = 15.0, *, body: str | None = None
    ) -> Sequence[Record]:
        """Return the log records, only those of a `body` if it is given, once `count` are there; raise
        TimeoutError otherwise."""

        def found() -> Sequence[Record]:
            return [each for each in self._records if body in (None, each.body)]

        async with asyncio.timeout(timeout_seconds), self._arrived:
            await self._arrived.wait_for(lambda: len(found()) >= count)
        return found()

    def children(self, parent: Span) -> tuple[Span, ...]:
        return tuple(span for span in self._spans if span.parent_span_id == parent.span_id)

    async def _received(self, request: trace_service_pb2.ExportTraceServiceRequest) -> None:
        async with self._arrived:
            for resource in request.resource_spans:
                service = str(_attributes(resource.resource.attributes).get("service.name", ""))
                for scope in resource.scope_spans:
                    self._spans.extend(_span(service, message) for message in scope.spans)
            self._arrived.notify_all()

    async def _measured(self, request: metrics_service_pb2.ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                self._metrics.update(metric.name for metric in scope.metrics)
        async with self._arrived:
            self._arrived.notify_all()

    async def _logged(self, request: logs_service_pb2.ExportLogsServiceRequest) -> None:
        async with self._arrived:
            for resource in request.resource_logs:
                service = str(_attributes(resource.resource.attributes).get("service.name", ""))
                for scope in resource.scope_logs:
                    self._records.extend(
                        Record(
                            service, each.trace_id.hex(), each.body.string_value, _attributes(each.attributes)
                        )
                        for each in scope.log_records
                    )
            self._arrived.notify_all()


class _Exporter:
    """Servicer of one of the three signals."""

    def __init__(self, received: Callable[[Any], Any], response: type[Any]) -> None:
        self._received, self._response = received, response

    async def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._received(request)
        return self._response()


def _span(service: str, message: SpanMessage) -> Span:
    return Span(
        name=message.name,
        kind=SpanMessage.SpanKind.Name(message.kind).removeprefix("SPAN_KIND_"),
        service=service,
        trace_id=message.trace_id.hex(),
        span_id=message.span_id.hex(),
        parent_span_id=message.parent_span_id.hex(),
        status=Status.StatusCode.Name(message.status.code).removeprefix("STATUS_CODE_"),
        status_message=message.status.message,
        attributes=_attributes(message.attributes),
        events=tuple(event.name for event in message.events),
    )


def _attributes(pairs: Any) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


class FakeLedger:
    """A Ledger that remembers what is added; `spent` is what every caller has spent."""

    def __init__(self, budgets: Budgets | None = None, *, spent_usd: float = 0.0) -> None:
        self.budgets = budgets or Budgets()
        self.booked: list[tuple[str, float]] = []
        self._spent = Spent(day_usd=spent_usd)

    async def spent(self, owner: str) -> Spent:
        return self._spent

    async def spend(self, owner: str, usd: float) -> None:
        self.booked.append((owner, usd))


def spending_in(ledger: FakeLedger | None = None) -> Spending:
    """Return the spending that a ledger records, a new one's by default."""
    return Spending(ledger or FakeLedger(), QuotaWarnings(0.8), "searches")


class Clock:
    """A clock that advances only when somebody waits: a call returns the time; `sleep` lets it pass."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
