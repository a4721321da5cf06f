"""Envoy's own refusals as JSON in the shape of google.rpc.Status, like the services' errors."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf import json_format
from google.rpc import error_details_pb2  # type: ignore[import-untyped]  # noqa: F401 - the details' messages
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from groundline_gateway.envoy.nodes import Node

_DOMAIN: Final = "groundline.dev"
_TYPE: Final = "type.googleapis.com/google.rpc."
_UNAVAILABLE_SECONDS: Final = 1
_UNIMPLEMENTED: Final = 12
_OPENAI_TYPES: Final = {
    3: "invalid_request_error",
    5: "invalid_request_error",
    7: "permission_error",
    8: "rate_limit_error",
    16: "authentication_error",
}
"""Error types of the OpenAI API, by google.rpc.Code."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reply of Envoy when it refuses a request itself."""

    when: Node
    """Filter of the replies that it is for."""
    code: int
    """google.rpc.Code."""
    reason: str
    message: str
    status: int | None = None
    """HTTP status in place of Envoy's."""
    details: Sequence[Node] = ()
    """Details beside the ErrorInfo."""
    headers: Sequence[tuple[str, str]] = ()

    def mapper(self) -> Node:
        """Return the mapper for local_reply_config."""
        info = {"@type": f"{_TYPE}ErrorInfo", "reason": self.reason, "domain": _DOMAIN}
        body = {"code": self.code, "message": self.message, "details": [info, *self.details]}
        added = [{"header": {"key": key, "value": value}} for key, value in self.headers]
        return {
            "filter": self.when,
            **({"status_code": self.status} if self.status else {}),
            "body_format_override": {"json_format": body},
            **({"headers_to_add": added} if added else {}),
        }


def _refusals(retry_after_seconds: int) -> Iterator[Refusal]:
    """Yield all refusals but one, the most specific first."""
    text, later = "%LOCAL_REPLY_BODY%", [("retry-after", str(_UNAVAILABLE_SECONDS))]
    wait = _retry_info(_UNAVAILABLE_SECONDS)
    # The gateway is short of memory; more requests are under way at a service than may be.
    message = "the gateway is overloaded; try again later"
    yield Refusal(_flagged("OM"), 14, "SERVICE_UNAVAILABLE", message, headers=later)
    message = "more requests than can be answered in time; try again later"
    yield Refusal(_flagged("UO"), 8, "OVERLOADED", message, 429, [wait], later)
    # A caller that identity.lua knows, but that lacks the scope.
    message = "the key is not for this: it needs the scope %DYNAMIC_METADATA(groundline:scopes)%"
    yield Refusal(_told("scopes"), 7, "SCOPE_MISSING", message)
    # Envoy answers 403 to a token for another audience.
    of_token = _told("failed", "envoy.filters.http.jwt_authn")
    yield Refusal(of_token, 16, "TOKEN_INVALID", f"the token is not taken: {text}", 401)
    # A request to speak another protocol, which Envoy answers with a bare 403.
    upgrade = _both(_status(403), {"header_filter": {"header": {"name": "upgrade", "present_match": True}}})
    message = "upgrades such as WebSocket are not supported: streams come as server-sent events"
    yield Refusal(upgrade, 3, "REQUEST_REFUSED", message, 400)
    # Envoy's own text, such as the offset of a JSON error; its JSON formatter escapes it.
    yield Refusal(_status(400), 3, "MALFORMED_REQUEST", f"the request is malformed: {text}")
    message = "send a valid API key as x-api-key or as Authorization: Bearer"
    bearer = [("www-authenticate", "Bearer")]
    yield Refusal(_status(401), 16, "API_KEY_INVALID", message, headers=bearer)
    yield Refusal(_status(403), 7, "CALLER_UNKNOWN", "the caller could not be identified")
    yield Refusal(_status(404), 5, "ROUTE_NOT_FOUND", "there is nothing at this address for this method")
    yield Refusal(_status(408), 4, "REQUEST_TIMEOUT", "the request did not arrive in time")
    message = "the request body is larger than the limit for this address"
    yield Refusal(_status(413), 3, "BODY_TOO_LARGE", message)
    message = "too many requests from this client; try again later"
    limited = [_retry_info(retry_after_seconds)]
    yield Refusal(_status(429), 8, "RATE_LIMITED", message, details=limited)
    yield Refusal(_status(431), 3, "HEADERS_TOO_LARGE", "the request headers are too large")
    # The client's fault, although Envoy's status says that it is the server's.
    message = "the transfer encoding is not supported: send chunked, or a length"
    yield Refusal(_status(501), 12, "REQUEST_REFUSED", message)
    message = "the %UPSTREAM_CLUSTER% is not available; try again later"
    yield Refusal(_status(503), 14, "SERVICE_UNAVAILABLE", message, details=[wait], headers=later)
    yield Refusal(_status(504), 4, "DEADLINE_EXCEEDED", "the request took longer than its deadline")
    # Every higher status that nothing before it matched.
    yield Refusal(_status(500, "GE"), 13, "INTERNAL", "the gateway failed to serve the request")
    yield Refusal(_status(400, "GE"), 3, "REQUEST_REFUSED", "the request cannot be served")


def local_replies(retry_after_seconds: int) -> list[Node]:
    """Return the mappers for local_reply_config, the most specific first.

    `retry_after_seconds` is the time that a client over its rate limit is told to wait.
    """
    # bodies.lua has refused fields by name.
    named = {"@type": f"{_TYPE}BadRequest", "fieldViolations": "%DYNAMIC_METADATA(groundline:violations)%"}
    message = "the request has fields that are not allowed"
    violations = Refusal(_told("violations"), 3, "INVALID_REQUEST", message, details=[named])
    mappers = [one.mapper() for one in (violations, *_refusals(retry_after_seconds))]
    health = [_health(200, "SERVING"), _health(503, "NOT_SERVING")]
    return [*health, *map(_in_openais_words, mappers), *mappers]


def grpc_replies(retry_after_seconds: int) -> list[Node]:
    """Return the mappers for gRPC: a call's status code, its message and, if they are the same for everyone,
    its details."""
    return [_in_grpcs_words(one.mapper()) for one in _refusals(retry_after_seconds)]


def _in_grpcs_words(mapper: Node) -> Node:
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


def _in_openais_words(mapper: Node) -> Node:
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
        "filter": _both(speaks_it, mapper["filter"]),
        "body_format_override": {"json_format": {"error": error}},
    }


def _told(name: str, by: str = "groundline") -> Node:
    """Return the filter for replies for which an HTTP filter has left metadata of this name."""
    matcher = {"filter": by, "path": [{"key": name}], "value": {"present_match": True}}
    return {"metadata_filter": {"matcher": matcher, "match_if_key_not_found": {"value": False}}}


def _flagged(flag: str) -> Node:
    return {"response_flag_filter": {"flags": [flag]}}


def _status(status: int, operator: str = "EQ") -> Node:
    value = {"default_value": status, "runtime_key": "unset"}
    return {"status_code_filter": {"comparison": {"op": operator, "value": value}}}


def _both(*filters: Node) -> Node:
    return {"and_filter": {"filters": [*filters]}}


def _retry_info(seconds: int) -> Node:
    return {"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{seconds}s"}


def _health(status: int, text: str) -> Node:
    pattern = {"safe_regex": {"regex": r"/healthz(/[a-z]+)?(\?.*)?"}}
    path = {"header_filter": {"header": {"name": ":path", "string_match": pattern}}}
    later = [{"header": {"key": "retry-after", "value": str(_UNAVAILABLE_SECONDS)}}]
    return {
        "filter": _both(_status(status), path),
        "body_format_override": {"json_format": {"status": text}},
        **({"headers_to_add": later} if status == 503 else {}),
    }
