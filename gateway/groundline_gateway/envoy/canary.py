"""Candidates: new versions of services that get a share of the requests beside those in use."""

from collections.abc import Sequence
from typing import Final

from groundline_gateway.envoy.clusters import BRIDGE, bridge_cluster, service_cluster
from groundline_gateway.envoy.nodes import EXTENSIONS, Node
from groundline_gateway.settings import Canaried, GatewaySettings

LAYER: Final = "canary"
"""Name of the runtime layer that holds the shares, and the beginning of their keys."""

# A second attempt goes to the versions in use: a candidate that breaks costs no request that may be retried.
_OTHERWISE: Final = {
    "retry_priority": {
        "name": "envoy.retry_priorities.previous_priorities",
        "typed_config": {
            "@type": f"{EXTENSIONS}.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
            "update_frequency": 1,
        },
    }
}


def target(service: str, settings: GatewaySettings) -> Node:
    """Return the part of a route that says which cluster, or share of two, its requests go to."""
    if service not in settings.canary_addresses:
        return {"cluster": service}
    percents = {service: 100, _share(service): 0}
    clusters = [{"name": name, "weight": percent} for name, percent in percents.items()]
    return {"weighted_clusters": {"clusters": clusters, "runtime_key_prefix": LAYER}}


def retried(policy: Node, settings: GatewaySettings) -> Node:
    """Return the policy of retries, for routes that may lead to a candidate."""
    return policy | _OTHERWISE if settings.canary_addresses else policy


def canary_clusters(settings: GatewaySettings) -> list[Node]:
    """Return the clusters of the candidates, and for each one that falls back to the versions in use while no
    replica of the candidate is healthy."""
    return [each for service in settings.canary_addresses for each in _candidate_and_share(service, settings)]


def runtime(settings: GatewaySettings) -> Node:
    """Return the shares as Envoy's runtime has them."""
    percent = share_percent(settings)
    layer: Node = {}
    for service in settings.canary_addresses:
        layer[f"{LAYER}.{service}"] = 100 - percent
        layer[f"{LAYER}.{_share(service)}"] = percent
    return {"@type": "type.googleapis.com/envoy.service.runtime.v3.Runtime", "name": LAYER, "layer": layer}


def share_percent(settings: GatewaySettings) -> int:
    """Read the candidates' share of the requests, in percent; 0 if the file does not hold one."""
    assert settings.canary_weight_file is not None, "candidates have a file of their share"
    try:
        percent = int(settings.canary_weight_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    return percent if percent in range(101) else 0


def _share(service: str) -> str:
    return f"{service}_canary"


def _candidate_and_share(service: Canaried, settings: GatewaySettings) -> Sequence[Node]:
    own = settings.model_copy(update={f"{service}_address": settings.canary_addresses[service]})
    candidate = bridge_cluster(own) if service == BRIDGE else service_cluster(service, own)
    candidate["name"] = candidate["load_assignment"]["cluster_name"] = f"{service}_candidate"
    share = {
        "name": _share(service),
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {
            "name": "envoy.clusters.aggregate",
            "typed_config": {
                "@type": f"{EXTENSIONS}.clusters.aggregate.v3.ClusterConfig",
                "clusters": [candidate["name"], service],
            },
        },
        **{
            name: candidate[name]
            for name in ("connect_timeout", "circuit_breakers", "typed_extension_protocol_options")
        },
    }
    return candidate, share
