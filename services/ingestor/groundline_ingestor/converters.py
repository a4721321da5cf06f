"""Documents from validated requests, and for responses."""

from typing import Final
from urllib.parse import quote

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import document_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import last_part
from groundline_indexing.inputs import document_input
from groundline_validation import violations_of

# Type that HTTP clients send if they were given none.
_SAYS_NOTHING: Final = ("application/octet-stream", "application/x-www-form-urlencoded")
_MAX_FILE_NAME: Final = 100


def described_upload(request: pb.UploadDocumentRequest) -> GivenDocument:
    """Return the document that the first message of an upload describes, without content. Raises
    InvalidArgumentError, also for invalid metadata, which come as text."""
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
    """Return the metadata sent before the content of a document; over HTTP these are headers."""
    name = quote(last_part(document.uri)[:_MAX_FILE_NAME], safe="")
    return (
        ("content-disposition", f"attachment; filename*=UTF-8''{name}"),
        ("etag", f'"{document.content_hash}"'),
    )


def picture_metadata(
    document: document_pb2.Document, request: pb.GetDocumentPageRequest
) -> tuple[tuple[str, str], ...]:
    """Return the metadata sent before a picture of a page; over HTTP these are headers."""
    return (("etag", f'"{document.content_hash}-{request.page}-{request.width}"'),)
