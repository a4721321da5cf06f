"""Documents as they are handed in and stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, Self, cast

from groundline.v1 import document_pb2
from groundline_contracts.times import moment
from groundline_extraction.spooling import Spool
from groundline_extraction.texts import TextSegment
from groundline_indexing.documents import DocumentVersion


def is_document_readable(document: document_pb2.Document, principals: Sequence[str]) -> bool:
    """Tell whether a caller that may read the collection may read this document of it."""
    return not document.allowed_principals or not set(document.allowed_principals).isdisjoint(principals)


type OrderedField = Literal["uri", "title", "mime_type", "size_bytes", "create_time", "update_time"]

type DocumentKey = tuple[str | int | datetime, str]
"""A document's place in a list: the value that it is ordered by, and its uri."""


@dataclass(frozen=True, slots=True)
class DocumentOrder:
    """Order of a list of documents; equal ones by uri, in the same direction."""

    field: OrderedField = "uri"
    is_descending: bool = False

    @classmethod
    def of(cls, order_by: str) -> Self:
        """Parse a request's order, which was validated."""
        field, _, direction = order_by.partition(" ")
        return cls(cast("OrderedField", field or "uri"), direction == "desc")

    @property
    def name(self) -> str:
        """Spelling that `of` parses."""
        return f"{self.field} desc" if self.is_descending else self.field

    def key_of(self, document: document_pb2.Document) -> DocumentKey:
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
        """Parse a document's value in this order from its text."""
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
        "text/x-rst",
    }
)
_INERT_FAMILIES: Final = (
    "application/vnd.oasis.opendocument.",
    "application/vnd.openxmlformats-officedocument.",
)


def inert_type(mime_type: str) -> str:
    """Return the MIME type of a document's download: its own if no browser runs such content."""
    is_inert = mime_type in _INERT_TYPES or mime_type.startswith(_INERT_FAMILIES)
    return mime_type if is_inert else "application/octet-stream"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Part of a document's extracted text, and the number of characters of the whole."""

    text: str
    character_count: int


@dataclass(frozen=True, slots=True)
class StoredText:
    """Stored text of a document, for making chunks again."""

    version: DocumentVersion
    version_number: int
    segments: Spool[TextSegment]
