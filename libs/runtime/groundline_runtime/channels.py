"""Channels to other services: deadlines, caller metadata, traces, and retries where a method allows them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Final, Protocol, Self

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from groundline_runtime.context import (
    BEGUN_KEY,
    PRINCIPALS_KEY,
    current_caller,
    current_traceparent,
    format_principals,
    has_begun,
    remaining_seconds,
)
from groundline_runtime.grpc_settings import CONNECTION_OPTIONS
from groundline_runtime.settings import ServiceSettings
from groundline_runtime.telemetry.recording import is_recording

_PATIENCE_SECONDS: Final = 2.0
"""Time without a sign of life after which another attempt begins, in seconds: a server that takes longer
acknowledges after a second."""

_MAX_ATTEMPTS: Final = 3
_MAX_TOKENS: Final = 100.0
_TOKENS_BACK: Final = 0.2
"""Share of a further attempt that each answer earns: where all are slow, attempts beside each other would
make them slower."""

_IDEMPOTENT: Final = (MethodOptions.NO_SIDE_EFFECTS, MethodOptions.IDEMPOTENT)


@asynccontextmanager
async def open_channel(
    target: str,
    *,
    service: str,
    default_timeout_seconds: float = 60.0,
    max_message_bytes: int = 32 * 1024**2,
    is_of_suite: bool = True,
    repeatable: Collection[str] = (),
) -> AsyncIterator[grpc.aio.Channel]:
    """Provide a channel to one service, closed on exit.

    `target` is `host:port`, `dns:///host:port`, or addresses of several replicas, `ip:port,ip:port`; calls
    are spread over all of them. `service` is the full name (`groundline.v1.RetrieverService`) whose generated
    module is already imported; its methods with an idempotency_level, and those named in `repeatable`, have
    up to three attempts while the service is unavailable. A unary method without side effects that shows no
    sign of life within two seconds gets another attempt beside the first: see _Hedging. A replica that fails
    most calls gets none for a while, if there is another.

    Every call has a deadline: the smaller of its own timeout and the current request's remaining time, or
    `default_timeout_seconds` if it has neither. The current caller's principals go with it.

    A server outside the suite (`is_of_suite` false) learns nothing about the caller and gets no pings, which
    servers in Go take for an attack.
    """
    options: list[tuple[str, str | int]] = [
        ("grpc.service_config", json.dumps(service_config(_descriptor(service), target, repeatable))),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        # A restarted service is found again within this time, which the three attempts at a call outlast.
        ("grpc.max_reconnect_backoff_ms", 250),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
        # An open connection has timers for the pings of below, which wake an idle process. The next call
        # connects anew.
        ("grpc.client_idle_timeout_ms", 30_000),
        *CONNECTION_OPTIONS,
    ]
    if is_of_suite:
        # A process that hangs answers no ping, and calls that wait for it end within 3.7 seconds, as at the
        # gateway. The first timeout bounds the wait for bytes to be acknowledged, which the system does even
        # for a process that hangs; the second, a minute unless set, bounds the wait for the answer. gRPC
        # answers in a thread that needs no interpreter, so a process that is busy with Python does too.
        options += [
            ("grpc.keepalive_time_ms", 1_200),
            ("grpc.keepalive_timeout_ms", 2_500),
            ("grpc.http2.ping_timeout_ms", 2_500),
            ("grpc.http2.max_pings_without_data", 0),
        ]
    interceptors: list[grpc.aio.ClientInterceptor] = []
    if is_recording():
        from groundline_runtime.telemetry.tracing import client_interceptors

        interceptors = client_interceptors()
    async with _OutboundChannel(
        lambda: grpc.aio.insecure_channel(_uri(target), options=options, interceptors=interceptors),
        default_timeout_seconds,
        tells_caller=is_of_suite,
        hedged=_hedged_paths(_descriptor(service)) if is_of_suite else frozenset(),
    ) as channel:
        yield channel


def idempotent_methods(service: ServiceDescriptor) -> Iterator[str]:
    """Yield the names of the methods whose contract allows a second attempt."""
    return (method.name for method in service.methods if method.GetOptions().idempotency_level in _IDEMPOTENT)


def _hedged_paths(service: ServiceDescriptor) -> frozenset[str]:
    """Return the paths of the methods of which several attempts may be at work at once."""
    return frozenset(
        f"/{service.full_name}/{method.name}"
        for method in service.methods
        if method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
        and not (method.client_streaming or method.server_streaming)
    )


def service_config(
    service: ServiceDescriptor, target: str, repeatable: Collection[str] = ()
) -> dict[str, Any]:
    """Return gRPC's service config for clients of a service at `target`."""
    methods = (*idempotent_methods(service), *repeatable)
    names = [{"service": service.full_name, "method": name} for name in methods]
    # Outlier detection wakes the process each second, without use for a single replica.
    balancing = _ROUND_ROBIN if _is_one_address(target) else {"outlier_detection_experimental": _EJECTION}
    config: dict[str, Any] = {"loadBalancingConfig": [balancing]}
    if names:
        config["methodConfig"] = [
            {
                "name": names,
                "retryPolicy": {
                    "maxAttempts": 3,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 3,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
        # When most calls fail, retries stop: a struggling service is not hit three times as hard. What one
        # of two replicas held when it began to hang may be tried again.
        config["retryThrottling"] = {"maxTokens": 100, "tokenRatio": 0.2}
    return config


_ROUND_ROBIN: Final[dict[str, Any]] = {"round_robin": {}}

# gRFC A50. A single replica is never ejected, of three only one: while the share is below the maximum, one
# more may go, and beside a replica that is gone nobody would be left.
_EJECTION: Final[dict[str, Any]] = {
    "interval": "1s",
    "baseEjectionTime": "5s",
    "maxEjectionTime": "30s",
    "maxEjectionPercent": 33,
    "failurePercentageEjection": {
        "threshold": 80,
        "enforcementPercentage": 100,
        "minimumHosts": 2,
        "requestVolume": 1,
    },
    "childPolicy": [_ROUND_ROBIN],
}


def _is_one_address(target: str) -> bool:
    """Tell whether the target is one IP address and port. A name may stand for several."""
    host, _, _ = target.rpartition(":")
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def service_channel(
    settings: ServiceSettings, target: str, service: str, repeatable: Collection[str] = ()
) -> AbstractAsyncContextManager[grpc.aio.Channel]:
    """Open a channel of a service with these settings to another one; see open_channel."""
    return open_channel(
        target,
        service=service,
        default_timeout_seconds=settings.default_timeout_seconds,
        max_message_bytes=settings.max_message_bytes,
        repeatable=repeatable,
    )


def _uri(target: str) -> str:
    """Return the target as gRPC names it: several addresses need their scheme."""
    if "," not in target or ":///" in target or target.startswith(("ipv4:", "ipv6:")):
        return target
    return f"ipv6:{target}" if target.startswith("[") else f"ipv4:{target}"


class _Cancellable(Protocol):
    def cancel(self) -> bool: ...


@asynccontextmanager
async def cancelled_on_exit[C: _Cancellable](call: C) -> AsyncIterator[C]:
    """Provide a streaming call that ends on the wire when the block ends, however it ends."""
    try:
        yield call
    finally:
        call.cancel()


def _descriptor(service: str) -> ServiceDescriptor:
    try:
        return descriptor_pool.Default().FindServiceByName(service)
    except KeyError:
        raise ValueError(f"unknown service {service}: import its generated module first") from None


class _Hedging:
    """Hedging of a channel's calls, with a budget for all of them (gRFC A6).

    gRPC for Python implements none. Nor would its policy tell a server that is at work from one that hangs:
    here only a call without a sign of life gets another attempt.
    """

    def __init__(self) -> None:
        self._tokens = _MAX_TOKENS

    async def response(self, begin: Callable[[], Any]) -> Any:
        """Return the response to a unary call, which `begin` begins as a stream of one: only of a stream it
        is known whether its headers have come.

        Attempts go on until their deadline, however slow all of them are; those that lose are cancelled. An
        attempt whose peer is not available leaves the answer to the others. Raises the AioRpcError of the
        last one.
        """
        calls = [begin()]
        pending = {asyncio.ensure_future(_response(calls[0]))}
        try:
            while True:
                done, pending = await asyncio.wait(
                    pending,
                    timeout=_PATIENCE_SECONDS if len(calls) < _MAX_ATTEMPTS else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for attempt in done:
                    if (error := attempt.exception()) is None:
                        self._tokens = min(_MAX_TOKENS, self._tokens + _TOKENS_BACK)
                        return attempt.result()
                    if not pending or not _is_unavailable(error):
                        raise error
                if not done and self._tokens >= 1 and not await _is_one_at_work(calls):
                    self._tokens -= 1
                    calls.append(begin())
                    pending.add(asyncio.ensure_future(_response(calls[-1])))
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*pending, return_exceptions=True)


async def _response(call: Any) -> Any:
    response = await call.read()
    # To its end: a call that is broken off counts as its replica's failure.
    await call.read()
    return response


async def _is_one_at_work(calls: list[Any]) -> bool:
    """Tell whether the headers of a call have come."""
    for call in calls:
        try:
            async with asyncio.timeout(0):
                await call.initial_metadata()
        except TimeoutError:
            continue
        return True
    return False


def _is_unavailable(error: BaseException) -> bool:
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE


class _OutboundChannel(grpc.aio.Channel):
    """A channel that gives every call its deadline, the caller and the trace.

    Not by interceptors: each of them makes a task of every call, which costs about as much as the call
    itself. gRPC's channel is made for the first call: the threads that it starts wake an idle process.
    """

    def __init__(
        self,
        make: Callable[[], grpc.aio.Channel],
        default_timeout_seconds: float,
        *,
        tells_caller: bool,
        hedged: frozenset[str],
    ) -> None:
        self._make = make
        self._tells_caller = tells_caller
        self._hedged = hedged
        self._hedging = _Hedging()
        self._default_timeout_seconds = default_timeout_seconds

    @cached_property
    def _channel(self) -> grpc.aio.Channel:
        return self._make()

    def unary_unary(self, *method: Any, **options: Any) -> Any:
        if method[0] not in self._hedged:
            return self._calling("unary_unary", *method, **options)
        calling = self._calling("unary_stream", *method, **options)

        def call(request: Any, **rest: Any) -> Awaitable[Any]:
            return self._hedging.response(lambda: calling(request, **rest))

        return call

    def unary_stream(self, *method: Any, **options: Any) -> Any:
        return self._calling("unary_stream", *method, **options)

    def stream_unary(self, *method: Any, **options: Any) -> Any:
        return self._calling("stream_unary", *method, **options)

    def stream_stream(self, *method: Any, **options: Any) -> Any:
        return self._calling("stream_stream", *method, **options)

    def _calling(self, kind: str, *method: Any, **options: Any) -> Callable[..., Any]:
        traced = is_recording()
        made: Callable[..., Any] | None = None

        def call(
            request: Any = None, *, timeout: float | None = None, metadata: Any = None, **rest: Any
        ) -> Any:
            nonlocal made
            if made is None:
                made = getattr(self._channel, kind)(*method, **options)
            limits = [limit for limit in (timeout, remaining_seconds()) if limit is not None]
            # Only the current request says who the caller is; a value given by hand must not widen it.
            outbound = [(key, value) for key, value in metadata or () if key != PRINCIPALS_KEY]
            if self._tells_caller and current_caller().principals:
                outbound.append((PRINCIPALS_KEY, format_principals(current_caller())))
            if has_begun():
                outbound.append((BEGUN_KEY, "true"))
            if not traced and (traceparent := current_traceparent()) is not None:
                outbound.append(("traceparent", traceparent))
            seconds = min(limits, default=self._default_timeout_seconds)
            if seconds <= 0:
                # gRPC may still send a request whose deadline is the current millisecond.
                seconds = -1.0
            return made(request, timeout=seconds, metadata=outbound, **rest)

        return call

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close(None)

    async def close(self, grace: float | None = None) -> None:
        if "_channel" in vars(self):
            await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()
