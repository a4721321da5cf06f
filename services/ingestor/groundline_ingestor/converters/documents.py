"""Requests about documents, and documents as messages."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format, struct_pb2
from groundline.v1 import document_pb2, ingestor_service_pb2, passage_pb2
from groundline_filters import Filter, FilterError, parse, plain
from groundline_filters.tree import All
from groundline_runtime.errors import UnimplementedError, Violations

from groundline_ingestor.converters.common import (
    check_collection_id,
    check_principals,
    check_request_id,
    check_text,
    checked_uuid,
    page_size,
    page_token,
    read_page_token,
    struct_of,
    timestamp,
    values_of,
)
from groundline_ingestor.crawling import CrawlRequest, link_target
from groundline_ingestor.domain import (
    Document,
    DocumentInput,
    IngestionFailure,
    IngestionState,
    SourceType,
)
from groundline_ingestor.service.pages import Page

__all__ = [
    "Upload",
    "crawl_request",
    "deletion_request",
    "document_key",
    "document_message",
    "failure_message",
    "ingestion_request",
    "list_request",
    "list_response",
    "state_value",
    "upload_request",
]

MAX_URI_CHARACTERS = 2000
# In UTF-8; the key of the index on it stays below PostgreSQL's limit of 2704.
MAX_URI_BYTES = 2500
MAX_TITLE_CHARACTERS = 500
MAX_MIME_TYPE_CHARACTERS = 200
MAX_METADATA_BYTES = 64 * 1024
MAX_SCHEMA_CHARACTERS = 200
MAX_CRAWL_PAGES = 10_000
MAX_CRAWL_DEPTH = 20
MAX_CRAWL_DELAY_SECONDS = 60
MAX_CRAWL_PATTERNS = 100
MAX_CRAWL_PATTERN_CHARACTERS = 200

_LIST = "documents"
# What HTTP clients send that were not told a type.
_SAYS_NOTHING = ("application/octet-stream", "application/x-www-form-urlencoded")
_DEFAULT_PAGE_SIZE = 100


def ingestion_request(
    request: ingestor_service_pb2.IngestDocumentsRequest, max_documents: int
) -> tuple[str, list[DocumentInput], str]:
    """Collection id, documents, request_id, of a request without a crawl. Raises InvalidArgumentError."""
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    check_request_id(request.request_id, violations)
    if not 1 <= len(request.documents) <= max_documents:
        violations.add("documents", f"must be from 1 to {max_documents}")
    inputs = [
        _input(given, f"documents[{index}].", violations)
        for index, given in enumerate(request.documents[:max_documents])
    ]
    violations.raise_if_any()
    return request.collection_id, inputs, request.request_id


def crawl_request(
    request: ingestor_service_pb2.IngestDocumentsRequest,
) -> tuple[str, CrawlRequest, str]:
    """Collection id, what to crawl, request_id. Raises InvalidArgumentError, else UnimplementedError."""
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    check_request_id(request.request_id, violations)
    if request.documents:
        violations.add("crawl", "excludes documents")
    crawl = _crawl(request.crawl, violations)
    violations.raise_if_any()
    if request.dry_run:
        raise _not_available("dry_run")  # what a site holds is known when it was crawled
    return request.collection_id, crawl, request.request_id


@dataclass(frozen=True)
class Upload:
    """A document that comes as a stream; `described` has no content yet."""

    collection_id: str
    described: DocumentInput
    request_id: str


def upload_request(request: ingestor_service_pb2.UploadDocumentRequest) -> Upload:
    """What the first message of an upload says. Raises InvalidArgumentError."""
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    check_request_id(request.request_id, violations)
    metadata = struct_pb2.Struct()
    try:
        json_format.Parse(request.metadata_json or "{}", metadata, max_recursion_depth=50)
    except json_format.ParseError:
        violations.add("metadata_json", "must be a JSON object")
    mime_type = request.content.content_type
    given = document_pb2.DocumentInput(
        uri=request.uri,
        title=request.title,
        mime_type="" if mime_type.startswith(_SAYS_NOTHING) else mime_type,
        metadata=metadata,
        allowed_principals=request.allowed_principals,
        data=b"",
    )
    described = _input(given, "", violations)
    violations.raise_if_any()
    return Upload(request.collection_id, described, request.request_id)


def document_key(
    request: ingestor_service_pb2.GetDocumentRequest | ingestor_service_pb2.DeleteDocumentRequest,
) -> tuple[str, str]:
    """Collection id and document id."""
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    document_id = checked_uuid(request.document_id, "document_id", violations)
    violations.raise_if_any()
    return request.collection_id, document_id


def deletion_request(
    request: ingestor_service_pb2.DeleteDocumentsRequest,
) -> tuple[str, Filter, str, bool]:
    """Collection id, what to delete, request_id, and whether only to count."""
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    check_request_id(request.request_id, violations)
    try:
        selection = parse(plain(request.filter))
    except FilterError as error:
        for problem in error.problems:
            violations.add(problem.path, problem.description)
        selection = All(())
    violations.raise_if_any()
    return request.collection_id, selection, request.request_id, request.dry_run


def list_request(request: ingestor_service_pb2.ListDocumentsRequest) -> tuple[str, str, int]:
    """Collection id, the uri that the page begins after, and the page's size."""
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    size = page_size(request.page_size, _DEFAULT_PAGE_SIZE, violations)
    key = read_page_token(request.page_token, _LIST, (str,), violations)
    violations.raise_if_any()
    return request.collection_id, key[0] if key else "", size


def list_response(page: Page[Document]) -> ingestor_service_pb2.ListDocumentsResponse:
    return ingestor_service_pb2.ListDocumentsResponse(
        documents=map(document_message, page.entries),
        next_page_token=page_token(_LIST, page.entries[-1].uri) if page.more else "",
    )


def document_message(document: Document) -> document_pb2.Document:
    return document_pb2.Document(
        document_id=document.document_id,
        collection_id=document.collection_id,
        source_type=passage_pb2.SourceType.Value(f"SOURCE_TYPE_{document.source_type.upper()}"),
        uri=document.uri,
        title=document.title,
        mime_type=document.mime_type,
        content_hash=document.content_hash.hex(),
        metadata=struct_of(document.metadata),
        allowed_principals=document.allowed_principals,
        state=state_value(document.state),
        chunk_count=document.chunk_count,
        size_bytes=document.size_bytes,
        failure=failure_message(document.failure),
        create_time=timestamp(document.create_time),
        update_time=timestamp(document.update_time),
    )


def failure_message(failure: IngestionFailure | None) -> document_pb2.IngestionFailure | None:
    if failure is None:
        return None
    return document_pb2.IngestionFailure(
        stage=state_value(failure.stage), reason=failure.reason, message=failure.message
    )


def state_value(state: IngestionState) -> document_pb2.IngestionState.ValueType:
    return document_pb2.IngestionState.Value(f"INGESTION_STATE_{state.upper()}")


def _input(given: document_pb2.DocumentInput, path: str, violations: Violations) -> DocumentInput:
    """A document; its fields are named behind `path`."""
    check_text(given.uri, f"{path}uri", violations, most=MAX_URI_CHARACTERS)
    if len(given.uri.encode()) > MAX_URI_BYTES:
        violations.add(f"{path}uri", f"must be at most {MAX_URI_BYTES} bytes of UTF-8")
    check_text(given.title, f"{path}title", violations, most=MAX_TITLE_CHARACTERS)
    check_text(given.mime_type, f"{path}mime_type", violations, most=MAX_MIME_TYPE_CHARACTERS)
    check_principals(given.allowed_principals, f"{path}allowed_principals", violations)
    metadata = values_of(given.metadata, f"{path}metadata", violations)
    if len(json.dumps(metadata, ensure_ascii=False).encode()) > MAX_METADATA_BYTES:
        violations.add(f"{path}metadata", f"must be at most {MAX_METADATA_BYTES} bytes as JSON")
    content: str | bytes = ""
    uri, source_type = given.uri, SourceType.FILE
    match given.WhichOneof("content"):
        case "text":
            content = given.text
        case "data":
            content = given.data
        case "object":
            properties = values_of(given.object.properties, f"{path}object.properties", violations)
            check_text(given.object.schema, f"{path}object.schema", violations, most=MAX_SCHEMA_CHARACTERS)
            # Keys in one order, since messages keep none: the same record has the same content.
            content = json.dumps(properties, ensure_ascii=False, sort_keys=True)
            source_type = SourceType.OBJECT
            uri = uri or _own_uri(properties)
            metadata = _object_metadata(given.object.schema, properties) | metadata
        case None:
            violations.add(path.removesuffix("."), "needs one of text, data and object")
    return DocumentInput(
        content=content,
        uri=uri,
        title=given.title,
        mime_type=given.mime_type,
        source_type=source_type,
        metadata=metadata,
        allowed_principals=tuple(dict.fromkeys(given.allowed_principals)),
    )


def _own_uri(properties: Mapping[str, Any]) -> str:
    """What a record calls itself, where it was handed in without a uri."""
    for name in ("uri", "uuid"):
        value = properties.get(name)
        if isinstance(value, str) and 0 < len(value) <= MAX_URI_CHARACTERS // 4:
            return value
    return ""


def _object_metadata(schema: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a record beside its text; metadata that was handed in goes before it."""
    shown = {"schema": schema, "uuid": properties.get("uuid")}
    return {name: value for name, value in shown.items() if value and isinstance(value, str)}


def _crawl(crawl: ingestor_service_pb2.WebCrawl, violations: Violations) -> CrawlRequest:
    start_url = link_target(crawl.start_url, "")
    if start_url is None or "\x00" in crawl.start_url:
        violations.add("crawl.start_url", "must be an http or https URL without credentials")
    if not 0 <= crawl.max_pages <= MAX_CRAWL_PAGES:
        violations.add("crawl.max_pages", f"must be from 1 to {MAX_CRAWL_PAGES}, or 0 for 100")
    if not 0 <= crawl.max_depth <= MAX_CRAWL_DEPTH:
        violations.add("crawl.max_depth", f"must be from 0 to {MAX_CRAWL_DEPTH}")
    delay = crawl.delay_seconds
    if not (math.isfinite(delay) and 0 <= delay <= MAX_CRAWL_DELAY_SECONDS):
        violations.add("crawl.delay_seconds", f"must be from 0 to {MAX_CRAWL_DELAY_SECONDS}")
    for field in ("include_paths", "exclude_paths"):
        patterns = getattr(crawl, field)
        if len(patterns) > MAX_CRAWL_PATTERNS:
            violations.add(f"crawl.{field}", f"must hold at most {MAX_CRAWL_PATTERNS} patterns")
            continue
        for index, pattern in enumerate(patterns):
            where = f"crawl.{field}[{index}]"
            check_text(pattern, where, violations, most=MAX_CRAWL_PATTERN_CHARACTERS)
            if not pattern.startswith(("/", "*")):
                violations.add(where, 'must begin with "/" or "*"')
    return CrawlRequest(
        start_url=start_url or "",
        max_pages=crawl.max_pages or CrawlRequest.max_pages,
        max_depth=crawl.max_depth if crawl.HasField("max_depth") else CrawlRequest.max_depth,
        include_paths=tuple(crawl.include_paths),
        exclude_paths=tuple(crawl.exclude_paths),
        delay_seconds=delay if crawl.HasField("delay_seconds") else None,
    )


def _not_available(field: str) -> UnimplementedError:
    return UnimplementedError(
        "OPTION_NOT_AVAILABLE", f"{field} is not available in this release", metadata={"field": field}
    )
