"""Envoy's own refusals as JSON in the shape of google.rpc.Status, like the services' errors."""

import base64
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import json_format
from google.rpc import error_details_pb2  # type: ignore[import-untyped]  # noqa: F401 - the details' messages
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

_DOMAIN: Final = "groundline.dev"
_TYPE: Final = "type.googleapis.com/google.rpc."
# Envoy's own text, such as the offset of a JSON error; its JSON formatter escapes it.
_ENVOYS_TEXT: Final = "the request is malformed: %LOCAL_REPLY_BODY%"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reply of Envoy when it refuses a request itself."""

    status: int
    """HTTP status that Envoy answers with."""
    code: int
    """google.rpc.Code."""
    reason: str
    message: str
    comparison: str = "EQ"
    """"GE" also matches every higher status that nothing before it matched."""


_REFUSALS: Final = (
    Refusal(400, 3, "MALFORMED_REQUEST", _ENVOYS_TEXT),
    Refusal(401, 16, "API_KEY_INVALID", "send a valid API key as x-api-key or as Authorization: Bearer"),
    Refusal(403, 7, "CALLER_UNKNOWN", "the caller could not be identified"),
    Refusal(404, 5, "ROUTE_NOT_FOUND", "there is nothing at this address for this method"),
    Refusal(408, 4, "REQUEST_TIMEOUT", "the request did not arrive in time"),
    Refusal(413, 3, "BODY_TOO_LARGE", "the request body is larger than the limit for this address"),
    Refusal(429, 8, "RATE_LIMITED", "too many requests from this client; try again later"),
    Refusal(431, 3, "HEADERS_TOO_LARGE", "the request headers are too large"),
    # The client's fault, although Envoy's status says that it is the server's.
    Refusal(501, 12, "REQUEST_REFUSED", "the transfer encoding is not supported: send chunked, or a length"),
    Refusal(503, 14, "SERVICE_UNAVAILABLE", "the %UPSTREAM_CLUSTER% is not available; try again later"),
    Refusal(504, 4, "DEADLINE_EXCEEDED", "the request took longer than its deadline"),
    Refusal(500, 13, "INTERNAL", "the gateway failed to serve the request", "GE"),
    Refusal(400, 3, "REQUEST_REFUSED", "the request cannot be served", "GE"),
)

_UNAVAILABLE_SECONDS: Final = 1
_RETRY_LATER: Final = {
    "headers_to_add": [{"header": {"key": "retry-after", "value": str(_UNAVAILABLE_SECONDS)}}]
}
_UNIMPLEMENTED: Final = 12
_OPENAI_TYPES: Final = {
    3: "invalid_request_error",
    5: "invalid_request_error",
    7: "permission_error",
    8: "rate_limit_error",
    16: "authentication_error",
}
"""Error types of the OpenAI API, by google.rpc.Code."""


def local_replies(retry_after_seconds: int) -> list[dict[str, Any]]:
    """Return the mappers for local_reply_config, the most specific first.

    `retry_after_seconds` is the time that a client over its rate limit is told to wait.
    """
    health = [_health(200, "SERVING"), _health(503, "NOT_SERVING")]
    mappers = [_violations(), *_mappers(retry_after_seconds)]
    return [*health, *map(_in_openais_words, mappers), *mappers]


def grpc_replies(retry_after_seconds: int) -> list[dict[str, Any]]:
    """Return the mappers for gRPC: a call's status code, its message and, if they are the same for everyone,
    its details."""
    return [_in_grpcs_words(mapper) for mapper in _mappers(retry_after_seconds)]


def _mappers(retry_after_seconds: int) -> list[dict[str, Any]]:
    mappers = [_overloaded(), _full(), _scope(), _token(), _upgrade()]
    for refusal in _REFUSALS:
        details: list[dict[str, Any]] = [
            {"@type": f"{_TYPE}ErrorInfo", "reason": refusal.reason, "domain": _DOMAIN}
        ]
        wait = {429: retry_after_seconds, 503: _UNAVAILABLE_SECONDS}.get(refusal.status)
        if wait is not None:
            details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{wait}s"})
        body = {"code": refusal.code, "message": refusal.message, "details": details}
        mapper: dict[str, Any] = {
            "filter": _compare(refusal.comparison, refusal.status),
            "body_format_override": {"json_format": body},
        }
        if refusal.status == 401:
            mapper["headers_to_add"] = [{"header": {"key": "www-authenticate", "value": "Bearer"}}]
        if refusal.status == 503:
            mapper |= _RETRY_LATER
        mappers.append(mapper)
    return mappers


def _in_grpcs_words(mapper: dict[str, Any]) -> dict[str, Any]:
    body = mapper["body_format_override"]["json_format"]
    if body["details"][0]["reason"] == "ROUTE_NOT_FOUND":
        # This code tells clients that a server lacks such an RPC, so that they ask for an older one.
        body = body | {"code": _UNIMPLEMENTED}
    headers = {"grpc-status": str(body["code"])}
    # Clients refuse details whose message is not the call's, and Envoy's substitutions are not known in
    # advance.
    if "%" not in body["message"]:
        status = json_format.ParseDict(body, Status()).SerializeToString(deterministic=True)
        headers["grpc-status-details-bin"] = base64.b64encode(status).decode()
    return mapper | {
        "body_format_override": {"text_format_source": {"inline_string": body["message"]}},
        "headers_to_add": [
            *mapper.get("headers_to_add", []),
            *(
                {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
                for key, value in headers.items()
            ),
        ],
    }


def _in_openais_words(mapper: dict[str, Any]) -> dict[str, Any]:
    """Return the same refusal in the OpenAI API's form."""
    body = mapper["body_format_override"]["json_format"]
    reason = body["details"][0]["reason"]
    error = {
        "message": body["message"],
        "type": _OPENAI_TYPES.get(body["code"], "server_error"),
        "param": None,
        "code": reason.lower(),
    }
    speaks_it = {"header_filter": {"header": {"name": ":path", "string_match": {"prefix": "/v1/"}}}}
    return mapper | {
        "filter": {"and_filter": {"filters": [speaks_it, mapper["filter"]]}},
        "body_format_override": {"json_format": {"error": error}},
    }


def _violations() -> dict[str, Any]:
    """Return the mapper for a request whose fields bodies.lua has refused by name."""
    details = [
        {"@type": f"{_TYPE}ErrorInfo", "reason": "INVALID_REQUEST", "domain": _DOMAIN},
        {"@type": f"{_TYPE}BadRequest", "fieldViolations": "%DYNAMIC_METADATA(groundline:violations)%"},
    ]
    body = {"code": 3, "message": "the request has fields that are not allowed", "details": details}
    return {"filter": _told("violations"), "body_format_override": {"json_format": body}}


def _scope() -> dict[str, Any]:
    """Return the mapper for a caller that identity.lua knows, but that lacks the scope."""
    details = [{"@type": f"{_TYPE}ErrorInfo", "reason": "SCOPE_MISSING", "domain": _DOMAIN}]
    message = "the key is not for this: it needs the scope %DYNAMIC_METADATA(groundline:scopes)%"
    body = {"code": 7, "message": message, "details": details}
    return {"filter": _told("scopes"), "body_format_override": {"json_format": body}}


def _token() -> dict[str, Any]:
    """Return the mapper for a token that Envoy refuses; its text says why."""
    details = [{"@type": f"{_TYPE}ErrorInfo", "reason": "TOKEN_INVALID", "domain": _DOMAIN}]
    body = {"code": 16, "message": "the token is not taken: %LOCAL_REPLY_BODY%", "details": details}
    return {
        "filter": _told("failed", "envoy.filters.http.jwt_authn"),
        # Envoy answers 403 to a token for another audience.
        "status_code": 401,
        "body_format_override": {"json_format": body},
    }


def _upgrade() -> dict[str, Any]:
    """Return the mapper for a request to speak another protocol, which Envoy answers with a bare 403."""
    details = [{"@type": f"{_TYPE}ErrorInfo", "reason": "REQUEST_REFUSED", "domain": _DOMAIN}]
    message = "upgrades such as WebSocket are not supported: streams come as server-sent events"
    asks_for_it = {"header_filter": {"header": {"name": "upgrade", "present_match": True}}}
    return {
        "filter": {"and_filter": {"filters": [_compare("EQ", 403), asks_for_it]}},
        "status_code": 400,
        "body_format_override": {"json_format": {"code": 3, "message": message, "details": details}},
    }


def _told(name: str, by: str = "groundline") -> dict[str, Any]:
    """Return the filter for replies for which an HTTP filter has left metadata of this name."""
    matcher = {"filter": by, "path": [{"key": name}], "value": {"present_match": True}}
    return {"metadata_filter": {"matcher": matcher, "match_if_key_not_found": {"value": False}}}


def _overloaded() -> dict[str, Any]:
    """Return the mapper for a request that comes while the gateway is short of memory."""
    details = [{"@type": f"{_TYPE}ErrorInfo", "reason": "SERVICE_UNAVAILABLE", "domain": _DOMAIN}]
    body = {"code": 14, "message": "the gateway is overloaded; try again later", "details": details}
    return {
        "filter": {"response_flag_filter": {"flags": ["OM"]}},
        "body_format_override": {"json_format": body},
    } | _RETRY_LATER


def _full() -> dict[str, Any]:
    """Return the mapper for a request beyond those that may be under way at a service."""
    details = [
        {"@type": f"{_TYPE}ErrorInfo", "reason": "OVERLOADED", "domain": _DOMAIN},
        {"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{_UNAVAILABLE_SECONDS}s"},
    ]
    message = "more requests than can be answered in time; try again later"
    return {
        "filter": {"response_flag_filter": {"flags": ["UO"]}},
        "status_code": 429,
        "body_format_override": {"json_format": {"code": 8, "message": message, "details": details}},
    } | _RETRY_LATER


def _compare(operator: str, status: int) -> dict[str, Any]:
    value = {"default_value": status, "runtime_key": "unset"}
    return {"status_code_filter": {"comparison": {"op": operator, "value": value}}}


def _health(status: int, text: str) -> dict[str, Any]:
    pattern = {"safe_regex": {"regex": r"/healthz(/[a-z]+)?(\?.*)?"}}
    path = {"header_filter": {"header": {"name": ":path", "string_match": pattern}}}
    mapper: dict[str, Any] = {
        "filter": {"and_filter": {"filters": [_compare("EQ", status), path]}},
        "body_format_override": {"json_format": {"status": text}},
    }
    return mapper | (_RETRY_LATER if status == 503 else {})
