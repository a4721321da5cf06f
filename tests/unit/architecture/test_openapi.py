"""The OpenAPI document says what the contract says, no less and no more."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import openapi
import pytest
from google.api import annotations_pb2  # type: ignore[import-untyped]
from groundline.v1 import error_pb2, ingestor_service_pb2, retriever_service_pb2
from groundline_gateway.bridged import BRIDGED
from groundline_runtime.errors import Code
from groundline_tests.limit_cases import methods
from openapi_spec_validator import OpenAPIV31SpecValidator
from project import ROOT


@pytest.fixture(scope="module")
def document() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = json.loads(openapi.document())
    return loaded


@pytest.fixture(scope="module")
def schemas(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document["components"]["schemas"]
    return found


def bindings() -> Iterator[tuple[str, str, str]]:
    """Verb, path and RPC of every google.api.http rule, whichever service has it."""
    for method in methods():
        rule = method.GetOptions().Extensions[annotations_pb2.http]
        for binding in (rule, *rule.additional_bindings):
            if verb := binding.WhichOneof("pattern"):
                yield verb, getattr(binding, verb), method.name


GATEWAYS = {
    ("get", "/healthz", "GetHealth"),
    ("get", "/healthz/{service}", "GetServiceHealth"),
    ("get", "/openapi.json", "GetOpenApiDocument"),
}


def test_it_has_every_address_of_the_contract_the_bridge_and_the_gateway_and_no_other(
    document: Mapping[str, Any],
) -> None:
    def spelled(path: str) -> str:
        return re.sub(r"\{\w+\}", lambda name: name[0].replace("_", "").lower(), path)

    described = {
        (verb, spelled(path), operation["operationId"])
        for path, item in document["paths"].items()
        for verb, operation in item.items()
    }
    bridged = {
        ((each.verb or "POST").lower(), each.path.replace("[^/]+", "{model}"), each.name) for each in BRIDGED
    }
    assert described == {(verb, spelled(path), name) for verb, path, name in bindings()} | bridged | GATEWAYS


def test_it_is_openapi_as_the_standard_has_it(document: Mapping[str, Any]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    assert document["openapi"].startswith("3.1.")


def test_every_schema_is_referred_to_and_every_reference_leads_somewhere(
    document: Mapping[str, Any], schemas: Mapping[str, Any]
) -> None:
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert referred == set(schemas)


@pytest.mark.parametrize(
    ("message", "file"), [("SearchRequest", retriever_service_pb2), ("WebCrawl", ingestor_service_pb2)]
)
def test_a_message_has_all_fields_by_json_name(schemas: Mapping[str, Any], message: str, file: Any) -> None:
    fields = file.DESCRIPTOR.message_types_by_name[message].fields
    assert set(schemas[message]["properties"]) == {field.json_name for field in fields}
    assert all(each.get("description") for each in schemas[message]["properties"].values())


def test_a_field_in_the_address_is_no_field_of_the_body(document: Mapping[str, Any]) -> None:
    update = document["paths"]["/api/collections/{collectionId}"]["patch"]
    assert [each["name"] for each in update["parameters"] if each["in"] == "path"] == ["collectionId"]
    body = document["components"]["schemas"]["UpdateCollectionRequest"]
    assert set(body["properties"]) == {"name", "settings", "updateMask", "dryRun", "etag"}


@pytest.mark.parametrize(
    ("message", "field", "expected"),
    [
        ("SearchRequest", "query", {"minLength": 1, "maxLength": 8000}),
        ("SearchRequest", "collectionIds", {"maxItems": 100}),
        ("RetrievalOptions", "keywordLimit", {"minimum": 1, "maximum": 1000}),
        ("RerankOptions", "typePriorities", {"propertyNames": {"enum": ["file", "object", "web"]}}),
        ("CreateCollectionRequest", "collectionId", {"pattern": "^([a-z0-9][a-z0-9_-]{0,62})?$"}),
    ],
)
def test_limits_are_those_of_the_contract(
    schemas: Mapping[str, Any], message: str, field: str, expected: Mapping[str, Any]
) -> None:
    assert schemas[message]["properties"][field].items() >= expected.items()


def test_a_default_is_said_in_words_since_generated_clients_would_send_it(schemas: Mapping[str, Any]) -> None:
    top_k = schemas["RerankOptions"]["properties"]["topK"]
    assert top_k["description"].endswith("Default: `8`.")
    assert "default" not in top_k


def test_no_word_for_a_linter_is_published(document: Mapping[str, Any]) -> None:
    assert re.findall(r"buf:\w+|\(--|--\)|api-linter", json.dumps(document)) == []


def lists_of_values(node: Any) -> Iterator[list[Any]]:
    """Yield every list of allowed values of the document, wherever it is."""
    if isinstance(node, Mapping):
        if isinstance(node.get("enum"), list):
            yield node["enum"]
        node = node.values()
    if not isinstance(node, str | int | float | None):
        for each in node:
            yield from lists_of_values(each)


def test_generators_of_clients_can_make_a_name_of_every_value(document: Mapping[str, Any]) -> None:
    """openapi-python-client refuses a list with USER and user, of which it would make one name."""
    found = list(lists_of_values(document))
    assert ["user", "assistant"] in found
    for values in found:
        names = [str(value).upper().strip() for value in values]
        assert all(names), values
        assert len(names) == len(set(names)), values
        assert len({type(value) for value in values}) == 1, values


def test_a_required_field_is_required(schemas: Mapping[str, Any]) -> None:
    assert schemas["SearchRequest"]["required"] == ["query"]
    assert schemas["SearchRequest"]["additionalProperties"] is False
    assert schemas["ChatMessage"]["required"] == ["role", "content"]


def test_every_reason_of_an_error_is_listed(schemas: Mapping[str, Any]) -> None:
    assert schemas["ErrorReason"]["enum"] == list(error_pb2.ErrorReason.keys())


def test_every_status_code_that_a_comment_names_is_a_response(document: Mapping[str, Any]) -> None:
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            named = {code for code in Code if re.search(rf"\b{code.name}\b", operation["description"])}
            statuses = {str(code.http_status) for code in named}
            assert statuses <= set(operation["responses"]), (verb, path)


def test_whoever_calls_needs_one_of_the_scopes(document: Mapping[str, Any]) -> None:
    cancel = document["paths"]["/api/jobs/{jobId}:cancel"]["post"]
    assert {"apiKey": ["ingest"]} in cancel["security"]
    assert {"bearer": ["admin"]} in cancel["security"]
    assert {"apiKey": ["search"]} not in cancel["security"]


def test_a_stream_is_described_by_its_event(document: Mapping[str, Any]) -> None:
    chat = document["paths"]["/api/chat"]["post"]["responses"]["200"]["content"]
    event = chat["text/event-stream"]["schema"]["properties"]
    assert event["data"]["contentSchema"] == {"$ref": "#/components/schemas/ChatResponse"}
    assert event["event"]["enum"] == [
        *("started", "status", "sources", "delta", "completed", "error", "unsupported", "correction")
    ]
    watch = document["paths"]["/api/jobs/{jobId}:watch"]["get"]["responses"]["200"]["content"]
    assert watch["text/event-stream"]["schema"]["properties"]["event"]["enum"] == ["job"]


def test_every_post_that_takes_more_than_nothing_has_an_example(document: Mapping[str, Any]) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            name = content["schema"]["$ref"].rpartition("/")[2]
            has_fields = bool(document["components"]["schemas"][name]["properties"])
            assert bool(content.get("examples")) == has_fields, operation["operationId"]


def test_each_field_and_value_of_the_consoles_forms_has_a_german_word(document: Mapping[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    shown: set[str] = set()

    def show(name: str, *within: str) -> None:
        for field, given in schemas[name].get("properties", {}).items():
            inner = given.get("$ref", given.get("items", {}).get("$ref", "")).rpartition("/")[2]
            description = given.get("description", "")
            if "Output only" in description or "set by the service" in description:
                continue
            values = {*given.get("enum", ()), *schemas.get(inner, {}).get("enum", ())}
            shown.update({field, *(value for value in values if not value.endswith("_UNSPECIFIED"))})
            if inner and inner not in within:
                show(inner, *within, inner)

    for form in ("CollectionSettings", "DocumentSource", "WebCrawl"):
        show(form)
    words = (ROOT / "console/src/texts/contract_de.ts").read_text(encoding="utf-8")
    translated = set(re.findall(r"^  (\w+): \"", words, re.MULTILINE))
    assert shown == translated
