"""Listener of Envoy for Prometheus: one address, behind which is the admin interface."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

import yaml

from groundline_gateway.envoy.nodes import Node, http_of, named, resource

# A tenth of Envoy's figures, by its own names for them: what clients ask and services answer, who is refused,
# which replicas are healthy, and how full the process is.
_OF_LISTENERS: Final = (
    "downstream_cx_(active|total)",
    "downstream_rq_([1-5]xx|active|time|total|timeout|rx_reset|tx_reset|overload_close)",
    "lua.errors",
    "rbac.denied",
    "jwt_authn.(allowed|denied|jwks_fetch_failed|jwks_fetch_success)",
)
_OF_CLUSTERS: Final = (
    "membership_(healthy|total)",
    "health_check.(attempt|failure)",
    "outlier_detection.ejections_active",
    "circuit_breakers.default.(cx|rq|rq_pending)_open",
    "upstream_cx_(active|total|connect_fail|connect_timeout|overflow)",
    "upstream_rq_([1-5]xx|active|time|total|timeout|per_try_timeout|rx_reset)",
    "upstream_rq_(retry|retry_overflow|pending_active|pending_overflow|active_overflow)",
)
_OF_THE_PROCESS: Final = (
    "client.http_local_rate_limit.(ok|rate_limited)",
    "overload.envoy.resource_monitors.[a-z_]+.pressure",
    "overload.envoy.overload_actions.[a-z_]+.active",
    "server.(live|uptime|concurrency|memory_allocated|memory_heap_size|memory_physical_size)",
)


def metrics_listener(host: str, port: int, clusters: Iterable[str]) -> Node:
    """Return the listener whose one address has the figures of the clusters with these names, and of the
    process."""
    listener: Node = yaml.safe_load(resource("envoy/metrics.yaml"))
    listener["address"] = {"socket_address": {"address": host, "port_value": port}}
    (site,) = http_of(listener)["route_config"]["virtual_hosts"]
    named(site["routes"])["metrics"]["route"]["prefix_rewrite"] = _figures(clusters)
    return listener


def _figures(clusters: Iterable[str]) -> str:
    """Return the address of the figures at the admin interface."""
    names = (
        f"http.(public|grpc).({'|'.join(_OF_LISTENERS)})",
        f"cluster.({'|'.join(clusters)}).({'|'.join(_OF_CLUSTERS)})",
        *_OF_THE_PROCESS,
    )
    pattern = "|".join(names).replace(".", r"\.")
    return f"/stats/prometheus?filter={quote(f'^({pattern})$', safe='')}"
