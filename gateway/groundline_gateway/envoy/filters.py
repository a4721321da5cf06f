"""Filters: who calls, what a body may hold, how much a client may ask for."""

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from groundline_runtime.context import Caller, format_principals

from groundline_gateway.bridged import BRIDGED
from groundline_gateway.descriptors import descriptor_set, exposed_services, short_names_too
from groundline_gateway.endpoints import Endpoint
from groundline_gateway.envoy import bodies, lua, tokens
from groundline_gateway.envoy.clusters import ANY_REPLICA_PERCENT, BRIDGE, COLLECTOR, SERVICES
from groundline_gateway.envoy.nodes import EXTENSIONS, Node, duration, named, resource
from groundline_gateway.envoy.routes import BRINGS_DOCUMENTS
from groundline_gateway.keys import Holder, key_hash
from groundline_gateway.scopes import REQUIRED, Scope
from groundline_gateway.settings import GatewaySettings

# An upload holds up to .75 MiB in the buffers of both sides while its service does not read.
_UPLOAD_BYTES: Final = 1 << 20
# Share of the heap for the requests of all clients that bring documents; from three quarters on, Envoy resets
# whose they are.
_DOCUMENTS_SHARE: Final = 0.6
# A stream of reflection holds one of 100 places of all clients: it counts as an eighth of a client's
# requests, and ends when it asks nothing.
_REFLECTION_SHARE: Final = 1 / 8


def fill_filters(filters: dict[str, Node], exposed: Sequence[Endpoint], settings: GatewaySettings) -> None:
    filters["health_check"]["cluster_min_healthy_percentages"] = {
        name: {"value": ANY_REPLICA_PERCENT} for name in (*SERVICES, BRIDGE)
    }
    documents, upload = (
        math.ceil(size / settings.max_request_bytes)
        for size in (settings.max_document_request_bytes, _UPLOAD_BYTES)
    )
    room = _DOCUMENTS_SHARE * settings.max_heap_bytes / settings.worker_threads
    filters["identity"]["default_source_code"]["inline_string"] = (
        resource("envoy/sha256.lua")
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
                **dict.fromkeys(sorted(BRINGS_DOCUMENTS), documents),
                **{each.name: upload for each in exposed if each.is_upload},
                "Reflection": math.ceil(settings.max_concurrent_requests * _REFLECTION_SHARE),
            },
            KINDS={
                **dict.fromkeys(sorted(BRINGS_DOCUMENTS), "documents"),
                **{each.name: "documents" for each in exposed if each.is_upload},
                **{each.name: "searches" for each in exposed if each.service == "retriever"},
            },
            MAX_OF_KIND={
                "documents": int(room / settings.max_request_bytes),
                "searches": math.ceil(settings.max_searches_under_way / settings.worker_threads),
            },
            MAX_WRONG_KEYS=settings.max_wrong_keys_per_minute,
        )
        + resource("envoy/identity.lua")
    )
    filters["bodies"]["default_source_code"]["inline_string"] = bodies.script(exposed)
    filters["events"]["default_source_code"]["inline_string"] = resource("envoy/events.lua")
    limit = filters["local_ratelimit"]
    # A bucket for each client that comes, and for none longer than it takes to forget the least used of them.
    limit["descriptors"] = [{"entries": [{"key": "client"}], "token_bucket": _bucket(settings)}]
    limit["response_headers_to_add"] = [
        {"header": {"key": "retry-after", "value": str(retry_after_seconds(settings))}}
    ]
    filters["buffer"]["max_request_bytes"] = settings.max_request_bytes
    transcoder = filters["grpc_json_transcoder"]
    files = short_names_too(descriptor_set())
    transcoder["proto_descriptor_bin"] = base64.b64encode(files.SerializeToString()).decode()
    transcoder["services"] = sorted(service.full_name for service in exposed_services())


def service_health(overall: Node) -> list[Node]:
    """Return a filter like the one of /healthz for the health of each service alone, at an address below."""
    found: list[Node] = []
    for name in (*SERVICES, BRIDGE):
        config = overall["typed_config"] | {
            "headers": [
                {"name": ":path", "string_match": {"safe_regex": {"regex": rf"/healthz/{name}(\?.*)?"}}}
            ],
            "cluster_min_healthy_percentages": {name: {"value": ANY_REPLICA_PERCENT}},
        }
        found.append({"name": f"{overall['name']}.{name}", "typed_config": config})
    return found


def holders_by_hash(settings: GatewaySettings, holders: Mapping[str, Holder]) -> Node:
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


def cors(origins: Sequence[str]) -> Node:
    """Return the CORS policy for pages of these origins. They send keys themselves, so credentials are not
    allowed."""
    matches = [{"safe_regex": {"regex": ".*"}} if origin == "*" else {"exact": origin} for origin in origins]
    return {
        "@type": f"{EXTENSIONS}.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": matches,
        "allow_methods": "GET, POST, PATCH, DELETE",
        "allow_headers": "authorization, x-api-key, content-type, last-event-id, traceparent, tracestate",
        "expose_headers": "x-request-id, retry-after",
        "max_age": "600",
    }


def with_audit_logs(logs: Sequence[Node], settings: GatewaySettings, stored: Path | None) -> list[Node]:
    """Return the access logs with the sink of the audit log, which also goes into a file that is to be
    stored."""
    audit = named(logs)["audit"]
    if settings.audit_log_file is None:
        sink: Node = {"@type": f"{EXTENSIONS}.access_loggers.stream.v3.StderrAccessLog"}
    else:
        sink = _file_sink(settings.audit_log_file)
    found = [
        {**each, "typed_config": each["typed_config"] | sink} if each is audit else each for each in logs
    ]
    if stored is not None:
        again = {**audit, "name": "stored_audit", "typed_config": audit["typed_config"] | _file_sink(stored)}
        found.append(again)
    if settings.otlp_endpoint is not None:
        found.append({**audit, "name": "exported_audit", "typed_config": _otlp_sink(audit)})
    return found


def _otlp_sink(audit: Node) -> Node:
    """Return the sink of log records with the fields of the audit log as attributes; they have the trace's
    id, and the time, as fields of their own."""
    fields = audit["typed_config"]["log_format"]["json_format"]
    attributes = {name: value for name, value in fields.items() if name not in ("time", "event", "trace_id")}
    return {
        "@type": f"{EXTENSIONS}.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
        "grpc_service": {"envoy_grpc": {"cluster_name": COLLECTOR}, "timeout": "5s"},
        "log_name": "audit",
        "buffer_flush_interval": "1s",
        "resource_attributes": _key_values({"service.name": "groundline-gateway"}),
        "body": {"string_value": "audit"},
        "attributes": _key_values(attributes),
    }


def _key_values(values: Mapping[str, str]) -> Node:
    return {"values": [{"key": name, "value": {"string_value": value}} for name, value in values.items()]}


def _file_sink(path: Path) -> Node:
    return {"@type": f"{EXTENSIONS}.access_loggers.file.v3.FileAccessLog", "path": str(path)}


def retry_after_seconds(settings: GatewaySettings) -> int:
    """Return the time until the next token, in whole seconds as Retry-After requires."""
    return math.ceil(60 / settings.rate_limit_per_minute)


def _bucket(settings: GatewaySettings) -> Node:
    # Envoy fills no bucket more often than every 50 ms.
    interval = max(60 / settings.rate_limit_per_minute, 0.05)
    tokens = max(1, round(settings.rate_limit_per_minute * interval / 60))
    return {
        "max_tokens": max(settings.rate_limit_burst, tokens),
        "tokens_per_fill": tokens,
        "fill_interval": duration(tokens * 60 / settings.rate_limit_per_minute),
    }
