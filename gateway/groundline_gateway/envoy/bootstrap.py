"""Envoy's complete bootstrap configuration, from the settings."""

import copy
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from groundline_gateway.bridged import BRIDGED
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_gateway.envoy import tokens
from groundline_gateway.envoy.canary import canary_clusters, retried
from groundline_gateway.envoy.clusters import (
    COLLECTOR,
    SERVICES,
    admin_cluster,
    bridge_cluster,
    collector_cluster,
    jwks_clusters,
    own_cluster,
    service_cluster,
)
from groundline_gateway.envoy.errors import grpc_replies, local_replies
from groundline_gateway.envoy.filters import (
    cors,
    fill_filters,
    holders_by_hash,
    retry_after_seconds,
    service_health,
    with_audit_logs,
)
from groundline_gateway.envoy.metrics import metrics_listener
from groundline_gateway.envoy.nodes import (
    EXTENSIONS,
    Node,
    http_of,
    named,
    override,
    resource,
    socket_address,
)
from groundline_gateway.envoy.pages import console_routes
from groundline_gateway.envoy.routes import (
    REFLECTION_PATHS,
    bridged_route,
    call_route,
    fill_own_routes,
    json_route,
    reflection_route,
)
from groundline_gateway.keys import Holder
from groundline_gateway.settings import GatewaySettings

# Envoy answers a named origin's question itself, and only where the route leads to a cluster. No cluster
# has this name: other such requests end here.
_PREFLIGHT: Final = {
    "name": "preflight",
    "match": {"prefix": "/", "headers": [{"name": ":method", "string_match": {"exact": "OPTIONS"}}]},
    "route": {"cluster": "none", "cluster_not_found_response_code": "NOT_FOUND"},
}
# Filters that only JSON, pages and browsers need.
_NOT_FOR_GRPC: Final = frozenset(
    f"envoy.filters.http.{name}"
    for name in ("cors", "compressor", "health_check", "bodies", "events", "grpc_json_transcoder")
)
_MAX_SOCKET_BYTES: Final = 107
_LUA_PER_ROUTE: Final = f"{EXTENSIONS}.filters.http.lua.v3.LuaPerRoute"


@cache
def _template() -> Node:
    template: Node = yaml.safe_load(resource("envoy/envoy.yaml"))
    return template


def render(
    settings: GatewaySettings,
    holders: Mapping[str, Holder] = MappingProxyType({}),
    path: Path = Path("envoy.json"),
    audit_log: Path | None = None,
) -> Node:
    """Return the bootstrap configuration with the hashes of the keys: those of the settings, and `holders`.

    `path` is where it will be written, since the gateway's own socket is beside it. `audit_log`: file whose
    lines become entries of the audit log in the database.
    """
    config = copy.deepcopy(_template())
    resources = config["static_resources"]
    (listener,) = resources["listeners"]
    listener["address"] = {"socket_address": {"address": settings.host, "port_value": settings.port}}
    http = http_of(listener)
    exposed = endpoints()
    fill_filters(
        {entry["name"].rpartition(".")[2]: entry["typed_config"] for entry in http["http_filters"]},
        exposed,
        settings,
    )
    http["local_reply_config"]["mappers"] = local_replies(retry_after_seconds(settings))
    http["access_log"] = with_audit_logs(http["access_log"], settings, audit_log)
    site = http["route_config"]["virtual_hosts"][0]
    _fill_site(site, settings, holders)
    # Before the last route, which matches everything.
    site["routes"][-1:-1] = console_routes()
    fill_own_routes(named(site["routes"]), settings)
    site["routes"][-1:-1] = [
        *(bridged_route(bridged, settings) for bridged in BRIDGED),
        *(json_route(endpoint, settings) for endpoint in exposed),
    ]
    heap = named(config["overload_manager"]["resource_monitors"])["envoy.resource_monitors.fixed_heap"]
    heap["typed_config"]["max_heap_size_bytes"] = settings.max_heap_bytes
    resources["clusters"] = [
        *(service_cluster(name, settings) for name in SERVICES),
        bridge_cluster(settings),
        own_cluster(own_socket(path), settings),
        *canary_clusters(settings),
    ]
    if settings.jwt_issuers:
        http["http_filters"].insert(
            list(named(http["http_filters"])).index("envoy.filters.http.identity"),
            {"name": tokens.FILTER, "typed_config": tokens.authentication(settings.jwt_issuers)},
        )
        resources["clusters"] += jwks_clusters(settings)
    if settings.otlp_endpoint is not None:
        resources["clusters"].append(collector_cluster(settings))
        http["tracing"] = _tracing()
    if settings.grpc_port is not None:
        resources["listeners"].append(_grpc_listener(listener, exposed, settings, settings.grpc_port))
    overall = list(named(http["http_filters"])).index("envoy.filters.http.health_check")
    # Behind the copy of the filters for gRPC, which has no such addresses.
    http["http_filters"][overall + 1 : overall + 1] = service_health(http["http_filters"][overall])
    if settings.admin_address is not None:
        _add_admin(config, settings, settings.admin_address)
    return config


def _fill_site(site: Node, settings: GatewaySettings, holders: Mapping[str, Holder]) -> None:
    """Fill what all routes of a site share."""
    override(
        site, "identity", {"@type": _LUA_PER_ROUTE, "filter_context": holders_by_hash(settings, holders)}
    )
    site["retry_policy"] = retried(site["retry_policy"], settings)
    if settings.cors_origins:
        override(site, "cors", cors(settings.cors_origins))
        site["routes"].insert(0, copy.deepcopy(_PREFLIGHT))


def _add_admin(config: Node, settings: GatewaySettings, address: str) -> None:
    """Add the admin interface, and the listener of metrics that reads it."""
    config["admin"] = {"address": socket_address(address)}
    if settings.metrics_port is not None:
        resources = config["static_resources"]
        listener = metrics_listener(settings.host, settings.metrics_port, named(resources["clusters"]))
        resources["listeners"].append(listener)
        resources["clusters"].append(admin_cluster(address, settings))


def _grpc_listener(public: Node, exposed: Sequence[Endpoint], settings: GatewaySettings, port: int) -> Node:
    """Return the listener that serves the exposed RPCs and reflection over gRPC, behind the same checks."""
    listener = copy.deepcopy(public)
    listener["name"] = "grpc"
    listener["address"]["socket_address"]["port_value"] = port
    http = http_of(listener)
    http |= {"stat_prefix": "grpc", "codec_type": "HTTP2"}
    http["http_filters"] = [each for each in http["http_filters"] if each["name"] not in _NOT_FOR_GRPC]
    http["local_reply_config"]["mappers"] = grpc_replies(retry_after_seconds(settings))
    http["route_config"]["name"] = "grpc"
    (site,) = http["route_config"]["virtual_hosts"]
    site["name"] = "grpc"
    site["typed_per_filter_config"] = {
        name: each for name, each in site["typed_per_filter_config"].items() if name not in _NOT_FOR_GRPC
    }
    # An RPC with several addresses counts once.
    calls = {each.rpc: call_route(each, {"path": each.rpc, "grpc": {}}, settings) for each in exposed}
    unknown = {"name": "unknown", "match": {"prefix": "/"}, "direct_response": {"status": 404}}
    reflection = [reflection_route(path, settings) for path in REFLECTION_PATHS]
    site["routes"] = [*calls.values(), *reflection, unknown]
    return listener


def _tracing() -> Node:
    # A caller's traceparent is continued: a call from another system is one trace with what it caused.
    return {
        "provider": {
            "name": "envoy.tracers.opentelemetry",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
                "grpc_service": {"envoy_grpc": {"cluster_name": COLLECTOR}, "timeout": "5s"},
                "service_name": "groundline-gateway",
            },
        },
        "max_path_tag_length": 256,
    }


def own_socket(path: Path) -> Path:
    """Return the path of the socket at which Envoy reaches what the gateway answers itself: beside the
    configuration in `path`, or among temporary files if that is too long for a socket."""
    beside = path.with_suffix(".own.sock")
    if len(os.fsencode(beside)) <= _MAX_SOCKET_BYTES:
        return beside
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]
    return Path(tempfile.gettempdir()) / f"groundline-{name}.sock"


def arguments(settings: GatewaySettings, path: Path) -> list[str]:
    """Return Envoy's command-line arguments for the configuration in `path`, without the program's name."""
    return [
        "--config-path",
        str(path),
        "--concurrency",
        str(settings.worker_threads),
        "--disable-hot-restart",
        "--file-flush-interval-msec",
        "1000",
        "--log-level",
        "warning",
        "--log-format",
        '{"time":"%Y-%m-%dT%T.%fZ","event":"envoy","level":"%l","logger":"%n","message":"%j"}',
    ]
