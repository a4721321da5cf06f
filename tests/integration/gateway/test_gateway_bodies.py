"""A body says nothing that is dropped on the way: no unknown field, nothing twice, no JSON that is none."""

import json
from typing import Any

import httpx
import pytest
from google.protobuf import json_format
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_gateway.envoy.bodies import MAX_DEPTH, MAX_VALUES

WITH_BODY = [endpoint for endpoint in endpoints() if endpoint.json_body is not None]
WITHOUT_BODY = [endpoint for endpoint in endpoints() if endpoint.json_body is None and not endpoint.is_upload]


def url(endpoint: Endpoint) -> str:
    return endpoint.template.replace("{", "").replace("}", "")


def violations(response: httpx.Response) -> dict[str, str]:
    assert response.status_code == 400, response.text
    status = response.json()
    assert status["code"] == 3
    info, request = status["details"]
    assert info["reason"] == "INVALID_REQUEST"
    assert request["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    return {each["field"]: each["description"] for each in request["fieldViolations"]}


def malformed(response: httpx.Response) -> str:
    assert response.status_code == 400, response.text
    assert response.json()["details"][0]["reason"] == "MALFORMED_REQUEST"
    return str(response.json()["message"])


@pytest.mark.parametrize("endpoint", WITH_BODY, ids=lambda endpoint: endpoint.name)
async def test_no_address_takes_an_unknown_field(
    upstream: Any, alice: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    response = await alice.request(endpoint.verb, url(endpoint), json={"notInTheContract": 1})

    assert violations(response) == {"notInTheContract": "is not a field"}
    assert upstream.calls == []


@pytest.mark.parametrize("endpoint", WITHOUT_BODY, ids=lambda endpoint: endpoint.name)
async def test_an_address_without_a_body_takes_none(
    upstream: Any, alice: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    response = await alice.request(endpoint.verb, url(endpoint), json={"query": "x"})

    assert "takes no body" in malformed(response)
    assert upstream.calls == []


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/api/search", {"query": "x", "topK": 3}, ["topK"]),
        ("/api/search", {"query": "x", "filters": {"year": 2024}}, ["filters"]),
        ("/api/search", {"query": "x", "Query": "x"}, ["Query"]),
        ("/api/search", {"options": {"rerank": {"topk": 1}, "x": 1}}, ["options.rerank.topk", "options.x"]),
        (
            "/api/collections/c/documents",
            {"documents": [{"uri": "a", "text": "b"}, {"text": "b", "allowedPrincipal": ["user:alice"]}]},
            ["documents[1].allowedPrincipal"],
        ),
        ("/api/collections", {"collectionId": "c", "settings": {"colour": "red"}}, ["settings.colour"]),
        # Envoy takes an object for a list of one.
        ("/api/collections/c/documents", {"documents": {"Text": "b"}}, ["documents.Text"]),
        ("/api/search", {"qu\\u0065ry": "x"}, ["qu\\u0065ry"]),
    ],
)
async def test_every_unknown_field_is_named_as_the_client_spells_it(
    upstream: Any, alice: httpx.AsyncClient, path: str, body: Any, named: list[str]
) -> None:
    response = await alice.post(path, json=body)

    assert sorted(violations(response)) == [name.replace("\\", "\\\\") for name in named]
    assert upstream.calls == []


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('{"query": "a", "query": "b"}', "query"),
        ('{"collectionIds": ["a"], "query": "x", "collection_ids": ["b"]}', "collection_ids"),
        ('{"options": {"rerank": {"topK": 1, "topK": 2}}}', "options.rerank.topK"),
        ('{"filter": {"$or": [{"year": 1}, {"year": {"$gte": 1, "$gte": 2}}]}}', "filter.$or[1].year.$gte"),
    ],
)
async def test_what_is_said_twice_is_refused(
    upstream: Any, alice: httpx.AsyncClient, body: str, named: str
) -> None:
    response = await alice.post("/api/search", content=body)

    assert violations(response) == {named: "is given more than once"}
    assert upstream.calls == []


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/threads?pageSize=1&pageSize=2", "pageSize"),
        ("/api/threads?pageSize=1&page_size=2", "page_size"),
        ("/api/threads?pageSize=1&page%53ize=2", "pageSize"),
        ("/api/collections/a?collectionId=b", "collectionId"),
        ("/api/collections/a?collection_id=a", "collection_id"),
    ],
)
async def test_a_query_parameter_that_is_said_twice_is_refused(
    upstream: Any, alice: httpx.AsyncClient, path: str, named: str
) -> None:
    response = await alice.get(path)

    assert violations(response) == {named: "is given more than once"}
    assert upstream.calls == []


async def test_many_wrong_fields_are_not_all_listed(upstream: Any, alice: httpx.AsyncClient) -> None:
    response = await alice.post("/api/search", json={f"field{n}": n for n in range(1000)})

    assert len(violations(response)) == 20


async def test_objects_of_free_form_are_not_looked_into(upstream: Any, alice: httpx.AsyncClient) -> None:
    metadata = {"Any": {"thing": [{"uri": "x"}]}, "größe": 1, 'quoted "name" \\': 2, "": 3}
    documents = [{"uri": "a", "text": 'b " \\" \\', "metadata": metadata}]
    response = await alice.post("/api/collections/c/documents", json={"documents": documents})

    assert response.status_code == 200, response.text
    (document,) = upstream.calls[0].request.documents
    assert json_format.MessageToDict(document.metadata) == metadata
    assert document.text == 'b " \\" \\'


async def test_a_map_takes_any_name(upstream: Any, alice: httpx.AsyncClient) -> None:
    priorities = {"SOURCE_TYPE_WEB": 1.5, "anything": 2}
    response = await alice.post(
        "/api/search", json={"query": "x", "options": {"rerank": {"typePriorities": priorities}}}
    )

    assert response.status_code == 200, response.text
    assert dict(upstream.calls[0].request.options.rerank.type_priorities) == priorities


@pytest.mark.parametrize(
    "body",
    [
        "{'query': 'x', 'filters': {}}",
        '{query: "x"}',
        '{"query": "x",}',
        '{"query": "x"} {"filters": 1}',
        '{"query": "x" /* filters */}',
        '{"query": "x"',
        '{"query": "x',
        '{"query": "x\\',
        '{"query" "x"}',
        '{"query": }',
        '{"query": nothing}',
        '{"query": "x", "collectionIds": ["a", ]}',
        '{"query": "x", "collectionIds": ["a" "b"]}',
        '\ufeff{"query": "x"}',
        "null",
    ],
)
async def test_what_is_not_json_is_refused_even_where_envoy_would_read_it(
    upstream: Any, alice: httpx.AsyncClient, body: str
) -> None:
    malformed(await alice.post("/api/search", content=body.encode()))

    assert upstream.calls == []


async def test_a_body_as_deep_as_allowed_arrives_and_a_deeper_one_does_not(
    upstream: Any, alice: httpx.AsyncClient
) -> None:
    def nested(levels: int) -> str:
        # The body itself is one level.
        return '{"filter": ' + '{"a": ' * (levels - 1) + "1" + "}" * levels

    arrives = await alice.post("/api/search", content=nested(MAX_DEPTH))
    refused = await alice.post("/api/search", content=nested(MAX_DEPTH + 1))

    assert arrives.status_code == 200, arrives.text
    assert f"more than {MAX_DEPTH} levels" in malformed(refused)
    assert len(upstream.calls) == 1


async def test_the_number_of_values_is_bounded(upstream: Any, alice: httpx.AsyncClient) -> None:
    metadata = {"x": [0] * MAX_VALUES}
    response = await alice.post(
        "/api/collections/c/documents",
        content=json.dumps({"documents": [{"uri": "a", "metadata": metadata}]}),
    )

    assert f"more than {MAX_VALUES} values" in malformed(response)
    assert upstream.calls == []


async def test_a_name_is_bounded(upstream: Any, alice: httpx.AsyncClient) -> None:
    response = await alice.post("/api/search", json={"filter": {"x" * 257: 1}})

    assert "256 bytes" in malformed(response)
    assert upstream.calls == []
