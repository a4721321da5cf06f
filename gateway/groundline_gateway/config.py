"""Envoy's complete bootstrap configuration, from the settings."""

import base64
import copy
import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml
from groundline_runtime.context import TRANSCODED_KEY, Caller, format_principals
from pydantic import AnyHttpUrl

from groundline_gateway import bodies, lua, tokens
from groundline_gateway.bridged import BRIDGED, Bridged
from groundline_gateway.descriptors import descriptor_set, exposed_services
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_gateway.errors import grpc_replies, local_replies
from groundline_gateway.keys import Holder, key_hash
from groundline_gateway.scopes import REQUIRED, Scope
from groundline_gateway.settings import GatewaySettings

_EXTENSIONS: Final = "type.googleapis.com/envoy.extensions"
_TOKENS: Final = "envoy.filters.http.jwt_authn"
_AUTHENTICATION: Final = f"{_EXTENSIONS}.filters.http.jwt_authn.v3.JwtAuthentication"
_SERVICES: Final = ("coordinator", "retriever", "reranker", "generator", "ingestor")
# Only these get requests; the others' health is only shown by /healthz.
_ROUTED: Final = frozenset({"coordinator", "retriever", "ingestor"})
_BRIDGE: Final = "bridge"
_REFLECTION: Final = "reflection"
# A service's own deadline error says more than the gateway's, so the gateway waits this much longer.
_GRACE_SECONDS: Final = 2.0
# Time for a JSON request to arrive.
_ARRIVAL_SECONDS: Final = 60.0
# A service is available if one of its replicas is; they are 100 at most.
_ANY_REPLICA_PERCENT: Final = 1.0
# Factor by which a healthy service without traffic is checked less often.
_UNUSED_FACTOR: Final = 2.5
# Retried when a service closes the connection or hangs without an answer; on another replica if there is one.
_RETRY_LOST: Final = {
    "retry_on": "connect-failure,refused-stream,reset-before-request,reset",
    "num_retries": 1,
    "retry_host_predicate": [
        {
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {"@type": f"{_EXTENSIONS}.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
        }
    ],
    # Of two replicas the same one is chosen every other time: 3 attempts left one retry in 16 where it was.
    "host_selection_retry_max_attempts": 12,
}
# RPCs by the settings of their deadline and size; the others take request_timeout_seconds.
_ANSWERS: Final = frozenset({"Answer", "Chat", "Search"})
_WATCHES: Final = frozenset({"WatchJob"})
_BRINGS_DOCUMENTS: Final = frozenset({"IngestDocuments"})
_TAKES_WHOLE_DOCUMENTS: Final = _BRINGS_DOCUMENTS | {
    "UploadDocument",
    "DownloadDocument",
    "DeleteDocument",
    "DeleteDocuments",
    "DeleteSource",
}
# An upload holds up to 3.5 MiB in the buffers of both sides while its service does not read: of one client
# that would be 700 MiB in two threads, with the settings' defaults.
_UPLOAD_WEIGHT: Final = 4
# Originals come from anyone: they must not be rendered on the gateway's own origin.
_DOWNLOAD_HEADERS: Final = {"content-security-policy": "default-src 'none'; sandbox"}
# Envoy answers a named origin's question itself, and only where the route leads to a service; what is left of
# such requests needs a key, and ends at the transcoder.
_PREFLIGHT: Final = {
    "name": "preflight",
    "match": {"prefix": "/", "headers": [{"name": ":method", "string_match": {"exact": "OPTIONS"}}]},
    "route": {"cluster": "coordinator"},
}
# Filters that only JSON, pages and browsers need.
_NOT_FOR_GRPC: Final = frozenset(
    f"envoy.filters.http.{name}"
    for name in ("cors", "compressor", "health_check", "bodies", "events", "grpc_json_transcoder")
)
# Both versions of reflection have the same messages.
_REFLECTION_PATHS: Final = (
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
)
# Routes that need no key.
_PUBLIC_ROUTES: Final = ("page", "docs", "openapi", "healthz", "unknown")
_FILTER_CONFIG: Final = "type.googleapis.com/envoy.config.route.v3.FilterConfig"
_LUA_PER_ROUTE: Final = f"{_EXTENSIONS}.filters.http.lua.v3.LuaPerRoute"
_BUFFER_PER_ROUTE: Final = f"{_EXTENSIONS}.filters.http.buffer.v3.BufferPerRoute"

type Node = dict[str, Any]


def render(
    settings: GatewaySettings,
    holders: Mapping[str, Holder] = MappingProxyType({}),
    path: Path = Path("envoy.json"),
) -> Node:
    """Return the bootstrap configuration with the hashes of the keys: those of the settings, and `holders`.

    `path` is where it will be written, since the socket of reflection is beside it.
    """
    config: Node = yaml.safe_load(_resource("envoy.yaml"))
    resources = config["static_resources"]
    (listener,) = resources["listeners"]
    listener["address"] = {"socket_address": {"address": settings.host, "port_value": settings.port}}
    http = _http(listener)
    exposed = endpoints()
    _fill_filters(
        {entry["name"].rpartition(".")[2]: entry["typed_config"] for entry in http["http_filters"]},
        exposed,
        settings,
    )
    http["local_reply_config"]["mappers"] = local_replies(_retry_after_seconds(settings))
    _named(http["access_log"])["audit"]["typed_config"] |= _audit_sink(settings)
    site = http["route_config"]["virtual_hosts"][0]
    _override(site, "identity", {"@type": _LUA_PER_ROUTE, "filter_context": _holders(settings, holders)})
    if settings.cors_origins:
        _override(site, "cors", _cors(settings.cors_origins))
        site["routes"].insert(0, _PREFLIGHT)
    _fill_own_routes(_named(site["routes"]))
    # Before the last route, which matches everything.
    site["routes"][-1:-1] = [
        *(_bridged_route(bridged, settings) for bridged in BRIDGED),
        *(_route(endpoint, settings) for endpoint in exposed),
    ]
    heap = _named(config["overload_manager"]["resource_monitors"])["envoy.resource_monitors.fixed_heap"]
    heap["typed_config"]["max_heap_size_bytes"] = settings.max_heap_bytes
    resources["clusters"] = [
        *(_service_cluster(name, settings) for name in _SERVICES),
        _bridge_cluster(settings),
    ]
    if settings.jwt_issuers:
        http["http_filters"].insert(
            _filter_names(http).index("envoy.filters.http.identity"),
            {"name": _TOKENS, "typed_config": _authentication(settings)},
        )
        resources["clusters"] += _jwks_clusters(settings)
    if settings.otlp_endpoint is not None:
        resources["clusters"].append(_collector_cluster(settings))
        http["tracing"] = _tracing()
    if settings.grpc_port is not None:
        resources["listeners"].append(_grpc_listener(listener, exposed, settings, settings.grpc_port))
        resources["clusters"].append(_reflection_cluster(reflection_socket(path), settings))
    if settings.admin_address is not None:
        config["admin"] = {"address": _socket(settings.admin_address)}
    return config


def write(
    settings: GatewaySettings, path: Path, holders: Mapping[str, Holder] = MappingProxyType({})
) -> None:
    """Write the configuration to `path`, and beside it the routes and token checks, whose changes Envoy
    follows. Raises SettingsError.

    Only their owner may read them, since they name the holders of keys.
    """
    config = render(settings, holders, path)
    if settings.jwt_issuers:
        write_tokens(settings, path)
    for listener in config["static_resources"]["listeners"]:
        http = _http(listener)
        for entry in http["http_filters"]:
            if entry["name"] == _TOKENS:
                del entry["typed_config"]
                source = _source(_tokens_path(path))
                entry["config_discovery"] = {"config_source": source, "type_urls": [_AUTHENTICATION]}
        routes = http.pop("route_config")
        file = _routes_path(path, listener)
        http["rds"] = {"route_config_name": routes["name"], "config_source": _source(file)}
        _write_private(file, _discovered(routes))
    _write_private(path, config)


def write_routes(settings: GatewaySettings, path: Path, holders: Mapping[str, Holder]) -> None:
    """Rewrite the routes, which depend on the holders of keys, beside the configuration in `path`."""
    for listener in render(settings, holders, path)["static_resources"]["listeners"]:
        _write_private(_routes_path(path, listener), _discovered(_http(listener)["route_config"]))


def write_tokens(settings: GatewaySettings, path: Path) -> None:
    """Rewrite the token checks, which depend on key sets, beside the configuration in `path`. Raises
    SettingsError."""
    extension = {
        "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
        "name": _TOKENS,
        "typed_config": _authentication(settings),
    }
    _write_private(_tokens_path(path), {"resources": [extension]})


def _authentication(settings: GatewaySettings) -> Node:
    return {"@type": _AUTHENTICATION, **tokens.authentication(settings.jwt_issuers)}


def _tokens_path(path: Path) -> Path:
    return path.with_suffix(".tokens.json")


def reflection_socket(path: Path) -> Path:
    """Return the path of the socket, beside the configuration in `path`, at which Envoy reaches
    reflection."""
    return path.with_suffix(".reflection.sock")


def _source(path: Path) -> Node:
    return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}


def _http(listener: Node) -> Node:
    http: Node = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return http


def _filter_names(http: Node) -> list[str]:
    return [each["name"] for each in http["http_filters"]]


def _routes_path(path: Path, listener: Node) -> Path:
    # Envoy takes one listener's routes from a file.
    return path.with_suffix(f".{listener['name']}-routes.json")


def _discovered(routes: Node) -> Node:
    return {
        "resources": [{"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", **routes}]
    }


def _write_private(path: Path, content: Node) -> None:
    # Envoy notices a file that is moved to its path, and never sees half of one.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


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


def _fill_filters(filters: dict[str, Node], exposed: Sequence[Endpoint], settings: GatewaySettings) -> None:
    filters["health_check"]["cluster_min_healthy_percentages"] = {
        name: {"value": _ANY_REPLICA_PERCENT} for name in (*_SERVICES, _BRIDGE)
    }
    weight = math.ceil(settings.max_document_request_bytes / settings.max_request_bytes)
    filters["identity"]["default_source_code"]["inline_string"] = (
        _resource("sha256.lua")
        + lua.constants(
            CLAIMS=tokens.claims(settings.jwt_issuers),
            SCOPES={
                name: dict.fromkeys(sorted(scopes), True)
                for name, scopes in (
                    *((each.name, REQUIRED[each.name]) for each in exposed),
                    *((each.name, each.scopes) for each in BRIDGED),
                    ("Reflection", frozenset(Scope)),
                )
            },
            MAX_UNDER_WAY=settings.max_concurrent_requests,
            WEIGHTS={
                **dict.fromkeys(sorted(_BRINGS_DOCUMENTS), weight),
                **{each.name: _UPLOAD_WEIGHT for each in exposed if each.is_upload},
            },
            MAX_WRONG_KEYS=settings.max_wrong_keys_per_minute,
        )
        + _resource("identity.lua")
    )
    filters["bodies"]["default_source_code"]["inline_string"] = bodies.script(exposed)
    filters["events"]["default_source_code"]["inline_string"] = _resource("events.lua")
    limit = filters["local_ratelimit"]
    # A bucket for each client that comes, and for none longer than it takes to forget the least used of them.
    limit["descriptors"] = [{"entries": [{"key": "client"}], "token_bucket": _bucket(settings)}]
    limit["response_headers_to_add"] = [
        {"header": {"key": "retry-after", "value": str(_retry_after_seconds(settings))}}
    ]
    filters["buffer"]["max_request_bytes"] = settings.max_request_bytes
    transcoder = filters["grpc_json_transcoder"]
    transcoder["proto_descriptor_bin"] = base64.b64encode(descriptor_set().SerializeToString()).decode()
    transcoder["services"] = sorted(service.full_name for service in exposed_services())


def _audit_sink(settings: GatewaySettings) -> Node:
    if settings.audit_log_file is None:
        return {"@type": f"{_EXTENSIONS}.access_loggers.stream.v3.StderrAccessLog"}
    path = str(settings.audit_log_file)
    return {"@type": f"{_EXTENSIONS}.access_loggers.file.v3.FileAccessLog", "path": path}


def _fill_own_routes(routes: dict[str, Node]) -> None:
    """Fill the routes that the gateway answers itself."""
    for name in _PUBLIC_ROUTES:
        for filter_name in ("identity", "rbac", "bodies", "grpc_json_transcoder"):
            _override(routes[name], filter_name, {"@type": _FILTER_CONFIG, "disabled": True})
    for route in routes.values():
        route["tracing"] = {"overall_sampling": {"numerator": 0}}
    for name, file in (("page", "index.html"), ("docs", "docs.html")):
        page = _resource(f"page/{file}")
        routes[name]["direct_response"]["body"]["inline_string"] = page
        routes[name]["response_headers_to_add"] = _page_headers(page)
    document = routes["openapi"]
    document["direct_response"]["body"]["inline_string"] = _resource("page/openapi.json")
    document["response_headers_to_add"] = _headers({"content-type": "application/json"})


def _grpc_listener(public: Node, exposed: Sequence[Endpoint], settings: GatewaySettings, port: int) -> Node:
    """Return the listener that serves the exposed RPCs and reflection over gRPC, behind the same checks."""
    listener = copy.deepcopy(public)
    listener["name"] = "grpc"
    listener["address"]["socket_address"]["port_value"] = port
    http = _http(listener)
    http |= {"stat_prefix": "grpc", "codec_type": "HTTP2"}
    http["http_filters"] = [each for each in http["http_filters"] if each["name"] not in _NOT_FOR_GRPC]
    http["local_reply_config"]["mappers"] = grpc_replies(_retry_after_seconds(settings))
    http["route_config"]["name"] = "grpc"
    (site,) = http["route_config"]["virtual_hosts"]
    site["name"] = "grpc"
    site["typed_per_filter_config"] = {
        name: each for name, each in site["typed_per_filter_config"].items() if name not in _NOT_FOR_GRPC
    }
    # An RPC with several addresses counts once.
    calls = {each.rpc: _call(each, {"path": each.rpc, "grpc": {}}, settings) for each in exposed}
    unknown = {"name": "unknown", "match": {"prefix": "/"}, "direct_response": {"status": 404}}
    reflection = [_reflection_route(path, settings) for path in _REFLECTION_PATHS]
    site["routes"] = [*calls.values(), *reflection, unknown]
    return listener


def _reflection_route(path: str, settings: GatewaySettings) -> Node:
    route: Node = {
        "name": "Reflection",
        "match": {"prefix": path, "grpc": {}},
        "route": {"cluster": _REFLECTION, "prefix_rewrite": _REFLECTION_PATHS[-1]},
        "tracing": {"overall_sampling": {"numerator": 0}},
    }
    _deadline(route, settings.request_timeout_seconds, is_stream=True, is_upload=False)
    # Reflection requests come one at a time, each after the answer to the one before.
    _override(route, "buffer", {"@type": _BUFFER_PER_ROUTE, "disabled": True})
    return route


def _reflection_cluster(socket: Path, settings: GatewaySettings) -> Node:
    cluster = _cluster(_REFLECTION, [], settings) | {"type": "STATIC"}
    del cluster["dns_lookup_family"]
    endpoint = {"endpoint": {"address": {"pipe": {"path": str(socket)}}}}
    cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": [endpoint]}]
    return cluster


def _route(endpoint: Endpoint, settings: GatewaySettings) -> Node:
    """Return the route from the endpoint's address to its RPC."""
    path = {"path": endpoint.template} if endpoint.is_fixed else {"safe_regex": {"regex": endpoint.pattern}}
    verb = {"name": ":method", "string_match": {"exact": endpoint.verb}}
    route = _call(endpoint, {**path, "headers": [verb]}, settings)
    route["request_headers_to_add"] += _headers({TRANSCODED_KEY: "true"})
    if endpoint.is_stream:
        _override(route, "events", {"@type": _FILTER_CONFIG, "config": {}})
    if endpoint.is_download:
        route["response_headers_to_add"] = _headers(_DOWNLOAD_HEADERS)
    return route


def _call(endpoint: Endpoint, match: Node, settings: GatewaySettings) -> Node:
    """Return the route to the endpoint's RPC, however it is addressed."""
    route: Node = {
        "name": endpoint.name,
        "match": match,
        "route": {"cluster": endpoint.service},
        "decorator": {"operation": endpoint.name, "propagate": False},
    }
    seconds = _deadline_seconds(endpoint, settings)
    _deadline(route, seconds, is_stream=endpoint.is_stream, is_upload=endpoint.is_upload)
    # An answer of which nothing has been sent may be started again; at worst its question is stored twice.
    if (endpoint.is_idempotent or endpoint.name in _ANSWERS) and not endpoint.is_upload:
        route["route"]["retry_policy"] = _RETRY_LOST | (
            # RPCs that take little time are retried before the whole deadline has passed.
            {"per_try_timeout": _duration(seconds / 3)}
            if endpoint.has_no_side_effects
            and not (endpoint.is_stream or endpoint.is_download or endpoint.name in _ANSWERS)
            else {}
        )
    if endpoint.is_upload:
        # A body is passed on as it arrives, and the service refuses one that is too large.
        _override(route, "buffer", {"@type": _BUFFER_PER_ROUTE, "disabled": True})
    elif endpoint.name in _BRINGS_DOCUMENTS:
        limit = {"max_request_bytes": settings.max_document_request_bytes}
        _override(route, "buffer", {"@type": _BUFFER_PER_ROUTE, "buffer": limit})
    return route


def _bridged_route(bridged: Bridged, settings: GatewaySettings) -> Node:
    path = {"path": bridged.path} if bridged.is_fixed else {"safe_regex": {"regex": bridged.path}}
    verbs = [{"name": ":method", "string_match": {"exact": bridged.verb}}] if bridged.verb else []
    route: Node = {
        "name": bridged.name,
        "match": {**path, "headers": verbs},
        "route": {"cluster": _BRIDGE},
        "decorator": {"operation": bridged.name, "propagate": False},
    }
    seconds = settings.answer_timeout_seconds if bridged.answers else settings.request_timeout_seconds
    _deadline(route, seconds, is_stream=bridged.answers, is_upload=False)
    # The bridge checks the bodies that no contract describes.
    for filter_name in ("bodies", "grpc_json_transcoder"):
        _override(route, filter_name, {"@type": _FILTER_CONFIG, "disabled": True})
    return route


def _deadline_seconds(endpoint: Endpoint, settings: GatewaySettings) -> float:
    if endpoint.name in _ANSWERS:
        return settings.answer_timeout_seconds
    if endpoint.name in _WATCHES:
        return settings.watch_timeout_seconds
    if endpoint.name in _TAKES_WHOLE_DOCUMENTS:
        return settings.document_timeout_seconds
    return settings.request_timeout_seconds


def _cors(origins: Sequence[str]) -> Node:
    """Return the CORS policy for pages of these origins. They send keys themselves, so credentials are not
    allowed."""
    matches = [{"safe_regex": {"regex": ".*"}} if origin == "*" else {"exact": origin} for origin in origins]
    return {
        "@type": f"{_EXTENSIONS}.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": matches,
        "allow_methods": "GET, POST, PATCH, DELETE",
        "allow_headers": "authorization, x-api-key, content-type, last-event-id, traceparent, tracestate",
        "expose_headers": "x-request-id, retry-after",
        "max_age": "600",
    }


def _override(scope: Node, filter_name: str, config: Node) -> None:
    scope.setdefault("typed_per_filter_config", {})[f"envoy.filters.http.{filter_name}"] = config


def _holders(settings: GatewaySettings, holders: Mapping[str, Holder]) -> Node:
    """Return the holders by the hashes of their keys, as identity.lua reads them."""
    own = {
        key_hash(entry.key.get_secret_value()): Holder(entry.client, entry.principals, entry.scopes)
        for entry in settings.api_keys
    }
    return {
        hashed: {
            "client": holder.client,
            "credential": f"key:{holder.key_id}" if holder.key_id else "key",
            "principals": format_principals(Caller(tuple(holder.principals))),
            "scopes": list(holder.scopes),
            **({"expires": holder.expire_time.timestamp()} if holder.expire_time else {}),
        }
        for hashed, holder in {**holders, **own}.items()
    }


def _deadline(route: Node, seconds: float, *, is_stream: bool, is_upload: bool) -> None:
    """Tell the service its deadline, and end the request a little later if the service does not keep it."""
    backstop = seconds + _GRACE_SECONDS
    end = _duration(backstop)
    limits: Node = {"idle_timeout": end, "timeout": "0s" if is_stream else end}
    if not is_upload:
        # The timeout above begins when the request has arrived, so its arrival has to be bounded too.
        whole = backstop if is_stream else backstop + _ARRIVAL_SECONDS
        limits["max_stream_duration"] = {"max_stream_duration": _duration(whole)}
    route["route"] |= limits
    route.setdefault("request_headers_to_add", []).extend(
        _headers({"grpc-timeout": f"{math.ceil(seconds * 1000)}m"})
    )


def _bucket(settings: GatewaySettings) -> Node:
    # Envoy fills no bucket more often than every 50 ms.
    interval = max(60 / settings.rate_limit_per_minute, 0.05)
    tokens = max(1, round(settings.rate_limit_per_minute * interval / 60))
    return {
        "max_tokens": max(settings.rate_limit_burst, tokens),
        "tokens_per_fill": tokens,
        "fill_interval": _duration(tokens * 60 / settings.rate_limit_per_minute),
    }


def _retry_after_seconds(settings: GatewaySettings) -> int:
    """Return the time until the next token, in whole seconds as Retry-After requires."""
    return math.ceil(60 / settings.rate_limit_per_minute)


def _service_cluster(name: str, settings: GatewaySettings) -> Node:
    service = f"groundline.v1.{name.capitalize()}Service"
    cluster = _checked_cluster(name, settings, {"grpc_health_check": {"service_name": service}})
    if name in _ROUTED:
        # A process that hangs answers no ping: requests that wait for it are retried elsewhere after at most
        # 4.5 s.
        (options,) = cluster["typed_extension_protocol_options"].values()
        http2 = options["explicit_http_config"]["http2_protocol_options"]
        http2["connection_keepalive"] = {
            "interval": "2s",
            "interval_jitter": {"value": 0},
            "timeout": "2.500s",
        }
    return cluster


def _bridge_cluster(settings: GatewaySettings) -> Node:
    """Return the one upstream that speaks HTTP/1.1; it keeps idle connections for longer than the gateway
    does."""
    cluster = _checked_cluster(_BRIDGE, settings, {"http_health_check": {"path": "/readyz"}})
    (options,) = cluster["typed_extension_protocol_options"].values()
    options["explicit_http_config"] = {"http_protocol_options": {}}
    options["common_http_protocol_options"] = {"idle_timeout": "30s"}
    return cluster


def _checked_cluster(name: str, settings: GatewaySettings, health_check: Node) -> Node:
    interval = _duration(settings.health_interval_seconds)
    addresses = getattr(settings, f"{name}_address").split(",")
    return _cluster(name, addresses, settings) | {
        # A slow or hanging replica gets fewer requests, since its unanswered ones count.
        "lb_policy": "LEAST_REQUEST",
        # When none is healthy, all are tried: a slow one is better than none, and one that is not ready can
        # say why. One that is down is known at once by its connection.
        "common_lb_config": {"healthy_panic_threshold": {"value": _ANY_REPLICA_PERCENT}},
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": 1024,
                    "max_pending_requests": 1024,
                    "max_requests": 4096,
                    # Of two replicas, one that is lost holds half of all requests.
                    "retry_budget": {"budget_percent": {"value": 50.0}, "min_retry_concurrency": 16},
                }
            ]
        },
        # A replica that drops requests or lets them time out gets none for a while, before its health check
        # fails.
        "outlier_detection": {
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
        },
        "health_checks": [
            {
                "timeout": "3s",
                "interval": interval,
                "no_traffic_interval": interval,
                "no_traffic_healthy_interval": _duration(_UNUSED_FACTOR * settings.health_interval_seconds),
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                **health_check,
            }
        ],
    }


def _collector_cluster(settings: GatewaySettings) -> Node:
    assert settings.otlp_endpoint is not None
    return _url_cluster("otel_collector", settings.otlp_endpoint, settings)


def _jwks_clusters(settings: GatewaySettings) -> list[Node]:
    found = []
    for index, issuer in enumerate(settings.jwt_issuers):
        if issuer.jwks_url is not None:
            cluster = _url_cluster(tokens.cluster_name(index), issuer.jwks_url, settings)
            # Not every issuer speaks HTTP/2.
            del cluster["typed_extension_protocol_options"]
            found.append(cluster)
    return found


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
    http2: Node = {"explicit_http_config": {"http2_protocol_options": {}}}
    options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {
        "name": name,
        "type": "STRICT_DNS",
        "dns_lookup_family": "ALL",
        "connect_timeout": _duration(settings.connect_timeout_seconds),
        "lb_policy": "ROUND_ROBIN",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {"@type": options, **http2}
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": _socket(address)}} for address in addresses]}
            ],
        },
    }


def _tracing() -> Node:
    # A caller's traceparent is continued: a call from another system is one trace with what it caused.
    return {
        "provider": {
            "name": "envoy.tracers.opentelemetry",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
                "grpc_service": {"envoy_grpc": {"cluster_name": "otel_collector"}, "timeout": "5s"},
                "service_name": "groundline-gateway",
            },
        },
        "max_path_tag_length": 256,
    }


def _page_headers(page: str) -> list[Node]:
    def hashes(tag: str) -> str:
        blocks = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = (hashlib.sha256(block.encode()).digest() for block in blocks)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    policy = (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
    }
    return _headers(headers)


def _headers(headers: Mapping[str, str]) -> list[Node]:
    return [
        {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
        for key, value in headers.items()
    ]


def _resource(name: str) -> str:
    return files("groundline_gateway").joinpath(name).read_text(encoding="utf-8")


def _named(entries: Iterable[Node]) -> dict[str, Node]:
    return {entry["name"]: entry for entry in entries}


def _socket(address: str) -> Node:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}


def _duration(seconds: float) -> str:
    return f"{seconds:.3f}s"
