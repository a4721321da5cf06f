"""Documents as the service works on them, out of requests that were checked, and as they are handed out."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import document_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_validation import limits_of, violations_of

from groundline_ingestor.domain.documents import GivenDocument, restriction
from groundline_ingestor.domain.metadata import plain_values
from groundline_ingestor.domain.texts import last_part

__all__ = ["described_upload", "document_input", "download_metadata"]

# What HTTP clients send that were not told a type.
_SAYS_NOTHING: Final = ("application/octet-stream", "application/x-www-form-urlencoded")
_MAX_FILE_NAME: Final = 100
_MAX_OWN_URI: Final = limits_of(document_pb2.DocumentInput, "uri").max_bytes // 4
"""Characters of a record's own name, which may have 4 bytes each."""


def document_input(given: document_pb2.DocumentInput) -> GivenDocument:
    """A document as handed in; an object becomes the JSON of its properties."""
    content: str | bytes = given.data if given.WhichOneof("content") == "data" else given.text
    uri, source_type = given.uri, passage_pb2.SOURCE_TYPE_FILE
    metadata = plain_values(given.metadata)
    if given.HasField("object"):
        properties = plain_values(given.object.properties)
        # Keys in one order, since messages keep none: the same record has the same content.
        content = json.dumps(properties, ensure_ascii=False, sort_keys=True)
        source_type = passage_pb2.SOURCE_TYPE_OBJECT
        uri = uri or _own_uri(properties)
        metadata = _object_metadata(given.object.schema, properties) | metadata
    return GivenDocument(
        content=content,
        uri=uri,
        title=given.title,
        mime_type=given.mime_type,
        source_type=source_type,
        metadata=metadata,
        allowed_principals=restriction(given.allowed_principals),
    )


def described_upload(request: pb.UploadDocumentRequest) -> GivenDocument:
    """The document that the first message of an upload describes, without content. Raises
    InvalidArgumentError, also for what is wrong with the metadata, which come as text."""
    violations = violations_of(request)
    metadata = Struct()
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
    if not violations:
        violations.extend(violations_of(given))
    violations.raise_if_any()
    return document_input(given)


def download_metadata(document: document_pb2.Document) -> tuple[tuple[str, str], ...]:
    """What goes before the content of a document; over HTTP these are headers."""
    name = quote(last_part(document.uri)[:_MAX_FILE_NAME], safe="")
    return (
        ("content-disposition", f"attachment; filename*=UTF-8''{name}"),
        ("etag", f'"{document.content_hash}"'),
    )


def _own_uri(properties: Mapping[str, Any]) -> str:
    """What a record calls itself, where it was handed in without a uri."""
    for name in ("uri", "uuid"):
        value = properties.get(name)
        if isinstance(value, str) and 0 < len(value) <= _MAX_OWN_URI:
            return value
    return ""


def _object_metadata(schema: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a record beside its text; metadata that was handed in goes before it."""
    shown = {"schema": schema, "uuid": properties.get("uuid")}
    return {name: value for name, value in shown.items() if value and isinstance(value, str)}
