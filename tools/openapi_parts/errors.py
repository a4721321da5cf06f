"""Errors in the OpenAPI document: google.rpc.Status as the gateway sends it, and who sends which."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from contract import Comments
from google.protobuf.descriptor import MethodDescriptor
from groundline_runtime.errors import Code
from groundline_runtime.status import DOMAIN
from openapi_parts.schemas import Json

# Statuses of any request.
COMMON: Final[Mapping[int, tuple[str, str]]] = {
    400: ("MalformedRequest", "The request is malformed, or fields of it are wrong; each is named."),
    401: ("Unauthenticated", "The key or token is missing or not valid."),
    403: ("PermissionDenied", "The key or token has not the scope for this, or its holder not the right."),
    408: ("RequestTimeout", "The request did not arrive in time."),
    429: ("ResourceExhausted", "Too many requests from this client, or a quota is used up."),
    431: ("HeadersTooLarge", "The headers are too large."),
    500: ("Internal", "An unexpected failure; its error_id is in the service's log."),
    503: ("Unavailable", "A service that the request needs is not available; try again later."),
    504: ("DeadlineExceeded", "It was not finished in time."),
}
BODY_TOO_LARGE: Final = (413, ("BodyTooLarge", "The body is larger than the limit for this address."))

# Errors at the bridge's addresses, in the words of their protocols.
BRIDGED_ERRORS: Final[Json] = {
    "OpenAiError": {
        "description": "An error in the OpenAI API's shape.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OpenAiError"}}},
    },
    "McpError": {
        "description": "An error of JSON-RPC, or one of the gateway.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/plain": {"schema": {"type": "string"}},
        },
    },
}


def error_schemas(reason: Json) -> Json:
    """Return the schemas of a Status and of its details, whose reasons have a schema of their own."""
    return {
        "Status": _status(),
        "ErrorInfo": _detail(
            "ErrorInfo",
            "Why, for programs.",
            {
                "reason": reason,
                "domain": {"const": DOMAIN},
                "metadata": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "`error_id` of an internal error: its cause is in the log under it.",
                },
            },
            ["reason", "domain"],
        ),
        "BadRequest": _detail(
            "BadRequest",
            "The wrong fields.",
            {
                "fieldViolations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "field": {
                                "type": "string",
                                "description": "Its path, such as `options.rerank.topK` or "
                                "`chatHistory[0].role`.",
                            },
                            "description": {"type": "string", "description": "What is wrong with it."},
                        },
                        "required": ["field", "description"],
                    },
                }
            },
            ["fieldViolations"],
        ),
        "RetryInfo": _detail(
            "RetryInfo",
            "When to try again.",
            {"retryDelay": {"type": "string", "description": "Seconds, such as `1.5s`."}},
            ["retryDelay"],
        ),
    }


def _status() -> Json:
    return {
        "type": "object",
        "description": "An error.",
        "properties": {
            "code": {
                "type": "integer",
                "enum": sorted(code.value for code in Code),
                "description": "google.rpc.Code: "
                + ", ".join(f"{code.value} {code.name}" for code in Code)
                + ".",
            },
            "message": {"type": "string", "description": "For people; it may change."},
            "details": {
                "type": "array",
                "description": "One ErrorInfo, and what else helps.",
                "items": {
                    "oneOf": [
                        {"$ref": f"#/components/schemas/{name}"}
                        for name in ("ErrorInfo", "BadRequest", "RetryInfo")
                    ]
                },
                "contains": {"$ref": "#/components/schemas/ErrorInfo"},
                "maxContains": 1,
            },
        },
        "required": ["code", "message", "details"],
    }


def _detail(name: str, description: str, properties: Json, required: list[str]) -> Json:
    return {
        "type": "object",
        "description": description,
        "properties": {"@type": {"const": f"type.googleapis.com/google.rpc.{name}"}, **properties},
        "required": ["@type", *required],
    }


def error_response(status: int, description: str) -> Json:
    """Return a response with a Status."""
    schema = {"$ref": "#/components/schemas/Status"}
    response: Json = {"description": description, "content": {"application/json": {"schema": schema}}}
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"description": "Seconds to wait, where known.", "schema": {"type": "integer"}}
        }
    return response


def named_codes(comments: Comments, method: MethodDescriptor) -> Mapping[int, list[str]]:
    """Return by HTTP status the comment of an RPC on the codes that become it."""
    text = comments.markdown(method.full_name)
    if other := re.search(r"Status codes as for (\w+)\.", text):
        text = comments.markdown(f"{method.containing_service.full_name}.{other[1]}")
    codes = "|".join(code.name for code in Code)
    found: dict[int, list[str]] = defaultdict(list)
    for part in re.split(rf"(?=\b(?:{codes})\b(?: \(\w+\)| with \w+)?:)", text)[1:]:
        found[Code[part.partition(":")[0].split()[0]].http_status].append(part.strip())
    return found
