"""Make the OpenAPI document of the gateway's API from protos/: addresses, messages, limits, errors.

What the contract does not know (the bridge's addresses, the gateway's own) is in openapi_bridged.json.

openapi.py write    write it
openapi.py check    fail when it is stale

gateway/README.md says why no other generator makes it.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final

from contract import PACKAGE, Comments, camel, is_map, message_of, read
from generated import write_or_check
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from groundline.v1 import chat_pb2, error_pb2, limits_pb2
from groundline_gateway.bridged import BRIDGED
from groundline_gateway.descriptors import exposed_services
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_gateway.scopes import REQUIRED
from groundline_runtime.errors import Code
from groundline_runtime.status import DOMAIN
from groundline_validation.rules import rules_of
from openapi_examples import EXAMPLES
from project import ROOT

DOCUMENT: Final = ROOT / "gateway/groundline_gateway/page/openapi.json"
"""File in the gateway's package, which serves it; docs/reference has a link to it."""

_OVERLAY: Final = ROOT / "tools/openapi_bridged.json"
_BRIDGED: Final = {bridged.name: bridged for bridged in BRIDGED}

type Json = dict[str, Any]

_DESCRIPTION: Final = """\
Answers questions from your own documents, and says where each answer comes from.

Send an API key as `x-api-key` or `Authorization: Bearer`; a token of your identity provider goes as `Bearer`
too.

- Fields that have their type's default value may be left out of a request. A field that the API does not know
  is refused, as is one that comes twice.
- Names of fields may also be spelled as in the protos (`top_k`), values of enums in either case (`user`) and
  without the enum's name (`keyword` for `RETRIEVAL_MODE_KEYWORD`). Replies have the names that are listed.
- Texts must not hold U+0000 unless it is said otherwise, numbers must be finite, and white space at both ends
  of a text that must not be empty does not count.
- Every error is a `Status` with exactly one `ErrorInfo`. Branch on its `reason`; the message is for people
  and may change. A wrong request names every wrong field in a `BadRequest`.
- A stream is `text/event-stream`: each event has a name (`event`), a number (`id`) and a JSON object
  (`data`). Comments keep the connection alive while nothing comes.
"""

# Statuses of any request.
_COMMON: Final[Mapping[int, tuple[str, str]]] = {
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
_BODY_TOO_LARGE: Final = (413, ("BodyTooLarge", "The body is larger than the limit for this address."))

# Errors at the bridge's addresses, in the words of their protocols.
_BRIDGED_ERRORS: Final[Json] = {
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

_SCALARS: Final[Mapping[int, Json]] = {
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
}
_WELL_KNOWN: Final[Mapping[str, Json]] = {
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.FieldMask": {"type": "string"},
}

_RESUMING: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The `id` of the last event that arrived, to go on after it.",
    "schema": {"type": "string"},
}


class OpenApiBuilder:
    """Builder of the document; schemas are added as they are referred to."""

    def __init__(self) -> None:
        _, self._comments = read()
        self._endpoints = endpoints()
        self._schemas: dict[str, Json] = {}
        self._sent = _sent(self._endpoints)

    def build(self) -> Json:
        """Return the whole document."""
        paths: dict[str, Json] = defaultdict(dict)
        for endpoint in self._endpoints:
            paths[_path(endpoint)][endpoint.verb.lower()] = self._operation(endpoint)
        overlay = json.loads(_OVERLAY.read_text(encoding="utf-8"))
        for path, item in overlay["paths"].items():
            paths[path] = {verb: _overlaid(operation) for verb, operation in item.items()}
        self._schemas |= overlay["schemas"]
        self._add_errors()
        return {
            "openapi": "3.1.1",
            "info": {
                "title": "Groundline",
                "version": PACKAGE.rpartition(".")[2],
                "description": _DESCRIPTION,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"apiKey": []}, {"bearer": []}],
            "tags": [
                {"name": _tag(service.name), "description": self._comments.markdown(service.full_name)}
                for service in exposed_services()
            ]
            + overlay["tags"],
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": dict(sorted(self._schemas.items())),
                "responses": {
                    name: _error_response(status, description)
                    for status, (name, description) in (*_COMMON.items(), _BODY_TOO_LARGE)
                }
                | _BRIDGED_ERRORS,
                "securitySchemes": {
                    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                    "bearer": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "An API key, or a token (JWT) of an issuer that the gateway trusts.",
                    },
                },
            },
        }

    def _operation(self, endpoint: Endpoint) -> Json:
        method = endpoint.method
        text = self._comments.markdown(method.full_name)
        scopes = REQUIRED[endpoint.name]
        level = MethodOptions.IdempotencyLevel.Name(method.GetOptions().idempotency_level)
        operation: Json = {
            "operationId": endpoint.name,
            "tags": [_tag(method.containing_service.name)],
            "summary": re.split(r"(?<=[a-z0-9])[.:;](?:\s|$)", text, maxsplit=1)[0],
            "description": text,
            "security": _security(scopes),
            "x-idempotency-level": level,
        }
        if parameters := [*self._parameters(endpoint)]:
            operation["parameters"] = parameters
        if endpoint.is_upload:
            operation["requestBody"] = {
                "required": True,
                "description": "The document as it is, of any media type.",
                "content": {"application/octet-stream": {"schema": {}}},
            }
        elif endpoint.json_body is not None:
            content: Json = {"schema": self._reference(endpoint.json_body)}
            if examples := EXAMPLES.get(endpoint.name):
                content["examples"] = _examples(examples)
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
        operation["responses"] = self._responses(endpoint)
        return operation

    def _parameters(self, endpoint: Endpoint) -> Iterator[Json]:
        in_path = endpoint.variables
        for field in endpoint.method.input_type.fields:
            if field.name in in_path:
                schema = self._field(field)
                yield _parameter(field, "path", schema.pop("description"), schema) | {"required": True}
            elif endpoint.body_field not in ("*", field.name):
                schema = self._field(field)
                yield _parameter(field, "query", schema.pop("description"), schema)
        if endpoint.is_stream:
            yield _RESUMING

    def _responses(self, endpoint: Endpoint) -> Json:
        media = "text/event-stream" if endpoint.is_stream else "application/json"
        if endpoint.is_download:
            response, media = {}, "application/octet-stream"
        else:
            response = self._reference(endpoint.method.output_type)
        description = self._comments.markdown(endpoint.method.output_type.full_name)
        if endpoint.is_stream:
            description = f"A stream of events; the data of each is a `{endpoint.method.output_type.name}`."
            response = _event(endpoint.method.output_type, response)
        if endpoint.is_download:
            description = "The document as it is, of its own media type or this one."
        found: Json = {"200": {"description": description, "content": {media: {"schema": response}}}}
        common = dict([*_COMMON.items(), *([_BODY_TOO_LARGE] if endpoint.body_field else [])])
        for status, (name, _) in common.items():
            found[str(status)] = {"$ref": f"#/components/responses/{name}"}
        for status, texts in _named_codes(self._comments, endpoint.method).items():
            if status in common and status not in (400, 403):
                continue
            if status == 403:
                texts = [_COMMON[403][1], *texts]
            found[str(status)] = _error_response(status, "\n\n".join(texts))
        return dict(sorted(found.items()))

    def _reference(self, message: Descriptor) -> Json:
        name = _name(message.full_name)
        if name not in self._schemas:
            # Messages may hold each other.
            self._schemas[name] = {}
            self._schemas[name] = self._message(message)
        return {"$ref": f"#/components/schemas/{name}"}

    def _message(self, message: Descriptor) -> Json:
        is_sent = message.full_name in self._sent
        fields = [
            field for field in message.fields if field.name not in self._sent.get(message.full_name, ())
        ]
        rules = [cleandoc(str(rule.__doc__)) for rule in rules_of(message.full_name)]
        schema: Json = {
            "type": "object",
            "description": "\n\n".join([self._comments.markdown(message.full_name), *rules]),
            "properties": {field.json_name: self._field(field) for field in fields},
        }
        required = _needed if is_sent else _always_there
        if names := [field.json_name for field in fields if required(field)]:
            schema["required"] = names
        if is_sent:
            schema["additionalProperties"] = False
        for oneof in message.oneofs:
            # An optional field is a oneof of its own.
            if len(oneof.fields) > 1:
                schema["oneOf"] = [{"required": [field.json_name]} for field in oneof.fields]
        return schema

    def _field(self, field: FieldDescriptor) -> Json:
        limits = field.GetOptions().Extensions[limits_pb2.limits]
        description = self._comments.markdown(field.full_name)
        if is_map(field):
            schema: Json = {
                "type": "object",
                "additionalProperties": self._value(message_of(field).fields_by_name["value"], limits),
            }
            if limits.allowed_values:
                schema["propertyNames"] = {"enum": list(limits.allowed_values)}
            if limits.HasField("max_items"):
                schema["maxProperties"] = limits.max_items
        elif field.is_repeated:
            schema = {"type": "array", "items": self._value(field, limits)}
            if limits.min_items:
                schema["minItems"] = limits.min_items
            if limits.HasField("max_items"):
                schema["maxItems"] = limits.max_items
        else:
            schema = self._value(field, limits)
        if default := field.GetOptions().Extensions[limits_pb2.default]:
            # In words: generated clients send a schema's `default`, and so would hide the collection's own.
            description += f" Default: `{default}`."
        return {**schema, "description": description}

    def _value(self, field: FieldDescriptor, limits: limits_pb2.Limits) -> Json:
        if field.enum_type is not None:
            first = limits.minimum if limits.HasField("minimum") else 0
            schema = self._enum(field.enum_type)
            if first > 0:
                schema["not"] = {"const": field.enum_type.values_by_number[0].name}
            return schema
        if field.message_type is not None:
            known = _WELL_KNOWN.get(field.message_type.full_name)
            return self._reference(field.message_type) if known is None else dict(known)
        schema = dict(_SCALARS[field.type])
        if field.type == FieldDescriptor.TYPE_STRING:
            return schema | _text_limits(limits, may_be_empty=not limits.min_length and not field.is_repeated)
        if field.type == FieldDescriptor.TYPE_BYTES and limits.HasField("max_bytes"):
            schema["maxLength"] = -(-limits.max_bytes // 3) * 4
        for name in ("minimum", "maximum"):
            if limits.HasField(name):
                schema[name] = _number(getattr(limits, name))
        return schema

    def _enum(self, enum: EnumDescriptor) -> Json:
        name = _name(enum.full_name)
        if name not in self._schemas:
            values = "\n".join(
                f"- `{value}`: {self._comments.markdown(f'{enum.full_name}.{value}')}"
                for value in enum.values_by_name
            )
            description = f"{self._comments.markdown(enum.full_name)}\n\n{values}"
            spellings = [[*enum.values_by_name], _short_spellings(enum)]
            # Two lists: generated clients make one name of USER and user, and refuse both in one list.
            lists = [{"type": "string", "enum": each} for each in spellings if each]
            self._schemas[name] = {
                **(lists[0] if len(lists) == 1 else {"oneOf": lists}),
                "description": description,
            }
        return {"$ref": f"#/components/schemas/{name}"}

    def _add_errors(self) -> None:
        """Add google.rpc.Status as the gateway sends it."""
        reason = self._enum(error_pb2.ErrorReason.DESCRIPTOR)
        self._schemas |= {
            "Status": {
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
            },
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


def _security(scopes: Iterable[str]) -> list[Json]:
    return [{scheme: [str(scope)]} for scheme in ("apiKey", "bearer") for scope in sorted(scopes)]


def _overlaid(operation: Json) -> Json:
    """Add to an operation of the overlay who may call it, and its errors."""
    bridged = _BRIDGED.get(operation["operationId"])
    if bridged is None:
        return operation | {"security": []}
    name, more = ("McpError", (405, 406, 415)) if bridged.path == "/mcp" else ("OpenAiError", (404,))
    errors = {
        str(status): {"$ref": f"#/components/responses/{name}"}
        for status in (*_COMMON, _BODY_TOO_LARGE[0], *more)
    }
    return operation | {
        "security": _security(bridged.scopes),
        "responses": dict(sorted((operation["responses"] | errors).items())),
    }


def _detail(name: str, description: str, properties: Json, required: list[str]) -> Json:
    return {
        "type": "object",
        "description": description,
        "properties": {"@type": {"const": f"type.googleapis.com/google.rpc.{name}"}, **properties},
        "required": ["@type", *required],
    }


def _event(message: Descriptor, data: Json) -> Json:
    """Return the schema of a server-sent event, which is named after its message's field."""
    names = [field.json_name for field in message.fields if field.message_type and not field.is_repeated]
    return {
        "type": "object",
        "properties": {
            "event": {"type": "string", "enum": names},
            "id": {"type": "string", "description": "For `Last-Event-ID`."},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
        },
        "required": ["event", "id", "data"],
    }


def _error_response(status: int, description: str) -> Json:
    schema = {"$ref": "#/components/schemas/Status"}
    response: Json = {"description": description, "content": {"application/json": {"schema": schema}}}
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"description": "Seconds to wait, where known.", "schema": {"type": "integer"}}
        }
    return response


def _examples(examples: Mapping[str, Json]) -> Json:
    return {_slug(summary): {"summary": summary, "value": each} for summary, each in examples.items()}


def _named_codes(comments: Comments, method: MethodDescriptor) -> Mapping[int, list[str]]:
    """Return by HTTP status the comment of an RPC on the codes that become it."""
    text = comments.markdown(method.full_name)
    if other := re.search(r"Status codes as for (\w+)\.", text):
        text = comments.markdown(f"{method.containing_service.full_name}.{other[1]}")
    codes = "|".join(code.name for code in Code)
    found: dict[int, list[str]] = defaultdict(list)
    for part in re.split(rf"(?=\b(?:{codes})\b(?: \(\w+\)| with \w+)?:)", text)[1:]:
        found[Code[part.partition(":")[0].split()[0]].http_status].append(part.strip())
    return found


def _sent(every: Sequence[Endpoint]) -> Mapping[str, frozenset[str]]:
    """Return the messages that a body may hold, by full name, with the fields that are in the address
    instead."""
    found: dict[str, frozenset[str]] = {}

    def add(message: Descriptor, elsewhere: frozenset[str]) -> None:
        if message.full_name in found:
            return
        found[message.full_name] = elsewhere
        for field in message.fields:
            if field.message_type is not None:
                add(field.message_type, frozenset())

    for endpoint in every:
        if endpoint.json_body is not None:
            add(endpoint.json_body, frozenset(endpoint.variables))
    return found


def _needed(field: FieldDescriptor) -> bool:
    limits = field.GetOptions().Extensions[limits_pb2.limits]
    if field.is_repeated:
        return bool(limits.min_items)
    if field.enum_type is not None:
        return bool(limits.minimum > 0)
    return bool(limits.min_length) and not field.has_presence


def _short_spellings(enum: EnumDescriptor) -> list[str]:
    """Return the lower-case spellings of roles, which other APIs use; the gateway takes either case."""
    if enum.full_name != chat_pb2.ChatMessage.Role.DESCRIPTOR.full_name:
        return []
    return [value.name.lower() for value in enum.values if value.number]


def _always_there(field: FieldDescriptor) -> bool:
    """Tell whether the gateway prints the field whatever its value."""
    return not field.has_presence


def _text_limits(limits: limits_pb2.Limits, *, may_be_empty: bool) -> Json:
    schema: Json = {}
    if limits.min_length:
        schema["minLength"] = limits.min_length
    if limits.HasField("max_length"):
        schema["maxLength"] = limits.max_length
    if limits.text_format:
        text_format = limits_pb2.TextFormat.DESCRIPTOR.values_by_number[limits.text_format]
        pattern = text_format.GetOptions().Extensions[limits_pb2.text].pattern
        schema["pattern"] = f"^({pattern})?$" if may_be_empty else f"^({pattern})$"
    elif limits.min_length:
        # White space at both ends does not count.
        schema["pattern"] = r"\S"
    if limits.allowed_values:
        schema["enum"] = list(limits.allowed_values)
    return schema


def _parameter(field: FieldDescriptor, place: str, description: str, schema: Json) -> Json:
    return {"name": field.json_name, "in": place, "description": description, "schema": schema}


def _path(endpoint: Endpoint) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: f"{{{camel(name[1])}}}", endpoint.template)


def _tag(service: str) -> str:
    return service.removesuffix("Service")


def _name(full_name: str) -> str:
    return full_name.removeprefix(f"{PACKAGE}.").replace(".", "")


def _slug(text: str) -> str:
    return re.sub(r"\W+", "-", text.lower()).strip("-")


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def document() -> str:
    """Return the document as it is stored and served."""
    return json.dumps(OpenApiBuilder().build(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    return write_or_check(sys.argv[1:], {DOCUMENT: document()}, "make generate", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
