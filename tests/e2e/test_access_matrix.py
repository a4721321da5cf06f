"""Who may do what: every RPC of every service and every address of the bridge, with keys of each scope, on
collections, documents, jobs and threads that are the caller's own, shared with it to read, and another's."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import grpc
import httpx
import pytest
from groundline.v1 import retriever_service_pb2, retriever_service_pb2_grpc
from groundline_database import open_pool
from groundline_gateway.bridged import BRIDGED
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_gateway.keys import KeyDatabaseSettings, KeyStore
from groundline_gateway.scopes import REQUIRED, Scope
from groundline_tests.limit_cases import methods
from groundline_tests.suite import Stack, ended_job
from pydantic import SecretStr

type Relation = Literal["own", "shared", "foreign"]
type Outcome = Literal["allowed", "denied", "hidden"]
type Json = dict[str, Any]

RELATIONS: Final[tuple[Relation, ...]] = ("own", "shared", "foreign")
CALLER: Final = "user:carol"
OTHER: Final = "user:olga"
SECRETS: Final[Mapping[Relation, str]] = {"own": "periwinkle", "shared": "marigold", "foreign": "snapdragon"}
"""A word of the document in each collection."""

READS: Final[Mapping[Relation, Outcome]] = {"own": "allowed", "shared": "allowed", "foreign": "hidden"}
CHANGES: Final[Mapping[Relation, Outcome]] = {"own": "allowed", "shared": "denied", "foreign": "hidden"}
# A conversation is never shared.
PRIVATE: Final[Mapping[Relation, Outcome]] = {"own": "allowed", "shared": "hidden", "foreign": "hidden"}
# They name no resource; what they show is looked at.
LISTS: Final[Mapping[Relation, Outcome]] = dict.fromkeys(RELATIONS, "allowed")
# They are about the installation: its administrators are told of everybody's resources.
INSTALLATION: Final[Mapping[Relation, Outcome]] = dict.fromkeys(RELATIONS, "allowed")
# An id that is taken is taken, whoever asks; nothing else is told of it.
CREATES: Final[Mapping[Relation, Outcome]] = dict.fromkeys(RELATIONS, "denied")

# No key has the id that is asked for.
UNKNOWN: Final[Mapping[Relation, Outcome]] = dict.fromkeys(RELATIONS, "hidden")

SOURCE: Final[Json] = {"web": {"startUrl": "http://127.0.0.1:1/"}}
"""It brings nothing: the address is not the internet's."""

EXPECTED: Final[Mapping[str, Mapping[Relation, Outcome]]] = {
    "Search": READS,
    "QueryTables": READS,
    "Answer": READS,
    "Chat": READS,
    "Verify": READS,
    "GetThread": PRIVATE,
    "ListThreads": LISTS,
    "UpdateThread": PRIVATE,
    "DeleteThread": PRIVATE,
    "RateAnswer": PRIVATE,
    "GetEvidence": PRIVATE,
    "ListSigningKeys": LISTS,
    "ListModels": LISTS,
    "GetQuotas": LISTS,
    "GetCollection": READS,
    "ListCollections": LISTS,
    "GetCollectionStats": READS,
    "GetDocument": READS,
    "GetDocumentText": READS,
    "DownloadDocument": READS,
    "GetDocumentPage": READS,
    "ListChunks": READS,
    "ListRevisions": READS,
    "GetRevision": READS,
    "CompareRevisions": READS,
    "ListDocuments": READS,
    "IngestDocuments": CHANGES,
    "RestoreRevision": CHANGES,
    "UploadDocument": CHANGES,
    "DeleteDocument": CHANGES,
    "DeleteDocuments": CHANGES,
    "GetJob": READS,
    "ListJobs": READS,
    "WatchJob": READS,
    "CancelJob": CHANGES,
    "RetryJob": CHANGES,
    "RevertJob": CHANGES,
    "CreateCollection": CREATES,
    "UpdateCollection": CHANGES,
    "DeleteCollection": CHANGES,
    "ReindexCollection": CHANGES,
    "SwapIndex": CHANGES,
    "RevertIndex": CHANGES,
    "ReclaimIndex": CHANGES,
    "CreateSource": CHANGES,
    "GetSource": CHANGES,
    "ListSources": CHANGES,
    "UpdateSource": CHANGES,
    "RunSource": CHANGES,
    "DeleteSource": CHANGES,
    "SetLegalHold": CHANGES,
    "ListErasures": LISTS,
    "GetErasureCertificate": PRIVATE,
    "ListLegalHolds": CHANGES,
    "ListApiKeys": INSTALLATION,
    "CreateApiKey": INSTALLATION,
    "RevokeApiKey": UNKNOWN,
    "ListAuditEntries": INSTALLATION,
    "GetUsage": INSTALLATION,
    "OpenAiCreateChatCompletion": READS,
    "OpenAiCreateResponse": READS,
    "OpenAiCreateEmbeddings": LISTS,
    "OpenAiListModels": LISTS,
    "OpenAiGetModel": READS,
    "McpRequest": READS,
}

# Reached from within alone; what they are given is all they know.
WITHOUT_RESOURCES: Final = {
    "Rerank",
    "Generate",
    "RewriteQuery",
    "ContextualizeChunks",
    "DescribePicture",
    "JudgeRelevance",
    "JudgeSufficiency",
    "PlanTable",
    "SplitClaims",
    "JudgeClaims",
    "GetModelChoice",
    "EmbedTexts",
    "Collect",
    "CheckSource",
    "SendNotice",
}
WITHIN: Final = {"FetchChunks"}


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection with a document, the job that brought it, a source, and a thread about it."""

    collection_id: str
    document_id: str
    revision: str
    erasure_id: str
    job_id: str
    source_id: str
    thread_id: str
    message_id: str
    chunk_id: str
    word: str
    embedding_model: str


def test_every_rpc_and_every_address_has_its_row() -> None:
    rpcs = {method.name for method in methods()}
    assert rpcs - WITHIN - WITHOUT_RESOURCES == {endpoint.name for endpoint in endpoints()}
    assert set(EXPECTED) == {each.name for each in endpoints()} | {each.name for each in BRIDGED}


@pytest.fixture(scope="module")
async def keys(stack: Stack) -> Mapping[str, str]:
    """Keys of the caller, one for each scope and one for all of them, and one of another."""
    settings = KeyDatabaseSettings(database_url=SecretStr(stack.ready["database_url"]))
    holders: dict[str, tuple[str, list[Scope]]] = {
        **{scope.value: (CALLER, [scope]) for scope in Scope},
        "all": (CALLER, list(Scope)),
        "other": (OTHER, list(Scope)),
    }
    made = {}
    async with open_pool(settings) as pool:
        for name, (principal, scopes) in holders.items():
            key = await KeyStore(pool).create(f"matrix-{name}", [principal], scopes, None)
            assert key.secret is not None
            made[name] = key.secret
    return made


@pytest.fixture(scope="module")
async def clients(stack: Stack, keys: Mapping[str, str]) -> AsyncIterator[Mapping[str, httpx.AsyncClient]]:
    async with AsyncExitStack() as opened:
        found = {}
        for name, key in keys.items():
            client = httpx.AsyncClient(
                base_url=stack.ready["gateway"], headers={"x-api-key": key}, timeout=60, trust_env=False
            )
            found[name] = await opened.enter_async_context(client)
        async with asyncio.timeout(60):
            await asyncio.gather(*map(is_known, found.values()))
        yield found


async def is_known(client: httpx.AsyncClient) -> None:
    """Wait until the gateway knows the client's key."""
    while True:
        if (await client.get("/api/collections")).status_code != 401:
            return
        await asyncio.sleep(0.2)


async def make(client: httpx.AsyncClient, collection_id: str, word: str, *readers: str) -> Resource:
    settings: Json = {"keepOriginals": True}
    if readers:
        settings["access"] = {"readers": list(readers)}
    body: Json = {"collectionId": collection_id, "settings": settings}
    made = await client.post("/api/collections", json=body)
    assert made.status_code == 200, made.text
    text = f"The flower of the month is {word}."
    documents = [{"uri": uri, "text": text} for uri in ("a.md", "b.md")]
    path = f"/api/collections/{collection_id}"
    ingested = (await client.post(f"{path}/documents", json={"documents": documents})).json()
    job = await ended_job(client, ingested["job"]["jobId"])
    document, gone = (await client.get(f"{path}/documents")).json()["documents"]
    await client.delete(f"{path}/documents/{gone['documentId']}")
    [erasure] = (await client.get("/api/erasures", params={"collectionId": collection_id})).json()["erasures"]
    made_source = await client.post(f"{path}/sources", json={"source": SOURCE | {"name": word}})
    assert made_source.status_code == 200, made_source.text
    source = made_source.json()["source"]
    question = {"query": "Which flower is of the month?", "collectionIds": [collection_id]}
    answer = (await client.post("/api/answer", json=question)).json()
    assert word in answer["answer"]
    return Resource(
        collection_id,
        document["documentId"],
        document["revision"],
        erasure["erasureId"],
        job["jobId"],
        source["sourceId"],
        answer["threadId"],
        answer["messageId"],
        answer["sources"][0]["chunkId"],
        word,
        made.json()["collection"]["settings"]["embedding"]["model"],
    )


@pytest.fixture(scope="module")
async def resources(clients: Mapping[str, httpx.AsyncClient]) -> AsyncIterator[Mapping[Relation, Resource]]:
    carol, olga = clients["all"], clients["other"]
    yield {
        "own": await make(carol, "matrix-own", SECRETS["own"]),
        "shared": await make(olga, "matrix-shared", SECRETS["shared"], CALLER),
        "foreign": await make(olga, "matrix-foreign", SECRETS["foreign"]),
    }
    for client in (carol, olga):
        for collection in (await client.get("/api/collections")).json()["collections"]:
            await client.delete(f"/api/collections/{collection['collectionId']}")


def body_of(name: str, resource: Resource) -> Json:
    """Return the body that makes the RPC ask about the resource, if its address does not."""
    question = {"query": "Which flower is of the month?", "collectionIds": [resource.collection_id]}
    messages = [{"role": "user", "content": question["query"]}]
    bodies: Mapping[str, Json] = {
        "Search": question,
        "QueryTables": {"question": question["query"], "collectionIds": question["collectionIds"]},
        "Answer": question | {"store": False},
        "Chat": question | {"store": False},
        "Verify": {"text": "The flower of the month is a rose.", "collectionIds": [resource.collection_id]},
        "UpdateThread": {"title": "renamed"},
        "RevertJob": {"dryRun": True},
        "SetLegalHold": {"reason": ""},
        "CreateApiKey": {"name": "matrix-made", "principals": ["user:made"], "scopes": ["search"]},
        "RateAnswer": {"feedback": {"rating": "RATING_GOOD"}},
        "CreateCollection": {"collectionId": resource.collection_id},
        "UpdateCollection": {"name": "renamed"},
        "IngestDocuments": {"documents": [{"uri": "b.md", "text": "Another."}], "dryRun": True},
        "UpdateSource": {"intervalSeconds": 7200},
        "CreateSource": {"source": SOURCE | {"name": "another"}},
        "DeleteDocuments": {"filter": {"team": "none"}},
        "OpenAiCreateChatCompletion": {"model": resource.collection_id, "messages": messages},
        "OpenAiCreateEmbeddings": {"model": resource.embedding_model, "input": "a flower"},
        "OpenAiCreateResponse": {"model": resource.collection_id, "input": question["query"], "store": False},
    }
    return bodies.get(name, {})


async def ask(
    client: httpx.AsyncClient, name: str, resource: Resource
) -> tuple[Outcome | Literal["scope"], str]:
    """Return the outcome, and the whole response."""
    if name == "McpRequest":
        return await ask_as_agent(client, resource)
    found: dict[str, Endpoint] = {endpoint.name: endpoint for endpoint in endpoints()}
    bridged = {each.name: each for each in BRIDGED}
    if name in found:
        verb, path = (
            found[name].verb,
            found[name].template.format_map(asdict(resource) | {"page": 1, "key_id": "none"}),
        )
    else:
        verb, path = bridged[name].verb or "POST", bridged[name].path
        path = path.replace("[^/]+", resource.collection_id)
    if name == "ListJobs":
        path += f"?collectionId={resource.collection_id}"
    if name == "UploadDocument":
        path += "?uri=c.txt"
        response = await client.post(path, content=b"Uploaded.", headers={"content-type": "text/plain"})
    else:
        has_body = verb in ("POST", "PATCH")
        response = await client.request(verb, path, json=body_of(name, resource) if has_body else None)
    text = response.text
    if response.status_code == 403 and "SCOPE_MISSING" in text.upper():
        return "scope", text
    if response.status_code == 409 and name == "CreateCollection":
        return "denied", text
    if response.status_code == 400 and name == "RetryJob" and "NOTHING_TO_RETRY" in text:
        return "allowed", text
    # Who may administer it is told that no index waits or was kept.
    if response.status_code == 400 and name == "SwapIndex" and "NO_REINDEX" in text:
        return "allowed", text
    if response.status_code == 400 and name == "RevertIndex" and "INDEX_NOT_FOUND" in text:
        return "allowed", text
    # Who may change it is told that there is no other revision.
    if response.status_code == 404 and name == "RestoreRevision" and "REVISION_NOT_FOUND" in text:
        return "allowed", text
    # Who may read the document is told that it has no pages to draw.
    if response.status_code == 400 and name == "GetDocumentPage" and "NO_PAGE_PICTURES" in text:
        return "allowed", text
    outcomes: Mapping[int, Outcome] = {200: "allowed", 403: "denied", 404: "hidden"}
    assert response.status_code in outcomes, f"{name}: {response.status_code} {text}"
    return outcomes[response.status_code], text


async def ask_as_agent(client: httpx.AsyncClient, resource: Resource) -> tuple[Outcome, str]:
    """Search by a tool; the protocol carries failures in its own way."""
    arguments = {"query": "Which flower is of the month?", "collections": [resource.collection_id]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call |= {"params": {"name": "search_documents", "arguments": arguments}}
    accepted = {"accept": "application/json, text/event-stream"}
    response = await client.post("/mcp", json=call, headers=accepted)
    assert response.status_code == 200, response.text
    return "hidden" if resource.word not in response.text else "allowed", response.text


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "McpRequest"])
async def test_a_key_without_the_scope_reaches_nothing(
    name: str,
    relation: Relation,
    clients: Mapping[str, httpx.AsyncClient],
    resources: Mapping[Relation, Resource],
) -> None:
    wanted = {**REQUIRED, **{each.name: each.scopes for each in BRIDGED}}[name]
    for scope in set(Scope) - set(wanted or Scope):
        outcome, text = await ask(clients[scope.value], name, resources[relation])
        assert outcome == "scope", scope
        assert not any(word in text for word in SECRETS.values())


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", EXPECTED)
async def test_what_a_caller_may_do_depends_on_whose_it_is(
    name: str,
    relation: Relation,
    clients: Mapping[str, httpx.AsyncClient],
    resources: Mapping[Relation, Resource],
) -> None:
    resource = resources[relation]
    if name.startswith(("Delete", "Reindex")) and EXPECTED[name][relation] == "allowed":
        # Gone afterwards, or being indexed.
        resource = await make(clients["all"], f"matrix-{name.lower()}", "spare")

    outcome, text = await ask(clients["all"], name, resource)

    assert outcome == EXPECTED[name][relation], text
    assert SECRETS["foreign"] not in text
    if outcome != "allowed":
        assert not any(word in text for word in SECRETS.values())
    if EXPECTED[name] is LISTS:
        assert "matrix-foreign" not in text
        assert resources["foreign"].thread_id not in text


@pytest.mark.parametrize("scope", ["ingest", "admin"])
async def test_an_agent_whose_key_may_not_search_finds_nothing(
    scope: str, clients: Mapping[str, httpx.AsyncClient], resources: Mapping[Relation, Resource]
) -> None:
    for resource in resources.values():
        assert (await ask_as_agent(clients[scope], resource))[0] == "hidden"


@pytest.mark.parametrize("relation", RELATIONS)
async def test_within_the_suite_the_retriever_asks_whose_it_is_too(
    relation: Relation, stack: Stack, resources: Mapping[Relation, Resource]
) -> None:
    resource = resources[relation]
    metadata = (("x-groundline-principals", CALLER),)
    async with grpc.aio.insecure_channel(stack.ready["services"]["retriever"]) as channel:
        stub: retriever_service_pb2_grpc.RetrieverServiceAsyncStub = (
            retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        )
        chunks = retriever_service_pb2.CollectionChunks(
            collection_id=resource.collection_id, chunk_ids=[resource.chunk_id]
        )
        span = retriever_service_pb2.RevisionSpan(
            collection_id=resource.collection_id,
            document_id=resource.document_id,
            revision=resource.revision,
            end_offset=1000,
        )
        fetched = await stub.FetchChunks(
            retriever_service_pb2.FetchChunksRequest(selections=[chunks], spans=[span]), metadata=metadata
        )
        request = retriever_service_pb2.SearchRequest(query="flower", collection_ids=[resource.collection_id])
        if relation == "foreign":
            assert len(fetched.chunks) == len(fetched.texts) == 0
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Search(request, metadata=metadata)
            assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        else:
            assert [resource.word in each.text for each in fetched.chunks] == [True]
            assert [resource.word in each.text for each in fetched.texts] == [True]
            found = await stub.Search(request, metadata=metadata)
            assert resource.chunk_id in {each.chunk.chunk_id for each in found.passages}
            assert {each.chunk.collection_id for each in found.passages} == {resource.collection_id}
