"""Documents before they are chunked, and ready to be stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from groundline.v1 import document_pb2, error_pb2, passage_pb2
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import TextSegment

from groundline_indexing.texts import PreparedChunk, Series, Vectors

NOTHING_TO_READ: Final = frozenset(
    {
        error_pb2.EMPTY_TEXT,
        error_pb2.ENCRYPTED_DOCUMENT,
        error_pb2.OCR_NOT_AVAILABLE,
        error_pb2.UNSUPPORTED_TYPE,
    }
)
"""Reasons for which a file within a document is skipped, while one that was handed in by itself fails."""


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """A document as its ingestion leaves it, before it has an id.

    Title and type are those of its text; a GivenDocument keeps the given ones, from which the input_hash is
    made and with which a retry begins.
    """

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
    """URI of the document that it was found within; empty for others."""


@dataclass(frozen=True, slots=True)
class HandedIn:
    """A document with a uri, as it was handed in or found within another, such as an attachment of a mail,
    and what is known of it before its text is read."""

    given: GivenDocument
    version: DocumentVersion
    failure: document_pb2.IngestionFailure | None = None
    """Reason why a file within a document is not read; it then has no content."""
    revision: str = ""
    """Revision of the document that is to be stored again, in place of a content; "" for none."""

    @property
    def is_skipped(self) -> bool:
        """Whether it has nothing to read."""
        return self.failure is not None and self.failure.reason in NOTHING_TO_READ


@dataclass(frozen=True, slots=True)
class ReadyDocument:
    """A document ready to be stored; each chunk has a vector."""

    version: DocumentVersion
    chunks: Series[PreparedChunk]
    vectors: Series[Vectors]
    segments: Series[TextSegment]
    token_count: int = 0
