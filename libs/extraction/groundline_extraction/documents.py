"""Documents as they are handed in, and the errors of those that cannot be read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from groundline.v1 import document_pb2, error_pb2, passage_pb2


@dataclass(frozen=True, slots=True)
class FileContent:
    """A content that is too large for memory; text is in UTF-8. Whoever opened the file closes it."""

    file: BinaryIO
    size: int
    is_text: bool = False
    start: int = 0
    """Offset in the file at which it begins; the file may hold other contents."""

    def parts(self, size: int) -> Iterator[bytes]:
        """Yield the whole content, `size` bytes at a time."""
        position, end = self.start, self.start + self.size
        while position < end:
            self.file.seek(position)
            part = self.file.read(min(size, end - position))
            if not part:
                return
            yield part
            position += len(part)


@dataclass(frozen=True, slots=True)
class GivenDocument:
    """A document as handed in. `uri`, `title` and `mime_type` are "" if they were not given.

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
    """Uri of the document that it was found within, or ""."""


def is_text(given: GivenDocument) -> bool:
    """Return whether the document was handed in as text, to be taken as it is."""
    if isinstance(given.content, FileContent):
        return given.content.is_text
    return isinstance(given.content, str)


class IngestionError(Exception):
    """One document cannot be ingested; the others can."""

    def __init__(self, stage: document_pb2.IngestionState.ValueType, reason: str, message: str) -> None:
        """Take the stage, the name of an ErrorReason, and a message."""
        super().__init__(message)
        self.failure = document_pb2.IngestionFailure(
            stage=stage, reason=error_pb2.ErrorReason.Value(reason), message=message
        )
