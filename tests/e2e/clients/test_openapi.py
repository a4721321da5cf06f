"""The running gateway does what its OpenAPI document says, whatever is sent to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx
import openapi
import pytest
import schemathesis
from groundline_client.transport.sse import EventParser
from groundline_tests.suite import Stack, delete_collection, ended_job
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from openapi_schema_validator import OAS31Validator
from schemathesis.checks import CHECKS, load_all_checks

DOCUMENT: Final[Mapping[str, Any]] = json.loads(openapi.DOCUMENT.read_text(encoding="utf-8"))
OPERATIONS: Final = {
    operation["operationId"]: (path, verb)
    for path, item in DOCUMENT["paths"].items()
    for verb, operation in item.items()
}
EXAMPLES: Final = [
    (operation["operationId"], example["summary"], example["value"])
    for item in DOCUMENT["paths"].values()
    for operation in item.values()
    for content in operation.get("requestBody", {}).get("content", {}).values()
    for example in content.get("examples", {}).values()
]
SCHEMA: Final = schemathesis.openapi.from_dict(dict(DOCUMENT))
# Requests made from the schema of each operation.
REQUESTS: Final = 20
SEED: Final = 14

load_all_checks()
AS_DOCUMENTED: Final = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
]


@pytest.fixture(scope="module")
async def known(stack: Stack) -> AsyncIterator[Mapping[str, str]]:
    """Return ids of existing resources, for addresses; operations that change something have a collection of
    their own."""
    async with stack.client() as client:
        before = await collection_ids(client)
        settings = {"history": {"everything": True}}
        made = await client.post("/api/collections", json={"collectionId": "openapi", "settings": settings})
        assert made.status_code == 200, made.text
        table = "| Model | Region | Price |\n|---|---|---|\n| DN-4 | North | 199 EUR |\n"
        for text in ("The hatch has six screws.", "The hatch has four screws."):
            body = {"documents": [{"uri": "a.md", "text": f"{text}\n\n{table}"}]}
            ingested = (await client.post("/api/collections/openapi/documents", json=body)).json()
            job = await ended_job(client, ingested["job"]["jobId"])
        documents = (await client.get("/api/collections/openapi/documents")).json()["documents"]
        answer = (await client.post("/api/answer", json={"query": "How many screws?"})).json()
        source = {"source": {"name": "known", "git": {"url": "https://git.example.com/known.git"}}}
        created = await client.post("/api/collections/openapi/sources", json=source)
        assert created.status_code == 200, created.text
        yield {
            "collectionId": "openapi",
            "documentId": documents[0]["documentId"],
            "revision": documents[0]["revision"],
            "jobId": job["jobId"],
            "threadId": answer["threadId"],
            "messageId": answer["messageId"],
            "sourceId": created.json()["source"]["sourceId"],
        }
        for collection_id in await collection_ids(client) - before:
            await delete_collection(client, collection_id)


async def collection_ids(client: httpx.AsyncClient) -> set[str]:
    listed = (await client.get("/api/collections?pageSize=1000")).json()["collections"]
    return {collection["collectionId"] for collection in listed}


def validated_events(name: str, text: str) -> int:
    """Count the events of an operation's stream; check the data of each against its schema, if it has one."""
    path, verb = OPERATIONS[name]
    content = DOCUMENT["paths"][path][verb]["responses"]["200"]["content"]["text/event-stream"]
    data = content["schema"]["properties"]["data"].get("contentSchema")
    sent = [event.data for event in EventParser().feed(text.encode())]
    if data is None:  # a stream of the OpenAI API ends with [DONE], which is not JSON
        return len(sent)
    validator = OAS31Validator({**data, "components": DOCUMENT["components"]})
    events = [json.loads(each) for each in sent]
    for event in events:
        assert [error.message for error in validator.iter_errors(event)] == [], event
    return len(events)


async def test_the_gateway_serves_the_document(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.ready["gateway"], trust_env=False) as anonymous:
        assert (await anonymous.get("/openapi.json")).json() == DOCUMENT


@pytest.mark.parametrize("name", OPERATIONS)
async def test_every_reply_is_as_documented(stack: Stack, known: Mapping[str, str], name: str) -> None:
    path, verb = OPERATIONS[name]
    operation = SCHEMA[path][verb]
    headers = {"x-api-key": stack.ready["api_key"]}
    # Existing resources stay, for the operations that read them.
    ids = st.just(False) if verb == "delete" else st.booleans()
    seen: set[int] = set()

    @seed(SEED)
    @settings(max_examples=REQUESTS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(), is_known=ids)
    def send(case: Any, is_known: bool) -> None:
        if is_known:
            case.path_parameters.update(
                {each: value for each, value in known.items() if each in case.path_parameters}
            )
        response = case.call(base_url=stack.ready["gateway"], headers=headers, timeout=60)
        case.validate_response(response, checks=AS_DOCUMENTED)
        if "text/event-stream" in response.headers.get("content-type", ""):
            assert validated_events(name, response.text)
        seen.add(response.status_code)

    await asyncio.to_thread(send)
    assert seen


@pytest.mark.parametrize(("name", "title", "body"), EXAMPLES, ids=[f"{n}: {t}" for n, t, _ in EXAMPLES])
async def test_an_example_is_a_request_that_is_taken(
    stack: Stack, known: Mapping[str, str], name: str, title: str, body: Mapping[str, Any]
) -> None:
    path, verb = OPERATIONS[name]
    async with stack.client() as client:
        address = path.format_map(known)
        # Requests made from the schema begin with its examples.
        if name == "CreateCollection":
            await client.delete(f"/api/collections/{body['collectionId']}")
        if name == "CreateSource":
            for source in (await client.get(address)).json()["sources"]:
                if source["name"] == body["source"]["name"]:
                    await client.delete(f"{address}/{source['sourceId']}")
        if name == "ReindexCollection":
            # One at a time, and one may be held back.
            await cancel_jobs(client)
        if name == "RevertIndex":
            await cancel_jobs(client)
            kept = await client.post("/api/collections/openapi:reindex", json={"keepPrevious": True})
            await ended_job(client, kept.json()["job"]["jobId"])
        if "documentIds" in body:
            body = {**body, "documentIds": [known["documentId"]]}
        if "plan" in body:
            body = {"plan": {**body["plan"], "documentId": known["documentId"]}}
        if name == "RestoreRevision":
            revisions = f"/api/collections/openapi/documents/{known['documentId']}/revisions"
            *_, oldest = (await client.get(revisions)).json()["revisions"]
            address = f"{revisions}/{oldest['revision']}:restore"
        response = await client.request(verb, address, json=body)
        assert response.status_code == 200, response.text


async def cancel_jobs(client: httpx.AsyncClient) -> None:
    for job in (await client.get("/api/jobs?collectionId=openapi")).json()["jobs"]:
        await client.post(f"/api/jobs/{job['jobId']}:cancel", json={})


async def test_a_stream_of_a_chat_is_as_documented(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/chat", json=EXAMPLES[0][2])

    assert validated_events("Chat", response.text) > 3
