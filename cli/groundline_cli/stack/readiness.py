"""Waits for the services and the gateway to answer, and requests to what runs beside them."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundline_cli.stack.errors import NotReadyError

_POLL_SECONDS: Final = 0.05
_ATTEMPT_SECONDS: Final = 2.0


async def wait_until_serving(target: str, service: str, *, timeout_seconds: float) -> None:
    """Wait until the gRPC server at `target` reports `service` as SERVING. Raises NotReadyError."""
    last = "no answer"
    request = health_pb2.HealthCheckRequest(service=service)
    # gRPC would wait a second and more between two attempts to connect.
    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
    ]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    try:
                        response = await check(request, timeout=_ATTEMPT_SECONDS, wait_for_ready=True)
                    except grpc.aio.AioRpcError as error:
                        last = error.code().name
                    else:
                        if response.status == health_pb2.HealthCheckResponse.SERVING:
                            return
                        last = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            message = f"{service} at {target} is not ready after {timeout_seconds:g} s: {last}"
            raise NotReadyError(message) from error


async def wait_until_healthy(url: str, *, timeout_seconds: float) -> None:
    """Wait until GET `url` gives 200. Raises NotReadyError."""
    last = "no answer"
    opener = _opener()

    def answers() -> None:
        with opener.open(url, timeout=_ATTEMPT_SECONDS):
            pass

    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                try:
                    await asyncio.to_thread(answers)
                except urllib.error.HTTPError as error:
                    last = f"HTTP {error.code}"
                except OSError as error:
                    last = type(error).__name__
                else:
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise NotReadyError(f"{url} is not ready after {timeout_seconds:g} s: {last}") from error


def post(url: str, body: bytes, headers: Mapping[str, str], *, timeout_seconds: float) -> None:
    """Send `body` to a server of this machine. Raises OSError, also for what is not success."""
    request = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - an address of our own
    try:
        with _opener().open(request, timeout=timeout_seconds):
            pass
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise


def _opener() -> urllib.request.OpenerDirector:
    # Not by httpx, whose 15 MB would stay; and past any proxy.
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
