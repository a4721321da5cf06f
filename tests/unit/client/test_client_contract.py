"""The client says what the contract says: every method, every field of a request, every model."""

import asyncio
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, Final

import httpx
import pytest
from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.protobuf import json_format, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from groundline.v1 import (
    administration_service_pb2,
    coordinator_service_pb2,
    ingestor_service_pb2,
    retriever_service_pb2,
)
from groundline_client import AsyncClient, Client, ProtocolError, from_json, models, to_json
from groundline_tests.shown import ROOT

SERVICES = [
    *coordinator_service_pb2.DESCRIPTOR.services_by_name.values(),
    *retriever_service_pb2.DESCRIPTOR.services_by_name.values(),
    *ingestor_service_pb2.DESCRIPTOR.services_by_name.values(),
    *administration_service_pb2.DESCRIPTOR.services_by_name.values(),
]
METHODS = {
    method.name: method
    for service in SERVICES
    for method in service.methods
    if method.GetOptions().HasExtension(annotations_pb2.http)
}
MESSAGES = [name for name, model in vars(models).items() if is_dataclass(model)]

UUID: Final = "123e4567-e89b-12d3-a456-426614174000"
PNG: Final = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x00IEND\xaeB`\x82"
POSITION = "0000000003a1b2c8"
ASKED: dict[str, Any] = {
    "thread_id": UUID,
    "chat_history": [models.ChatMessage(role=models.Role.USER, content="before")],
    "collection_ids": ["docs", "more"],
    "filter": {"year": 2024},
    "options": models.ChatOptions(effort=models.Effort.QUICK),
    "request_id": "r-1",
    "store": False,
    "additional_context": "page 7",
    "min_position": POSITION,
    "as_of": datetime(2026, 3, 1, tzinfo=UTC),
}
SEARCH = models.SearchOptions(rerank=models.RerankOptions(top_k=3, type_priorities={"file": 0.5}))
SOURCE_CHANGES = {
    "name": "a",
    "directory": {"path": "/srv/a"},
    "uriPrefix": "a/",
    "includePaths": ["**.md"],
    "excludePaths": ["b.md"],
    "metadata": {"year": 2024},
    "allowedPrincipals": ["user:a"],
    "intervalSeconds": 60,
    "isPaused": True,
}
SETTINGS = models.CollectionSettings(lexical=models.LexicalSettings(language="german"))
DOCUMENT = models.DocumentInput(uri="a.bin", data=b"\x00\xff", metadata={"year": 2024})

CALLS: dict[str, Callable[[Any], Any]] = {
    "Chat": lambda c: c.chat("why?", **ASKED),
    "Answer": lambda c: c.answer("why?", **ASKED),
    "Verify": lambda c: c.verify(
        "It is so.",
        collection_ids=["docs"],
        filter={"year": 2024},
        options=SEARCH,
        min_position=POSITION,
        as_of=datetime(2026, 3, 1, tzinfo=UTC),
    ),
    "Search": lambda c: c.search(
        "why?",
        collection_ids=["docs"],
        filter={"year": 2024},
        options=SEARCH,
        min_position=POSITION,
        additional_queries=["how?"],
        weak_similarity=0.5,
        include_vectors=True,
        include_highlights=True,
        facets=["team"],
        max_facet_values=5,
        as_of=datetime(2026, 3, 1, tzinfo=UTC),
    ),
    "QueryTables": lambda c: c.query_tables(
        "How heavy is it?",
        plan=models.TablePlan(
            document_id=UUID,
            table_index=1,
            conditions=[
                models.TableCondition(column=1, operator=models.TableOperator.LESS, values=["300 EUR"])
            ],
            columns=[1],
            function=models.TableFunction.SUM,
            function_column=1,
            group_by=2,
            order_by=2,
            is_descending=True,
            limit=10,
        ),
        collection_ids=["docs"],
        document_ids=[UUID],
        document_id=UUID,
        planning=models.TablePlanning.RULES,
    ),
    "GetThread": lambda c: c.list_messages(UUID),
    "ListThreads": lambda c: c.list_threads(),
    "ListModels": lambda c: c.list_models(),
    "GetQuotas": lambda c: c.get_quotas(),
    "UpdateThread": lambda c: c.update_thread(UUID, title="Keys", is_pinned=True),
    "DeleteThread": lambda c: c.delete_thread(UUID),
    "RateAnswer": lambda c: c.rate_answer(
        UUID, UUID, models.Rating.BAD, problem=models.Problem.OUTDATED, comment="That was 2024."
    ),
    "GetEvidence": lambda c: c.get_evidence(UUID, UUID),
    "ListSigningKeys": lambda c: c.list_signing_keys(),
    "CreateCollection": lambda c: c.create_collection("docs", name="Docs", settings=SETTINGS, dry_run=True),
    "GetCollection": lambda c: c.get_collection("docs"),
    "ListCollections": lambda c: c.list_collections(),
    "UpdateCollection": lambda c: c.update_collection(
        "docs",
        name="Docs",
        settings=SETTINGS,
        update_mask=["settings.chunking.chunkSize", "name"],
        etag="e",
        dry_run=True,
    ),
    "DeleteCollection": lambda c: c.delete_collection("docs"),
    "ReindexCollection": lambda c: c.reindex_collection(
        "docs", settings=SETTINGS, hold=True, keep_previous=True
    ),
    "SwapIndex": lambda c: c.swap_index(UUID),
    "RevertIndex": lambda c: c.revert_index("docs"),
    "ReclaimIndex": lambda c: c.reclaim_index("docs"),
    "GetCollectionStats": lambda c: c.get_collection_stats("docs"),
    "IngestDocuments": lambda c: c.ingest_documents(
        "docs", [DOCUMENT, {"text": "b"}], crawl=models.WebCrawl(start_url="https://a.example"), dry_run=True
    ),
    "UploadDocument": lambda c: c.upload_document(
        "docs",
        BytesIO(b"content"),
        uri="a.txt",
        title="A",
        metadata={"year": 2024},
        allowed_principals=["user:a", "user:b"],
        mime_type="text/plain",
    ),
    "GetDocument": lambda c: c.get_document("docs", UUID),
    "ListDocuments": lambda c: c.list_documents("docs", filter={"$uri": "a"}, order_by="title desc"),
    "GetDocumentText": lambda c: c.get_document_text(
        "docs", UUID, start_offset=5, max_characters=7, revision="ab" * 16
    ),
    "ListRevisions": lambda c: c.list_revisions("docs", UUID),
    "GetRevision": lambda c: c.get_revision("docs", UUID, "ab" * 16),
    "RestoreRevision": lambda c: c.restore_revision("docs", UUID, "ab" * 16),
    "CompareRevisions": lambda c: c.compare_revisions(
        "docs", UUID, "ab" * 16, other_revision="cd" * 16, start_offset=5, end_offset=12
    ),
    "DownloadDocument": lambda c: c.download_document("docs", UUID, revision="ab" * 16),
    "GetDocumentPage": lambda c: c.get_document_page("docs", UUID, 2, width=600, revision="ab" * 16),
    "ListChunks": lambda c: c.list_chunks("docs", UUID),
    "DeleteDocument": lambda c: c.delete_document("docs", UUID),
    "DeleteDocuments": lambda c: c.delete_documents("docs", {"year": 2024}, dry_run=True),
    "SetLegalHold": lambda c: c.set_legal_hold("docs", [UUID], reason="case 7", thread_ids=[UUID]),
    "ListApiKeys": lambda c: c.list_api_keys(),
    "CreateApiKey": lambda c: c.create_api_key(
        "ci", principals=["user:ci"], scopes=["search"], expire_time=datetime(2030, 1, 1, tzinfo=UTC)
    ),
    "RevokeApiKey": lambda c: c.revoke_api_key("1a2b3c4d"),
    "ListAuditEntries": lambda c: c.list_audit_entries(
        since=datetime(2030, 1, 1, tzinfo=UTC),
        until=datetime(2031, 1, 1, tzinfo=UTC),
        client="ci",
        action="DeleteDocument",
        resource="/api/collections/hr",
    ),
    "GetUsage": lambda c: c.get_usage(days=7, caller="user:ann"),
    "ListLegalHolds": lambda c: c.list_legal_holds("docs"),
    "ListErasures": lambda c: c.list_erasures("docs"),
    "GetErasureCertificate": lambda c: c.get_erasure_certificate(UUID),
    "CreateSource": lambda c: c.create_source(
        "docs", {"name": "a", "directory": {"path": "/srv/a"}}, dry_run=True
    ),
    "GetSource": lambda c: c.get_source("docs", UUID),
    "ListSources": lambda c: c.list_sources("docs"),
    "UpdateSource": lambda c: c.update_source(
        "docs", UUID, SOURCE_CHANGES, update_mask=["name", "isPaused"], etag="e", dry_run=True
    ),
    "RunSource": lambda c: c.run_source("docs", UUID, full=True, dry_run=True),
    "DeleteSource": lambda c: c.delete_source("docs", UUID, delete_documents=True),
    "GetJob": lambda c: c.list_job_items(UUID),
    "ListJobs": lambda c: c.list_jobs(collection_id="docs"),
    "WatchJob": lambda c: c.watch_job(UUID),
    "CancelJob": lambda c: c.cancel_job(UUID),
    "RetryJob": lambda c: c.retry_job(UUID),
    "RevertJob": lambda c: c.revert_job(UUID, dry_run=True, overwrite=True),
}


def answer(name: str) -> httpx.Response:
    """Return one successful answer of a method, with all fields set."""
    method = METHODS[name]
    if method.output_type.full_name.endswith("DownloadDocumentResponse"):
        etag = f'"{hashlib.sha256(b"content").hexdigest()}"'
        return httpx.Response(200, content=b"content", headers={"etag": etag})
    if method.output_type.name in ("GetEvidenceResponse", "GetErasureCertificateResponse"):
        return httpx.Response(200, content=b"{}")
    if method.output_type.full_name.endswith("GetDocumentPageResponse"):
        return httpx.Response(200, content=PNG)
    response = sample(method.output_type)
    if method.output_type.full_name.endswith("ChatResponse"):
        response = coordinator_service_pb2.ChatResponse()
        response.completed.model = "m"
    if method.output_type.full_name.endswith("VerifyResponse"):
        response = coordinator_service_pb2.VerifyResponse()
        response.completed.model = "m"
    fields = json_format.MessageToDict(response, always_print_fields_with_no_presence=True)
    fields.pop("nextPageToken", None)
    if isinstance(fields.get("job"), dict):
        fields["job"]["state"] = "JOB_STATE_DONE"
    if method.server_streaming:
        body = f"data: {json.dumps(fields)}\n\n".encode()
        return httpx.Response(200, content=body, headers={"content-type": "text/event-stream"})
    return httpx.Response(200, json=fields)


def sample(descriptor: Descriptor) -> Message:
    """Return a message with every field set."""
    message = message_factory.GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if field.containing_oneof and field.containing_oneof.fields[0] is not field:
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)["file"] = 0.5
        elif field.is_repeated:
            if field.message_type:
                getattr(message, field.name).append(sample(field.message_type))
            else:
                getattr(message, field.name).extend([value(field)] * 2)
        elif field.message_type:
            getattr(message, field.name).CopyFrom(known(field.message_type) or sample(field.message_type))
        else:
            setattr(message, field.name, value(field))
    return message


def known(descriptor: Descriptor) -> Message | None:
    if descriptor.full_name == "google.protobuf.Struct":
        struct = struct_pb2.Struct()
        struct.update({"year": 2024, "tags": ["a", None, True], "owner": {"team": "red"}})
        return struct
    if descriptor.full_name == "google.protobuf.Value":
        return struct_pb2.Value(string_value="red")
    if descriptor.full_name == "google.protobuf.Timestamp":
        return timestamp_pb2.Timestamp(seconds=1_700_000_000, nanos=120_456_000)
    return None


def value(field: FieldDescriptor) -> Any:
    if field.enum_type:
        return field.enum_type.values[-1].number
    return {
        FieldDescriptor.CPPTYPE_BOOL: True,
        FieldDescriptor.CPPTYPE_STRING: b"\x00\xff" if field.type == FieldDescriptor.TYPE_BYTES else "text",
        FieldDescriptor.CPPTYPE_INT32: 7,
    }.get(field.cpp_type, 0.5)


_QUERY_VALUES = {"true": True, "false": False}


def sent_fields(name: str, request: httpx.Request) -> dict[str, Any]:
    """Return the request in JSON, put together from path, query and body."""
    rule = METHODS[name].GetOptions().Extensions[annotations_pb2.http]
    template = getattr(rule, rule.WhichOneof("pattern"))
    assert request.method == rule.WhichOneof("pattern").upper()
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/:]+)", re.escape(template))
    found = re.fullmatch(pattern, request.url.path)
    assert found, f"{request.url.path} is not {template}"
    fields: dict[str, Any] = dict(found.groupdict())
    for key, text in request.url.params.multi_items():
        repeated = key == "allowedPrincipals"
        fields[key] = [*fields.get(key, []), text] if repeated else _QUERY_VALUES.get(text, text)
    if rule.body == "*":
        fields |= json.loads(request.content)
    return fields


def test_every_method_of_the_gateway_is_a_method_of_the_client() -> None:
    assert set(CALLS) == set(METHODS)


def public(client: type) -> dict[str, inspect.Signature]:
    return {
        name.removeprefix("a") if name == "aclose" else name: inspect.signature(member)
        for name, member in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    blocking, waiting = public(Client), public(AsyncClient)
    assert blocking.keys() == waiting.keys()
    for name, signature in blocking.items():
        assert list(signature.parameters) == list(waiting[name].parameters), name


def test_the_readme_names_every_method() -> None:
    readme = (ROOT / "clients/python/README.md").read_text()
    assert [name for name in public(Client) if name != "close" and f"`{name}`" not in readme] == []


@pytest.mark.parametrize("name", CALLS)
def test_every_field_of_a_request_is_sent_as_the_contract_has_it(name: str) -> None:
    requests: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        request.read()
        requests.append(request)
        return answer(name)

    with Client("http://gateway", "key", transport=httpx.MockTransport(handle)) as client:
        result = CALLS[name](client)
        if isinstance(result, Iterator):
            assert list(result)
    message: Any = message_factory.GetMessageClass(METHODS[name].input_type)()
    json_format.ParseDict(sent_fields(name, requests[0]), message)
    set_fields = {field.name for field, _ in message.ListFields()}
    expected = {field.name for field in METHODS[name].input_type.fields} - {"page_token", "content"}
    for oneof in METHODS[name].input_type.oneofs:  # one of its fields is enough
        expected -= {field.name for field in oneof.fields if field.name != message.WhichOneof(oneof.name)}
    assert set_fields == expected
    if name == "UploadDocument":
        assert requests[0].content == b"content"
        assert requests[0].headers["content-type"] == "text/plain"
    if name == "IngestDocuments":
        assert message.documents[0].data == b"\x00\xff"
        assert message.documents[1].text == "b"


@pytest.mark.parametrize("name", MESSAGES)
def test_a_model_holds_every_field_of_its_message(name: str) -> None:
    descriptor = coordinator_service_pb2.DESCRIPTOR.pool.FindMessageTypeByName(f"groundline.v1.{name}")
    in_json = json_format.MessageToDict(sample(descriptor), always_print_fields_with_no_presence=True)
    model = from_json(getattr(models, name), in_json)
    assert to_json(model) == in_json
    assert from_json(getattr(models, name), to_json(model, omit_defaults=True)) == model


def test_what_is_not_set_is_not_written() -> None:
    empty = models.RerankOptions()
    assert to_json(empty, omit_defaults=True) == {}
    assert to_json(models.RerankOptions(top_k=0), omit_defaults=True) == {"topK": 0}


def test_what_a_later_release_adds_is_no_error_and_names_stay_as_they_came() -> None:
    job = from_json(models.IngestionJob, {"jobId": "j", "state": "JOB_STATE_PAUSED", "owner": {"a": 1}})
    assert (job.job_id, job.state) == ("j", "JOB_STATE_PAUSED")
    assert job.state not in list(models.JobState)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"jobId": 5}, "jobId"),
        ({"itemCount": "many"}, "itemCount"),
        ({"chunks": []}, "chunks"),
        ({"chunks": {"stored": {}}}, "chunks: stored"),
        ({"createTime": "yesterday"}, "createTime"),
    ],
)
def test_a_member_of_the_wrong_type_is_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        from_json(models.IngestionJob, wrong)


def test_a_download_that_breaks_off_is_no_whole_document() -> None:
    broken = httpx.Response(200, content=b"cont", headers={"etag": '"ed7002b439e9ac845f22357d822bac14"'})
    with (
        Client("http://gateway", "key", transport=httpx.MockTransport(lambda _: broken)) as client,
        pytest.raises(ProtocolError, match="broke off"),
    ):
        list(client.download_document("docs", UUID))


def test_a_download_asks_for_what_the_gateway_does_not_compress() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        is_plain = request.headers["accept-encoding"] == "identity"
        tag = f'"{hashlib.sha256(b"whole").hexdigest()}"'
        return httpx.Response(200, content=b"whole", headers={"etag": tag} if is_plain else {})

    with Client("http://gateway", "key", transport=httpx.MockTransport(answer)) as client:
        assert b"".join(client.download_document("docs", UUID)) == b"whole"


BROKEN_OFF: dict[str, tuple[bytes, Callable[[Client], object]]] = {
    "evidence": (b'{"answers":[', lambda client: client.get_evidence(UUID)),
    "a picture": (PNG[:-1], lambda client: client.get_document_page("docs", UUID, 1)),
}


@pytest.mark.parametrize(("content", "call"), BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_what_breaks_off_is_none(content: bytes, call: Callable[[Client], object]) -> None:
    broken = httpx.MockTransport(lambda _: httpx.Response(200, content=content))
    with (
        Client("http://gateway", "key", transport=broken) as client,
        pytest.raises(ProtocolError, match="broke off"),
    ):
        call(client)


def uploaded(content: Any) -> list[httpx.Request]:
    """Upload the content with both clients; return the requests that came."""
    requests: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return answer("UploadDocument")

    async def with_async() -> None:
        async def handle_async(request: httpx.Request) -> httpx.Response:
            await request.aread()
            return handle(request)

        async with AsyncClient(
            "http://gateway", "key", transport=httpx.MockTransport(handle_async)
        ) as client:
            await client.upload_document("docs", content, uri="a.txt")

    with Client("http://gateway", "key", transport=httpx.MockTransport(handle)) as client:
        client.upload_document("docs", content, uri="a.txt")
    asyncio.run(with_async())
    return requests


def test_a_file_that_does_not_exist_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.txt")
    transport = httpx.MockTransport(lambda _: pytest.fail("a request was sent"))
    with (
        Client("http://gateway", "key", transport=transport) as client,
        pytest.raises(FileNotFoundError, match=r"missing\.txt"),
    ):
        client.upload_document("docs", missing, uri="a.txt")


@pytest.mark.parametrize("kind", [str, Path, PurePath])
def test_a_path_of_any_kind_is_uploaded(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"content")
    assert [request.content for request in uploaded(kind(file))] == [b"content"] * 2
