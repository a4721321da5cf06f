"""Documents as they are handed in and stored."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, Literal, Self, cast

from groundline.v1 import document_pb2, error_pb2, passage_pb2
from groundline_runtime.reasons import reason_value

from groundline_ingestor.domain.collections import EVERYONE
from groundline_ingestor.domain.texts import DocumentText
from groundline_ingestor.domain.times import moment

__all__ = [
    "NOTHING_TO_READ",
    "DocumentOrder",
    "DocumentPlace",
    "DocumentVersion",
    "FileContent",
    "GivenDocument",
    "IngestionError",
    "Member",
    "StoredText",
    "TextPart",
    "inert_type",
    "is_document_readable",
    "is_text",
    "restriction",
]


@dataclass(frozen=True)
class FileContent:
    """A content that is too large to be held in memory; text, where it is, in UTF-8. Whoever opened the file
    closes it."""

    file: BinaryIO
    size: int
    is_text: bool = False
    start: int = 0
    """Where it begins in the file, which may hold others beside it."""

    def parts(self, size: int) -> Iterator[bytes]:
        """All of it, so many bytes at a time."""
        position, end = self.start, self.start + self.size
        while position < end:
            self.file.seek(position)
            part = self.file.read(min(size, end - position))
            if not part:
                return
            yield part
            position += len(part)


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
    container_uri: str = ""
    """Of the document that it was found within. What is within it was found there as well."""


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


NOTHING_TO_READ: Final = frozenset(
    {
        error_pb2.EMPTY_TEXT,
        error_pb2.ENCRYPTED_DOCUMENT,
        error_pb2.OCR_NOT_AVAILABLE,
        error_pb2.UNSUPPORTED_TYPE,
    }
)
"""Reasons why a file within a document is skipped, which would fail one that was handed in by itself."""


def restriction(principals: Sequence[str]) -> tuple[str, ...]:
    """Who alone may read; nobody in particular where everyone is named."""
    return () if EVERYONE in principals else tuple(dict.fromkeys(principals))


def is_document_readable(document: document_pb2.Document, principals: Sequence[str]) -> bool:
    """Whether a caller that may read the collection may read this document of it."""
    return not document.allowed_principals or not set(document.allowed_principals).isdisjoint(principals)


type OrderedField = Literal["uri", "title", "mime_type", "size_bytes", "create_time", "update_time"]

type DocumentPlace = tuple[str | int | datetime, str]
"""A document's place in a list: the value that it is ordered by, and its uri."""


@dataclass(frozen=True)
class DocumentOrder:
    """What a list of documents is ordered by; equal ones by uri, in the same direction."""

    field: OrderedField = "uri"
    is_descending: bool = False

    @classmethod
    def of(cls, order_by: str) -> Self:
        """As a request spells it, which was checked."""
        field, _, direction = order_by.partition(" ")
        return cls(cast("OrderedField", field or "uri"), direction == "desc")

    @property
    def name(self) -> str:
        """As `of` reads it."""
        return f"{self.field} desc" if self.is_descending else self.field

    def place_of(self, document: document_pb2.Document) -> DocumentPlace:
        return self._value(document), document.uri

    def _value(self, document: document_pb2.Document) -> str | int | datetime:
        match self.field:
            case "size_bytes":
                return document.size_bytes
            case "create_time":
                return moment(document.create_time)
            case "update_time":
                return moment(document.update_time)
            case field:
                return str(getattr(document, field))

    def read(self, value: str) -> str | int | datetime:
        """The value of a place from its text."""
        match self.field:
            case "size_bytes":
                return int(value)
            case "create_time" | "update_time":
                return datetime.fromisoformat(value).astimezone(UTC)
            case _:
                return value


_INERT_TYPES: Final = frozenset(
    {
        "application/json",
        "application/pdf",
        "application/zip",
        "image/bmp",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/tiff",
        "image/webp",
        "message/rfc822",
        "text/csv",
        "text/markdown",
        "text/plain",
    }
)
_INERT_FAMILIES: Final = (
    "application/vnd.oasis.opendocument.",
    "application/vnd.openxmlformats-officedocument.",
)


def inert_type(mime_type: str) -> str:
    """The MIME type that a document is handed out with: its own where no browser runs what is in it."""
    is_inert = mime_type in _INERT_TYPES or mime_type.startswith(_INERT_FAMILIES)
    return mime_type if is_inert else "application/octet-stream"


@dataclass(frozen=True)
class TextPart:
    """A part of a document's extracted text, and how many characters the whole has."""

    text: str
    character_count: int


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
    container_uri: str = ""
    """Of the document that it was found within."""


@dataclass(frozen=True)
class Member:
    """A file within a document, such as an attachment of a mail. `failure`: why it is not read; it is without
    content then."""

    given: GivenDocument
    version: DocumentVersion
    failure: document_pb2.IngestionFailure | None = None

    @property
    def is_skipped(self) -> bool:
        """Whether there is nothing to be read in it."""
        return self.failure is not None and self.failure.reason in NOTHING_TO_READ


@dataclass(frozen=True)
class StoredText:
    """A document's text as it is kept, for making chunks again."""

    version: DocumentVersion
    version_number: int
    text: DocumentText
