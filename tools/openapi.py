"""Make the OpenAPI document of the gateway's API from protos/: addresses, messages, limits, errors.

What the contract does not know (the bridge's addresses, the gateway's own) is in openapi_parts/bridged.json.

openapi.py write    write it
openapi.py check    fail when it is stale

gateway/README.md says why no other generator makes it.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from contract import PACKAGE, camel, read
from generated import write_or_check
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from groundline.v1 import error_pb2, evidence_pb2
from groundline_gateway.bridged import BRIDGED
from groundline_gateway.descriptors import exposed_services
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_gateway.scopes import REQUIRED
from openapi_parts.errors import (
    BODY_TOO_LARGE,
    BRIDGED_ERRORS,
    COMMON,
    error_response,
    error_schemas,
    named_codes,
)
from openapi_parts.examples import EXAMPLES
from openapi_parts.schemas import Json, Schemas
from project import ROOT

DOCUMENT: Final = ROOT / "gateway/groundline_gateway/page/openapi.json"
"""File in the gateway's package, which serves it; docs/reference has a link to it."""

_OVERLAY: Final = ROOT / "tools/openapi_parts/bridged.json"
_BRIDGED: Final = {bridged.name: bridged for bridged in BRIDGED}

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

_RESUMING: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The `id` of the last event that arrived, to go on after it.",
    "schema": {"type": "string"},
}

_DOWNLOADS: Final[Mapping[str, tuple[str, str, Descriptor | None]]] = {
    "DownloadDocument": (
        "application/octet-stream",
        "The document as it is, of its own media type or this one.",
        None,
    ),
    "GetDocumentPage": ("image/png", "The picture.", None),
    "GetErasureCertificate": (
        "application/json",
        "The certificate, canonical JSON of which each byte counts.",
        evidence_pb2.ErasureCertificate.DESCRIPTOR,
    ),
    "GetEvidence": (
        "application/json",
        "The evidence, canonical JSON of which each byte counts.",
        evidence_pb2.Evidence.DESCRIPTOR,
    ),
}
"""Media type of what an RPC streams as it is, a description, and the message that it spells."""


class OpenApiBuilder:
    """Builder of the document."""

    def __init__(self) -> None:
        _, self._comments = read()
        self._endpoints = endpoints()
        self._schemas = Schemas(self._comments, self._endpoints)

    def build(self) -> Json:
        """Return the whole document."""
        paths: dict[str, Json] = defaultdict(dict)
        for endpoint in self._endpoints:
            paths[_path(endpoint)][endpoint.verb.lower()] = self._operation(endpoint)
        overlay = json.loads(_OVERLAY.read_text(encoding="utf-8"))
        for path, item in overlay["paths"].items():
            paths[path] = {verb: _overlaid(operation) for verb, operation in item.items()}
        reasons = self._schemas.enum(error_pb2.ErrorReason.DESCRIPTOR)
        schemas = self._schemas.by_name | overlay["schemas"] | error_schemas(reasons)
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
                "schemas": dict(sorted(schemas.items())),
                "responses": {
                    name: error_response(status, description)
                    for status, (name, description) in (*COMMON.items(), BODY_TOO_LARGE)
                }
                | BRIDGED_ERRORS,
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
            content: Json = {"schema": self._schemas.reference(endpoint.json_body)}
            if examples := EXAMPLES.get(endpoint.name):
                content["examples"] = _examples(examples)
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
        operation["responses"] = self._responses(endpoint)
        return operation

    def _parameters(self, endpoint: Endpoint) -> Iterator[Json]:
        in_path = endpoint.variables
        for field in endpoint.method.input_type.fields:
            if field.name in in_path:
                schema = self._schemas.field(field)
                yield _parameter(field, "path", schema.pop("description"), schema) | {"required": True}
            elif endpoint.body_field not in ("*", field.name):
                schema = self._schemas.field(field)
                yield _parameter(field, "query", schema.pop("description"), schema)
        if endpoint.is_stream:
            yield _RESUMING

    def _responses(self, endpoint: Endpoint) -> Json:
        media = "text/event-stream" if endpoint.is_stream else "application/json"
        if endpoint.is_download:
            media, description, message = _DOWNLOADS[endpoint.name]
            response = {} if message is None else self._schemas.reference(message)
        else:
            response = self._schemas.reference(endpoint.method.output_type)
            description = self._comments.markdown(endpoint.method.output_type.full_name)
        if endpoint.is_stream:
            description = f"A stream of events; the data of each is a `{endpoint.method.output_type.name}`."
            response = _event(endpoint.method.output_type, response)
        found: Json = {"200": {"description": description, "content": {media: {"schema": response}}}}
        common = dict([*COMMON.items(), *([BODY_TOO_LARGE] if endpoint.body_field else [])])
        for status, (name, _) in common.items():
            found[str(status)] = {"$ref": f"#/components/responses/{name}"}
        for status, texts in named_codes(self._comments, endpoint.method).items():
            if status in common and status not in (400, 403):
                continue
            if status == 403:
                texts = [COMMON[403][1], *texts]
            found[str(status)] = error_response(status, "\n\n".join(texts))
        return dict(sorted(found.items()))


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
        for status in (*COMMON, BODY_TOO_LARGE[0], *more)
    }
    return operation | {
        "security": _security(bridged.scopes),
        "responses": dict(sorted((operation["responses"] | errors).items())),
    }


def _event(message: Descriptor, data: Json) -> Json:
    """Return the schema of a server-sent event, which is named after its message's field."""
    names = [field.json_name for field in message.fields if field.message_type and not field.is_repeated]
    identifier = {"id": {"type": "string", "description": "For `Last-Event-ID`."}}
    properties = {
        "event": {"type": "string", "enum": names},
        **(identifier if "event_id" in message.fields_by_name else {}),
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _examples(examples: Mapping[str, Json]) -> Json:
    return {_slug(summary): {"summary": summary, "value": each} for summary, each in examples.items()}


def _parameter(field: FieldDescriptor, place: str, description: str, schema: Json) -> Json:
    return {"name": field.json_name, "in": place, "description": description, "schema": schema}


def _path(endpoint: Endpoint) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: f"{{{camel(name[1])}}}", endpoint.template)


def _tag(service: str) -> str:
    return service.removesuffix("Service")


def _slug(text: str) -> str:
    return re.sub(r"\W+", "-", text.lower()).strip("-")


def document() -> str:
    """Return the document as it is stored and served."""
    return json.dumps(OpenApiBuilder().build(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    return write_or_check(sys.argv[1:], {DOCUMENT: document()}, "make generate", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
