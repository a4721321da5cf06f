"""What is stored as text and jsonb: enums, failures, what was handed in."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from groundline.v1 import document_pb2, error_pb2, passage_pb2
from groundline_runtime.reasons import reason_value

from groundline_ingestor.domain.documents import FileContent, GivenDocument, is_text

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper

__all__ = [
    "enum_text",
    "failure_json",
    "input_json",
    "read_enum",
    "read_failure",
    "read_input",
]


def enum_text(kind: "_EnumTypeWrapper[Any]", value: int) -> str | None:
    """How a value of an enum of the contract is stored, such as "done"; None for the unspecified one."""
    return kind.Name(value).removeprefix(_prefix(kind)).lower() if value else None


def read_enum(kind: "_EnumTypeWrapper[Any]", stored: str | None) -> Any:
    """The value that was stored."""
    return kind.Value(_prefix(kind) + stored.upper()) if stored else 0


def failure_json(failure: document_pb2.IngestionFailure | None) -> dict[str, Any] | None:
    """A failure as it is stored; None for none."""
    if failure is None:
        return None
    stage = enum_text(document_pb2.IngestionState, failure.stage)
    return {"stage": stage, "reason": error_pb2.ErrorReason.Name(failure.reason), "message": failure.message}


def read_failure(stored: Mapping[str, Any] | None) -> document_pb2.IngestionFailure | None:
    if stored is None:
        return None
    return document_pb2.IngestionFailure(
        stage=read_enum(document_pb2.IngestionState, stored["stage"]),
        reason=reason_value(stored["reason"]),
        message=stored["message"],
    )


def input_json(given: GivenDocument) -> dict[str, Any]:
    """A document as handed in, without its content."""
    return {
        "kind": "text" if is_text(given) else "data",
        "uri": given.uri,
        "title": given.title,
        "mimeType": given.mime_type,
        "sourceType": enum_text(passage_pb2.SourceType, given.source_type),
        "metadata": given.metadata,
        "allowedPrincipals": list(given.allowed_principals),
        "contentHash": given.content_hash.hex(),
        "containerUri": given.container_uri,
    }


def read_input(stored: Mapping[str, Any], content: bytes | BinaryIO) -> GivenDocument:
    """The document with its content again, in memory or in a file."""
    is_text = stored["kind"] == "text"
    given: str | bytes | FileContent
    if not isinstance(content, bytes):
        given = FileContent(content, content.seek(0, os.SEEK_END), is_text)
    else:
        given = content.decode() if is_text else content
    return GivenDocument(
        content=given,
        uri=stored["uri"],
        title=stored["title"],
        mime_type=stored["mimeType"],
        source_type=read_enum(passage_pb2.SourceType, stored["sourceType"]),
        metadata=stored["metadata"],
        allowed_principals=tuple(stored["allowedPrincipals"]),
        content_hash=bytes.fromhex(stored.get("contentHash", "")),
        container_uri=stored.get("containerUri", ""),
    )


def _prefix(kind: "_EnumTypeWrapper[Any]") -> str:
    return kind.Name(0).removesuffix("UNSPECIFIED")
