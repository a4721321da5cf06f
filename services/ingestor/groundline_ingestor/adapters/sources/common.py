"""What connectors share: their errors, contents as they come, secrets, and reading in a thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from groundline.v1 import document_pb2
from groundline_runtime.errors import FailedPreconditionError, UnavailableError

from groundline_ingestor.domain.documents import FileContent, IngestionError
from groundline_ingestor.domain.sources import Change, Reached
from groundline_ingestor.spooling import open_spool_file

__all__ = [
    "CONNECT_SECONDS",
    "Secrets",
    "content_of",
    "host_of",
    "in_thread",
    "not_available",
    "not_had",
    "refused",
    "unreachable",
]

CONNECT_SECONDS: Final = 60.0
"""How long a connection and each read of it may take."""
STEP: Final = 200
"""Changes that a thread finds before they are dealt with."""
MAX_SECRET_BYTES: Final = 16 * 1024
_IN_MEMORY_BYTES: Final = 1024**2


def not_available(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_NOT_AVAILABLE", message)


def refused(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_REFUSED", message)


def unreachable(what: str) -> UnavailableError:
    return UnavailableError("SOURCE_UNREACHABLE", f"{what} does not answer")


def not_had(reason: str, message: str) -> IngestionError:
    """One document cannot be had; the others can."""
    return IngestionError(document_pb2.INGESTION_STATE_EXTRACTING, reason, message)


def host_of(url: str) -> str:
    """Of a URL what errors may show."""
    return urlsplit(url).hostname or ""


class Secrets:
    """Files that hold a secret each, in a folder for each collection: none is another collection's to use.
    They are read when they are needed, so that a changed one counts at once."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def require(self, collection_id: str, name: str) -> None:
        """Raise FailedPreconditionError (SOURCE_NOT_AVAILABLE) unless the collection has the secret."""
        if self._directory is None or not (self._directory / collection_id / name).is_file():
            raise not_available(f"the ingestor has no secret {name!r} for the collection {collection_id!r}")

    def read(self, collection_id: str, name: str) -> str:
        """A secret's text without the line's end. Raises FailedPreconditionError (SOURCE_NOT_AVAILABLE)."""
        self.require(collection_id, name)
        assert self._directory is not None, "require() raised"
        try:
            with (self._directory / collection_id / name).open("rb") as file:
                return file.read(MAX_SECRET_BYTES).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            raise not_available(f"the secret {name!r} cannot be read") from None


def content_of(parts: Iterable[bytes], *, max_bytes: int, directory: Path | None) -> bytes | FileContent:
    """A document's bytes, in a file where they are many. Raises IngestionError (DOCUMENT_TOO_LARGE),
    OSError."""
    start = bytearray()
    iterator = iter(parts)
    for part in iterator:
        start += part
        if len(start) > _IN_MEMORY_BYTES:
            break
    else:
        if len(start) > max_bytes:
            raise _too_large(max_bytes)
        return bytes(start)
    file, size = open_spool_file(directory), len(start)
    try:
        file.write(start)
        for part in iterator:
            size += len(part)
            if size > max_bytes:
                break
            file.write(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        file.flush()
    except BaseException:
        file.close()
        raise
    return FileContent(file, size)


def _too_large(max_bytes: int) -> IngestionError:
    return not_had("DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")


async def in_thread(changes: Generator[Change]) -> AsyncGenerator[Change, None]:
    """What a generator that blocks yields. One that is closed early ends when its step does."""
    lock = threading.Lock()

    def step() -> list[Change]:
        found: list[Change] = []
        with lock:
            for change in changes:
                found.append(change)
                # What was found up to here is loaded before the generator goes on, and perhaps ends.
                if len(found) == STEP or isinstance(change, Reached):
                    break
        return found

    def close() -> None:
        with lock, suppress(Exception):
            changes.close()

    try:
        while found := await asyncio.to_thread(step):
            for one in found:
                yield one
    finally:
        asyncio.get_running_loop().run_in_executor(None, close)
