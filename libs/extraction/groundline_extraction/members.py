"""Files found within a document, kept until it is stored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from groundline.v1 import document_pb2

from groundline_extraction.documents import FileContent
from groundline_extraction.spooling import open_spool_file


@dataclass(frozen=True, slots=True)
class FoundMember:
    """A file within a document. `path` names it, and `container` the inner file that holds it, "" for the
    document itself. `failure`: why it is not read; it then has no content."""

    path: str
    container: str
    mime_type: str
    content: bytes | FileContent
    failure: document_pb2.IngestionFailure | None = None


class MemberSpool:
    """Files within a document, in the order in which they are found, all in one file on disk. Close it when
    done."""

    def __init__(self, directory: Path | None) -> None:
        """Take the directory of the file on disk."""
        self._directory = directory
        self._file: BinaryIO | None = None
        self._end = 0
        self._found: dict[str, FoundMember] = {}

    @property
    def found(self) -> Sequence[FoundMember]:
        return list(self._found.values())

    def add(self, path: str, container: str, mime_type: str, data: bytes) -> None:
        """Append the next bytes of a file; the bytes of one file follow each other. Raises OSError if the
        disk is full."""
        if self._file is None:
            self._file = open_spool_file(self._directory)
        known = self._found.get(path)
        before = known.content if known else b""
        content = before if isinstance(before, FileContent) else FileContent(self._file, 0, start=self._end)
        self._file.seek(self._end)
        self._file.write(data)
        self._end += len(data)
        content = replace(content, size=content.size + len(data))
        self._found[path] = FoundMember(path, container, mime_type, content)

    def refuse(self, path: str, container: str, failure: document_pb2.IngestionFailure) -> None:
        """Record that a file is not read, and why."""
        self._found[path] = FoundMember(path, container, "", b"", failure)

    def close(self) -> None:
        """Give the disk back; a second call does nothing."""
        if self._file is not None:
            self._file.close()
