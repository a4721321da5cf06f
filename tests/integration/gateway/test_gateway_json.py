"""JSON in, gRPC behind, JSON out; and every refusal in the shape of google.rpc.Status."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from groundline.v1 import (
    chat_pb2,
    coordinator_service_pb2,
    document_pb2,
    ingestor_service_pb2,
    job_pb2,
    options_pb2,
)

HTTP_STATUS = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
}


def reason(response: httpx.Response) -> str:
    assert response.headers["content-type"] == "application/json"
    return str(response.json()["details"][0]["reason"])


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"query": "x', "malformed"),
        (b"hello", "malformed"),
        (b"query=x", "malformed"),
        (b"[]", "malformed"),
        (b'{"query": 5}', "query"),
        (b'{"query": "x", "options": {"retrieval": {"mode": "SIDEWAYS"}}}', "options.retrieval.mode"),
        (b'{"query": "x", "options": {"rerank": {"topK": "many"}}}', "options.rerank.top_k"),
        (b'{"query": "x", "chatHistory": [{"role": "robot"}]}', "chat_history[0].role"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_before_any_service(
    upstream: Any, alice: httpx.AsyncClient, body: bytes, named: str
) -> None:
    response = await alice.post("/api/answer", content=body, headers={"content-type": "application/json"})

    assert response.status_code == 400
    assert response.json()["code"] == 3
    assert named in response.json()["message"]
    assert reason(response) == "MALFORMED_REQUEST"
    assert upstream.calls == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nowhere"),
        ("GET", "/api/nowhere"),
        ("GET", "/api/chat"),
        ("POST", "/api/threads"),
        ("DELETE", "/api/collections/docs/documents"),
        ("GET", "/api/collections/docs/elsewhere/1"),
        ("POST", "/groundline.v1.CoordinatorService/Answer"),
    ],
)
async def test_an_unknown_address_or_method_is_not_found(
    upstream: Any, alice: httpx.AsyncClient, method: str, path: str
) -> None:
    response = await alice.request(method, path)

    assert response.status_code == 404
    assert response.json()["code"] == 5
    assert reason(response) == "ROUTE_NOT_FOUND"
    assert upstream.calls == []


async def test_an_unknown_query_parameter_is_refused_by_name(upstream: Any, alice: httpx.AsyncClient) -> None:
    response = await alice.get("/api/threads", params={"pageSizes": 3})

    assert response.status_code == 400
    assert "pageSizes" in response.json()["message"]
    assert upstream.calls == []


@pytest.mark.parametrize("role", ["user", "USER", "User"])
async def test_an_enum_value_may_have_any_case(upstream: Any, alice: httpx.AsyncClient, role: str) -> None:
    response = await alice.post(
        "/api/answer", json={"query": "x", "chatHistory": [{"role": role, "content": "Hi"}]}
    )

    assert response.status_code == 200
    assert upstream.calls[0].request.chat_history[0].role == chat_pb2.ChatMessage.USER


@pytest.mark.parametrize(
    "mode", ["keyword", "KEYWORD", "retrieval_mode_keyword", "RETRIEVAL_MODE_KEYWORD", 3]
)
async def test_an_enum_value_may_be_written_without_the_enum_s_name(
    upstream: Any, alice: httpx.AsyncClient, mode: str | int
) -> None:
    options = {"retrieval": {"mode": mode}, "rerank": {"strategy": "none"}}
    response = await alice.post("/api/search", json={"query": "x", "options": options})

    assert response.status_code == 200
    found = upstream.calls[0].request.options
    assert found.retrieval.mode == options_pb2.RETRIEVAL_MODE_KEYWORD
    assert found.rerank.strategy == options_pb2.RERANK_STRATEGY_NONE


@pytest.mark.parametrize("mode", ["unspecified", "none", "mode_keyword", ""])
async def test_a_name_the_enum_lacks_is_refused(upstream: Any, alice: httpx.AsyncClient, mode: str) -> None:
    response = await alice.post("/api/search", json={"query": "x", "options": {"retrieval": {"mode": mode}}})

    assert response.status_code == 400
    assert "options.retrieval.mode" in response.json()["message"]
    assert upstream.calls == []


async def test_an_answer_names_enum_values_in_full(upstream: Any, alice: httpx.AsyncClient) -> None:
    upstream.gives(
        ingestor_service_pb2.GetJobResponse(
            job=job_pb2.IngestionJob(job_id="j", state=job_pb2.JOB_STATE_DONE)
        )
    )
    response = await alice.get("/api/jobs/j")

    assert response.json()["job"]["state"] == "JOB_STATE_DONE"


async def test_a_path_with_an_escaped_slash_is_refused(upstream: Any, alice: httpx.AsyncClient) -> None:
    response = await alice.get("/api/threads/..%2Fsecret")

    assert response.status_code == 400
    assert reason(response) == "MALFORMED_REQUEST"
    assert upstream.calls == []


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_never_reaches_a_service(
    upstream: Any, alice: httpx.AsyncClient, announced: bool
) -> None:
    body = b'{"query": "' + b"x" * (64 << 10) + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 4096):
            yield body[start : start + 4096]

    response = await alice.post("/api/answer", content=body if announced else pieces())

    assert response.status_code == 413
    assert response.json()["code"] == 3
    assert reason(response) == "BODY_TOO_LARGE"
    assert upstream.calls == []


async def test_documents_have_their_own_larger_limit(upstream: Any, launch: Any) -> None:
    async with launch(max_request_bytes=1024, max_document_request_bytes=8192) as gateway:
        await gateway.becomes(200)
        async with gateway.client() as client:
            fits = await client.post(
                "/api/collections/a/documents", json={"documents": [{"text": "x" * 4096}]}
            )
            over = await client.post(
                "/api/collections/a/documents", json={"documents": [{"text": "x" * 8192}]}
            )

    assert fits.status_code == 200
    assert over.status_code == 413
    assert len(upstream.calls) == 1


async def test_a_large_file_arrives_whole(upstream: Any, alice: httpx.AsyncClient) -> None:
    data = bytes(range(256)) * (11 << 10)
    document = {"uri": "a.bin", "data": base64.b64encode(data).decode(), "metadata": {"tags": ["x", 1, None]}}
    response = await alice.post("/api/collections/docs/documents", json={"documents": [document]}, timeout=60)

    assert response.status_code == 200
    (call,) = upstream.calls
    assert call.request.collection_id == "docs"
    assert call.request.documents[0].data == data
    assert json_format.MessageToDict(call.request.documents[0].metadata) == {"tags": ["x", 1, None]}
    assert call.remaining_seconds == pytest.approx(600, abs=30)


async def test_an_upload_goes_on_as_it_comes(upstream: Any, launch: Any) -> None:
    """However long it is, and no more of it than the service has taken waits in the gateway."""
    half, rest = bytes(range(256)) * 8192, b"end" * (1 << 20)
    arrived = asyncio.Event()
    received = bytearray()

    async def take(requests: Any, _context: Any) -> Any:
        received.extend(upstream.calls[0].request.content.data)
        async for request in requests:
            received.extend(request.content.data)
            if len(received) >= len(half):
                arrived.set()
        return ingestor_service_pb2.UploadDocumentResponse(job=job_pb2.IngestionJob(job_id="j"))

    async def pieces() -> Any:
        yield half
        await arrived.wait()  # the service has it before the client has sent the rest
        yield rest

    upstream.on("UploadDocument", take)
    query = {
        "uri": "a b/ü.txt",
        "title": "A & B",
        "metadataJson": '{"year": 2024}',
        "allowedPrincipals": ["user:alice", "group:staff"],
        "requestId": "r",
    }
    async with launch(max_request_bytes=1024, max_document_request_bytes=1024) as gateway:
        await gateway.becomes(200)
        async with gateway.client() as client:
            response = await client.post(
                "/api/collections/docs/documents:upload",
                params=query,
                content=pieces(),
                headers={"content-type": "text/plain; charset=latin-1"},
            )

    assert response.status_code == 200
    assert response.json()["job"]["jobId"] == "j"
    assert bytes(received) == half + rest
    request = upstream.calls[0].request
    assert (request.collection_id, request.uri, request.title) == ("docs", "a b/ü.txt", "A & B")
    assert (request.metadata_json, request.request_id) == ('{"year": 2024}', "r")
    assert request.allowed_principals == ["user:alice", "group:staff"]
    assert request.content.content_type == "text/plain; charset=latin-1"


@pytest.mark.parametrize("path", ["/api/answer", "/api/chat"])
async def test_a_services_error_keeps_its_details(upstream: Any, alice: httpx.AsyncClient, path: str) -> None:
    info = error_details_pb2.ErrorInfo(reason="INVALID_FIELDS", domain="groundline.dev")
    fields = error_details_pb2.BadRequest()
    fields.field_violations.add(field="query", description="is empty")
    fields.field_violations.add(field="chat_history[0].role", description="is unknown")

    for method in ("Answer", "Chat"):
        upstream.refuses(method, grpc.StatusCode.INVALID_ARGUMENT, "2 fields are wrong", info, fields)
    response = await alice.post(path, json={"query": ""})

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    status = response.json()
    assert (status["code"], status["message"]) == (3, "2 fields are wrong")
    assert reason(response) == "INVALID_FIELDS"
    violations = status["details"][1]["fieldViolations"]
    assert [violation["field"] for violation in violations] == ["query", "chat_history[0].role"]


@pytest.mark.parametrize(("name", "http_status"), HTTP_STATUS.items())
async def test_each_code_has_its_http_status(
    upstream: Any, alice: httpx.AsyncClient, name: str, http_status: int
) -> None:
    code = grpc.StatusCode[name]

    upstream.refuses("Answer", code, "as told")
    response = await alice.post("/api/answer", json={})

    assert response.status_code == http_status
    assert response.json() == {"code": code.value[0], "message": "as told", "details": []}


async def test_names_enums_and_objects_of_a_body(upstream: Any, alice: httpx.AsyncClient) -> None:
    await alice.post(
        "/api/search",
        json={
            "query": "naïve ☃",
            "collectionIds": ["a"],
            "filter": {"year": {"$gte": 2024}, "tags": ["x"]},
            "options": {"retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}, "rerank": {"top_k": 3}},
        },
    )

    (call,) = upstream.calls
    assert call.method == "Search"
    assert call.request.query == "naïve ☃"
    assert list(call.request.collection_ids) == ["a"]
    assert json_format.MessageToDict(call.request.filter) == {"year": {"$gte": 2024}, "tags": ["x"]}
    assert call.request.options.retrieval.mode == options_pb2.RETRIEVAL_MODE_KEYWORD
    assert call.request.options.rerank.top_k == 3
    assert call.remaining_seconds == pytest.approx(120, abs=10)


async def test_a_response_has_all_fields_in_camel_case(upstream: Any, alice: httpx.AsyncClient) -> None:
    completed = chat_pb2.ChatCompleted(finish_reason=chat_pb2.FINISH_REASON_STOP)
    upstream.gives(coordinator_service_pb2.AnswerResponse(thread_id="t", answer="é", completed=completed))
    response = await alice.post("/api/answer", json={"query": "x"})

    body = response.json()
    assert body["threadId"] == "t"
    assert body["answer"] == "é"
    assert body["messageId"] == ""
    assert body["sources"] == []
    assert body["completed"]["finishReason"] == "FINISH_REASON_STOP"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "server" not in response.headers
    assert not [name for name in response.headers if name.startswith("x-envoy-")]


async def test_a_page_beyond_a_connections_buffer_is_whole(upstream: Any, alice: httpx.AsyncClient) -> None:
    documents = [document_pb2.Document(title="x" * 4000) for _ in range(1000)]
    upstream.gives(ingestor_service_pb2.ListDocumentsResponse(documents=documents))
    response = await alice.get("/api/collections/docs/documents")

    assert response.status_code == 200
    assert len(response.json()["documents"]) == 1000


@pytest.mark.parametrize("spelling", [("page_size", "page_token"), ("pageSize", "pageToken")])
async def test_query_parameters_go_by_either_name(
    upstream: Any, alice: httpx.AsyncClient, spelling: tuple[str, str]
) -> None:
    size, token = spelling
    assert (await alice.get(f"/api/threads?{size}=3&{token}=a%2Bb%3D+c")).status_code == 200

    (call,) = upstream.calls
    assert (call.request.page_size, call.request.page_token) == (3, "a+b= c")


@pytest.mark.parametrize(
    ("method", "path", "rpc", "fields"),
    [
        ("GET", "/api/threads/t1", "GetThread", {"threadId": "t1"}),
        ("PATCH", "/api/threads/t1", "UpdateThread", {"threadId": "t1"}),
        ("DELETE", "/api/threads/t1", "DeleteThread", {"threadId": "t1"}),
        ("GET", "/api/threads", "ListThreads", {}),
        ("GET", "/api/models", "ListModels", {}),
        ("GET", "/api/quotas", "GetQuotas", {}),
        ("GET", "/.well-known/jwks.json", "ListSigningKeys", {}),
        ("GET", "/api/collections", "ListCollections", {}),
        ("GET", "/api/collections/c", "GetCollection", {"collectionId": "c"}),
        ("DELETE", "/api/collections/c", "DeleteCollection", {"collectionId": "c"}),
        ("GET", "/api/collections/c/stats", "GetCollectionStats", {"collectionId": "c"}),
        ("GET", "/api/collections/c/documents", "ListDocuments", {"collectionId": "c"}),
        ("GET", "/api/collections/c/documents/d", "GetDocument", {"collectionId": "c", "documentId": "d"}),
        (
            "DELETE",
            "/api/collections/c/documents/d",
            "DeleteDocument",
            {"collectionId": "c", "documentId": "d"},
        ),
        ("GET", "/api/jobs/j", "GetJob", {"jobId": "j"}),
        ("GET", "/api/jobs", "ListJobs", {}),
    ],
)
async def test_addresses_without_a_body(
    upstream: Any, alice: httpx.AsyncClient, method: str, path: str, rpc: str, fields: dict[str, str]
) -> None:
    assert (await alice.request(method, path)).status_code == 200

    (call,) = upstream.calls
    assert call.method == rpc
    assert json_format.MessageToDict(call.request) == fields


@pytest.mark.parametrize(
    ("method", "path", "body", "rpc", "fields"),
    [
        ("POST", "/api/collections", {"collectionId": "c"}, "CreateCollection", {"collectionId": "c"}),
        (
            "PATCH",
            "/api/collections/c",
            {"name": "n", "updateMask": "name"},
            "UpdateCollection",
            {"collectionId": "c", "name": "n", "updateMask": "name"},
        ),
        ("POST", "/api/collections/c:reindex", {}, "ReindexCollection", {"collectionId": "c"}),
        (
            "POST",
            "/api/collections/c/documents:delete",
            {"filter": {"a": 1}},
            "DeleteDocuments",
            {"collectionId": "c", "filter": {"a": 1}},
        ),
        ("POST", "/api/jobs/j:cancel", {}, "CancelJob", {"jobId": "j"}),
        ("POST", "/api/jobs/j:retry", None, "RetryJob", {"jobId": "j"}),
    ],
)
async def test_addresses_with_a_body(
    upstream: Any,
    alice: httpx.AsyncClient,
    method: str,
    path: str,
    body: Any,
    rpc: str,
    fields: dict[str, Any],
) -> None:
    assert (await alice.request(method, path, json=body)).status_code == 200

    (call,) = upstream.calls
    assert call.method == rpc
    assert json_format.MessageToDict(call.request) == fields
