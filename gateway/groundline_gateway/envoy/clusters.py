"""Clusters: the replicas of services, and what else the gateway calls."""

import math
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pydantic import AnyHttpUrl

from groundline_gateway.endpoints import endpoints
from groundline_gateway.envoy import tokens
from groundline_gateway.envoy.nodes import Node, duration, socket_address
from groundline_gateway.settings import GatewaySettings

SERVICES: Final = ("coordinator", "retriever", "reranker", "generator", "ingestor")
# Only these get requests; the others' health is only shown by /healthz.
_ROUTED: Final = frozenset(each.service for each in endpoints())
BRIDGE: Final = "bridge"
OWN: Final = "administration"
COLLECTOR: Final = "otel_collector"
ADMIN: Final = "admin"
# A service is available if one of its replicas is; they are 100 at most.
ANY_REPLICA_PERCENT: Final = 1.0
# Factors by which a healthy service is checked less often: one without requests, and a single replica, which
# gets them in any case. Each check wakes the service's threads some twenty times.
_QUIET_FACTOR: Final = 2.5
_SINGLE_FACTOR: Final = 5.0
# Share of the searches under way that one client may have at each retriever.
_LANE_SHARE: Final = 1 / 16
# Window of an answer, and, though its name does not say so, how much of a request may wait for
# the service; 16 MiB by default.
_STREAM_BUFFER_BYTES: Final = 256 << 10


def service_cluster(name: str, settings: GatewaySettings) -> Node:
    service = f"groundline.v1.{name.capitalize()}Service"
    cluster = _checked_cluster(name, settings, {"grpc_health_check": {"service_name": service}})
    if name in _ROUTED:
        (options,) = cluster["typed_extension_protocol_options"].values()
        http2 = options["explicit_http_config"]["http2_protocol_options"]
        # A process that hangs answers no ping: requests that wait for it are retried elsewhere after at most
        # 3.7 s, so that with their second attempt they take less than five.
        pings = {"interval": "1.200s", "interval_jitter": {"value": 0}, "timeout": "2.500s"}
        http2["connection_keepalive"] = pings
        # Without requests there is nothing to ping for. The next one connects anew.
        options["common_http_protocol_options"] = {"idle_timeout": "30s"}
        if name == "retriever":
            # A refusal costs the process part of what a search does, so Envoy refuses in its place. Chats
            # have no such bound, since most of them wait for a model.
            thresholds = cluster["circuit_breakers"]["thresholds"][0]
            thresholds["max_requests"] = settings.max_searches_under_way
            # Each lane of clients (envoy.yaml) has its connection, which bounds what is sent at once; the
            # rest waits here. With a maximum of one, Envoy opens the first of each lane, and no second one
            # even while the first only waits for its last answers: see LANE_MILLISECONDS of identity.lua.
            thresholds["max_connections"] = 1
            http2["max_concurrent_streams"] = _searches_at_once(settings)
            # Searches of a lane that wait for a process that hangs go elsewhere in turns, as many as are sent
            # to it, each after 3.7 s.
    return cluster


def _searches_at_once(settings: GatewaySettings) -> int:
    """Return the maximum searches of a lane that are sent to a retriever at once, by one worker thread."""
    return math.ceil(settings.max_searches_under_way * _LANE_SHARE / settings.worker_threads)


def bridge_cluster(settings: GatewaySettings) -> Node:
    """Return the one upstream that speaks HTTP/1.1; it keeps idle connections for longer than the gateway
    does."""
    cluster = _checked_cluster(BRIDGE, settings, {"http_health_check": {"path": "/readyz"}})
    # HTTP/1.1 has no pings: a process that hangs is known by its health checks, after at most 9 s.
    cluster["health_checks"][0]["unhealthy_edge_interval"] = "0.500s"
    (options,) = cluster["typed_extension_protocol_options"].values()
    options["explicit_http_config"] = {"http_protocol_options": {}}
    options["common_http_protocol_options"] = {"idle_timeout": "30s"}
    return cluster


def own_cluster(socket: Path, settings: GatewaySettings) -> Node:
    """Return the gateway's own program as an upstream: administration, and reflection."""
    cluster = _cluster(OWN, [], settings)
    del cluster["dns_lookup_family"]
    endpoint = {"endpoint": {"address": {"pipe": {"path": str(socket)}}}}
    cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": [endpoint]}]
    return cluster


def collector_cluster(settings: GatewaySettings) -> Node:
    assert settings.otlp_endpoint is not None
    return _url_cluster(COLLECTOR, settings.otlp_endpoint, settings)


def admin_cluster(address: str, settings: GatewaySettings) -> Node:
    """Return Envoy's own admin interface as an upstream: it works for few requests at once."""
    cluster = _cluster(ADMIN, [address], settings)
    del cluster["typed_extension_protocol_options"]
    cluster["circuit_breakers"] = {"thresholds": [{"max_connections": 2, "max_pending_requests": 8}]}
    return cluster


def jwks_clusters(settings: GatewaySettings) -> list[Node]:
    found = []
    for index, issuer in enumerate(settings.jwt_issuers):
        if issuer.jwks_url is not None:
            cluster = _url_cluster(tokens.cluster_name(index), issuer.jwks_url, settings)
            # Not every issuer speaks HTTP/2.
            del cluster["typed_extension_protocol_options"]
            found.append(cluster)
    return found


def _checked_cluster(name: str, settings: GatewaySettings, health_check: Node) -> Node:
    interval = duration(settings.health_interval_seconds)
    addresses = getattr(settings, f"{name}_address").split(",")
    cluster = _cluster(name, addresses, settings)
    is_single = len(addresses) == 1 and cluster["type"] == "STATIC"
    quiet = duration((_SINGLE_FACTOR if is_single else _QUIET_FACTOR) * settings.health_interval_seconds)
    cluster |= {
        # A slow or hanging replica gets fewer requests, since its unanswered ones count.
        "lb_policy": "LEAST_REQUEST",
        # When none is healthy, all are tried: a slow one is better than none, and one that is not ready can
        # say why. One that is down is known at once by its connection.
        "common_lb_config": {"healthy_panic_threshold": {"value": ANY_REPLICA_PERCENT}},
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": 1024,
                    "max_pending_requests": 1024,
                    "max_requests": 4096,
                    # A lost replica, one of two, holds half of all requests.
                    "retry_budget": {"budget_percent": {"value": 50.0}, "min_retry_concurrency": 16},
                }
            ]
        },
        "health_checks": [
            {
                "timeout": "3s",
                # Requests go to a single replica in any case: its health only shows in /healthz.
                "interval": quiet if is_single else interval,
                "unhealthy_interval": interval,
                "unhealthy_edge_interval": interval,
                "no_traffic_interval": interval,
                "no_traffic_healthy_interval": quiet,
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                **health_check,
            }
        ],
    }
    if not is_single:
        # A replica that drops requests or lets them time out gets none for a while, before its health check
        # fails. A single one would get them all the same, and the look at it each second wakes the gateway.
        cluster["outlier_detection"] = {
            "interval": "1s",
            "base_ejection_time": "5s",
            "max_ejection_time": "30s",
            "max_ejection_percent": 50,
            "split_external_local_origin_errors": True,
            "consecutive_local_origin_failure": 3,
            "enforcing_local_origin_success_rate": 0,
            "enforcing_success_rate": 0,
            # Health says that a replica can work; this detects that it does not.
            "successful_active_health_check_uneject_host": False,
        }
    return cluster


def _url_cluster(name: str, endpoint: AnyHttpUrl, settings: GatewaySettings) -> Node:
    cluster = _cluster(name, [f"{endpoint.host}:{endpoint.port}"], settings)
    if endpoint.scheme == "https":
        cluster["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "sni": endpoint.host,
                "common_tls_context": {"validation_context": {"system_root_certs": {}}},
            },
        }
    return cluster


def _cluster(name: str, addresses: Sequence[str], settings: GatewaySettings) -> Node:
    buffers = {"initial_stream_window_size": _STREAM_BUFFER_BYTES}
    http2: Node = {"explicit_http_config": {"http2_protocol_options": buffers}}
    options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {
        "name": name,
        # Names are resolved every five seconds.
        "type": "STATIC" if all(map(_is_ip, addresses)) else "STRICT_DNS",
        "dns_lookup_family": "ALL",
        "connect_timeout": duration(settings.connect_timeout_seconds),
        "lb_policy": "ROUND_ROBIN",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {"@type": options, **http2}
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [
                {
                    "lb_endpoints": [
                        {"endpoint": {"address": socket_address(address)}} for address in addresses
                    ]
                }
            ],
        },
    }


def _is_ip(address: str) -> bool:
    """Tell whether an address needs no resolving; a name may stand for several."""
    try:
        ip_address(address.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True
