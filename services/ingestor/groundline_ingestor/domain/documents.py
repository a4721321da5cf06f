"""Documents as they are handed in and stored."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from groundline.v1 import document_pb2, passage_pb2
from groundline_runtime.reasons import reason_value

from groundline_ingestor.domain.texts import DocumentText

__all__ = [
    "DocumentVersion",
    "FileContent",
    "GivenDocument",
    "IngestionError",
    "StoredText",
    "is_document_readable",
    "is_text",
]


@dataclass(frozen=True)
class FileContent:
    """A content that is too large to be held in memory; text, where it is, in UTF-8. Whoever opened the file
    closes it."""

    file: BinaryIO
    size: int
    is_text: bool = False

    def parts(self, size: int) -> Iterator[bytes]:
        """All of it, so many bytes at a time."""
        self.file.seek(0)
        while part := self.file.read(size):
            yield part


@dataclass(frozen=True)
class GivenDocument:
    """A document as handed in. `uri`, `title` and `mime_type` are empty where they were left open.

    An object's content is its properties in JSON.
    """

    content: str | bytes | FileContent
    uri: str = ""
    title: str = ""
    mime_type: str = ""
    source_type: passage_pb2.SourceType.ValueType = passage_pb2.SOURCE_TYPE_FILE
    metadata: Mapping[str, Any] = field(default_factory=dict)
    allowed_principals: tuple[str, ...] = ()
    content_hash: bytes = b""
    """SHA-256 of the content; empty until it is known."""


def is_text(given: GivenDocument) -> bool:
    """Whether it was handed in as text, to be taken as it is."""
    if isinstance(given.content, FileContent):
        return given.content.is_text
    return isinstance(given.content, str)


class IngestionError(Exception):
    """One document cannot be ingested; the others can."""

    def __init__(self, stage: document_pb2.IngestionState.ValueType, reason: str, message: str) -> None:
        """`reason`: the name of an ErrorReason."""
        super().__init__(message)
        self.failure = document_pb2.IngestionFailure(
            stage=stage, reason=reason_value(reason), message=message
        )


def is_document_readable(document: document_pb2.Document, principals: Sequence[str]) -> bool:
    """Whether a caller that may read the collection may read this document of it."""
    return not document.allowed_principals or not set(document.allowed_principals).isdisjoint(principals)


@dataclass(frozen=True)
class DocumentVersion:
    """A document as its ingestion leaves it, before it has an id."""

    uri: str
    source_type: passage_pb2.SourceType.ValueType
    title: str
    mime_type: str
    content_hash: bytes
    input_hash: bytes
    ingestion_hash: bytes
    size_bytes: int
    metadata: Mapping[str, Any]
    allowed_principals: tuple[str, ...]


@dataclass(frozen=True)
class StoredText:
    """A document's text as it is kept, for making chunks again."""

    version: DocumentVersion
    version_number: int
    text: DocumentText
