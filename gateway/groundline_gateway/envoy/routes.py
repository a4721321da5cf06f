"""Routes: from an address to an RPC, to the bridge, or to what the gateway answers itself."""

import math
from typing import Final

from groundline_runtime.context import TRANSCODED_KEY

from groundline_gateway.bridged import Bridged
from groundline_gateway.endpoints import Endpoint
from groundline_gateway.envoy.canary import retried, target
from groundline_gateway.envoy.clusters import BRIDGE, OWN
from groundline_gateway.envoy.nodes import (
    EXTENSIONS,
    FILTER_CONFIG,
    Node,
    duration,
    override,
    set_headers,
)
from groundline_gateway.envoy.pages import fill_pages
from groundline_gateway.settings import GatewaySettings

# A service's own deadline error says more than the gateway's, so the gateway waits this much longer.
_GRACE_SECONDS: Final = 2.0
# Time for a JSON request to arrive.
_ARRIVAL_SECONDS: Final = 60.0
# Time after which what the bridge has not begun to answer is begun again beside it: longer than most answers
# take that are not streamed, since both are paid for; with the second one's time, fifteen seconds.
_BRIDGE_PATIENCE_SECONDS: Final = 14.0
# Maximum time in which a stream of reflection asks nothing.
_REFLECTION_IDLE_SECONDS: Final = 5.0
# Retried when a service closes the connection or hangs without an answer; on another replica if there is one.
_RETRY_LOST: Final = {
    "retry_on": "connect-failure,refused-stream,reset-before-request,reset",
    "num_retries": 1,
    "retry_host_predicate": [
        {
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {"@type": f"{EXTENSIONS}.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
        }
    ],
    # A replica that has just lost its requests has fewest, and wins three choices in four against one other,
    # since each is between two at random: 12 attempts left 1 retry in 32 where it was.
    "host_selection_retry_max_attempts": 50,
}
# RPCs by the settings of their deadline and size; the others take request_timeout_seconds.
_ANSWERS: Final = frozenset({"Answer", "Chat", "QueryTables", "Search", "Verify"})
_WATCHES: Final = frozenset({"WatchJob"})
BRINGS_DOCUMENTS: Final = frozenset({"IngestDocuments"})
_TAKES_WHOLE_DOCUMENTS: Final = BRINGS_DOCUMENTS | {
    "UploadDocument",
    "DownloadDocument",
    "GetDocumentPage",
    "DeleteDocument",
    "DeleteDocuments",
    "DeleteSource",
    "RevertJob",
}
# The filters of an answer's way allow 16 MiB, and Envoy has one limit for both ways.
_KEPT_OF_UPLOAD_BYTES: Final = 64 << 10
# Originals come from anyone: they must not be rendered on the gateway's own origin.
_DOWNLOAD_HEADERS: Final = {"content-security-policy": "default-src 'none'; sandbox"}
# Both versions of reflection have the same messages.
REFLECTION_PATHS: Final = (
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
)
# Names of the routes that the gateway answers itself, and only to who has a key.
_NEEDS_KEY: Final = frozenset({"grpc"})
_BUFFER_PER_ROUTE: Final = f"{EXTENSIONS}.filters.http.buffer.v3.BufferPerRoute"


def fill_own_routes(routes: dict[str, Node], settings: GatewaySettings) -> None:
    """Fill the routes that the gateway answers itself."""
    for name in routes.keys() - _NEEDS_KEY:
        for filter_name in ("identity", "rbac", "bodies", "grpc_json_transcoder"):
            override(routes[name], filter_name, {"@type": FILTER_CONFIG, "disabled": True})
    for route in routes.values():
        route["tracing"] = {"overall_sampling": {"numerator": 0}}
    fill_pages(routes, settings)


def json_route(endpoint: Endpoint, settings: GatewaySettings) -> Node:
    """Return the route from the endpoint's address to its RPC."""
    path = {"path": endpoint.template} if endpoint.is_fixed else {"safe_regex": {"regex": endpoint.pattern}}
    verb = {"name": ":method", "string_match": {"exact": endpoint.verb}}
    route = call_route(endpoint, {**path, "headers": [verb]}, settings)
    route["request_headers_to_add"] += set_headers({TRANSCODED_KEY: "true"})
    if endpoint.is_stream:
        override(route, "events", {"@type": FILTER_CONFIG, "config": {}})
    if endpoint.is_download:
        route["response_headers_to_add"] = set_headers(_DOWNLOAD_HEADERS)
    return route


def call_route(endpoint: Endpoint, match: Node, settings: GatewaySettings) -> Node:
    """Return the route to the endpoint's RPC, however it is addressed."""
    route: Node = {
        "name": endpoint.name,
        "match": match,
        "route": target(endpoint.service, settings),
        "decorator": {"operation": endpoint.name, "propagate": False},
    }
    seconds = _deadline_seconds(endpoint, settings)
    _deadline(route, seconds, is_stream=endpoint.is_stream, is_upload=endpoint.is_upload)
    # An answer of which nothing has been sent may be started again; at worst its question is stored twice.
    if (endpoint.is_idempotent or endpoint.name in _ANSWERS) and not endpoint.is_upload:
        route["route"]["retry_policy"] = retried(_RETRY_LOST, settings)
    if endpoint.is_upload:
        # A body is passed on as it arrives, and the service refuses one that is too large. Until it has been
        # answered, as much of it is kept for another attempt.
        route["request_body_buffer_limit"] = _KEPT_OF_UPLOAD_BYTES
        override(route, "buffer", {"@type": _BUFFER_PER_ROUTE, "disabled": True})
    elif endpoint.name in BRINGS_DOCUMENTS:
        limit = {"max_request_bytes": settings.max_document_request_bytes}
        override(route, "buffer", {"@type": _BUFFER_PER_ROUTE, "buffer": limit})
    return route


def bridged_route(bridged: Bridged, settings: GatewaySettings) -> Node:
    path = {"path": bridged.path} if bridged.is_fixed else {"safe_regex": {"regex": bridged.path}}
    verbs = [{"name": ":method", "string_match": {"exact": bridged.verb}}] if bridged.verb else []
    route: Node = {
        "name": bridged.name,
        "match": {**path, "headers": verbs},
        "route": target(BRIDGE, settings),
        "decorator": {"operation": bridged.name, "propagate": False},
    }
    seconds = settings.answer_timeout_seconds if bridged.answers else settings.request_timeout_seconds
    _deadline(route, seconds, is_stream=bridged.answers, is_upload=False)
    # It stores nothing, so what it has not begun to answer may be begun again, at another replica beside it.
    retry_policy = retried(_RETRY_LOST, settings)
    route["route"]["retry_policy"] = retry_policy | {"per_try_timeout": duration(_BRIDGE_PATIENCE_SECONDS)}
    route["route"]["hedge_policy"] = {"hedge_on_per_try_timeout": True}
    # The bridge checks the bodies that no contract describes.
    for filter_name in ("bodies", "grpc_json_transcoder"):
        override(route, filter_name, {"@type": FILTER_CONFIG, "disabled": True})
    return route


def reflection_route(path: str, settings: GatewaySettings) -> Node:
    route: Node = {
        "name": "Reflection",
        "match": {"prefix": path, "grpc": {}},
        "route": {"cluster": OWN, "prefix_rewrite": REFLECTION_PATHS[-1]},
        "tracing": {"overall_sampling": {"numerator": 0}},
    }
    _deadline(route, settings.request_timeout_seconds, is_stream=True, is_upload=False)
    route["route"]["idle_timeout"] = duration(_REFLECTION_IDLE_SECONDS)
    # Reflection requests come one at a time, each after the answer to the one before.
    override(route, "buffer", {"@type": _BUFFER_PER_ROUTE, "disabled": True})
    return route


def _deadline_seconds(endpoint: Endpoint, settings: GatewaySettings) -> float:
    if endpoint.name in _ANSWERS:
        return settings.answer_timeout_seconds
    if endpoint.name in _WATCHES:
        return settings.watch_timeout_seconds
    if endpoint.name in _TAKES_WHOLE_DOCUMENTS:
        return settings.document_timeout_seconds
    return settings.request_timeout_seconds


def _deadline(route: Node, seconds: float, *, is_stream: bool, is_upload: bool) -> None:
    """Tell the service its deadline, and end the request a little later if the service does not keep it."""
    backstop = seconds + _GRACE_SECONDS
    end = duration(backstop)
    limits: Node = {"idle_timeout": end, "timeout": "0s" if is_stream else end}
    if not is_upload:
        # The timeout above begins when the request has arrived, so its arrival has to be bounded too.
        whole = backstop if is_stream else backstop + _ARRIVAL_SECONDS
        limits["max_stream_duration"] = {"max_stream_duration": duration(whole)}
    route["route"] |= limits
    route.setdefault("request_headers_to_add", []).extend(
        set_headers({"grpc-timeout": f"{math.ceil(seconds * 1000)}m"})
    )
