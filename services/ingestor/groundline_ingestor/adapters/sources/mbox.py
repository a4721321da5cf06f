"""Mails of mbox files in a directory that the ingestor sees."""

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from groundline.v1 import source_pb2

from groundline_ingestor.adapters.sources.common import content_of, not_had, refused
from groundline_ingestor.adapters.sources.directory import files_below, open_file
from groundline_ingestor.adapters.sources.mail import (
    MAX_HEADER_BYTES,
    SeenMails,
    mail_document,
    mail_path,
    state_of,
)
from groundline_ingestor.domain.documents import GivenDocument, IngestionError
from groundline_ingestor.domain.sources import Change, Found, Reached, Unreadable, takes_path, uri_prefix

__all__ = ["mbox_changes"]

_BEGIN: Final = b"From "
_MAX_LINE: Final = 64 * 1024
_PART: Final = 1 << 20


def mbox_changes(
    source: source_pb2.DocumentSource, top: Path, *, cursor: str, max_bytes: int, spool: Path | None
) -> Generator[Change]:
    """All mails, a mail's version being its size and the file that it is in; nothing where the files are as
    the cursor has them. Files that are not in mbox format are passed over. Blocks.

    Raises FailedPreconditionError (SOURCE_REFUSED) where a file or directory cannot be read, or the path is
    that of another file: what is missing then has not gone.
    """
    files = list(_mbox_files(source, top))
    states = [(folder, path.stat()) for path, folder in files]
    state = state_of([(folder, found.st_mtime_ns, found.st_size) for folder, found in states])
    if state == cursor:
        return
    prefix, seen = uri_prefix(source), SeenMails()
    for path, folder in files:
        with _opened(path) as file:
            for start, end, header in _mails(file):
                name = mail_path(header)
                if not seen.is_new(name):
                    continue
                uri, size = prefix + name, end - start
                if size > max_bytes:
                    yield Unreadable(uri, "DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
                    continue
                load = partial(
                    _load, path, start, end, header, uri=uri, folder=folder, max_bytes=max_bytes, spool=spool
                )
                yield Found(uri, f"{size} {folder}", load, held_bytes=len(header))
    yield Reached(state, is_complete=True)


def _mbox_files(source: source_pb2.DocumentSource, top: Path) -> Iterator[tuple[Path, str]]:
    """With their paths below the directory."""
    if not top.is_dir():
        if not _is_mbox(top):
            raise refused(f"{top.name!r} is not in mbox format")
        yield top, top.name
        return
    for path in files_below(top):
        folder = path.relative_to(top).as_posix()
        if takes_path(source, folder) and path.is_file() and not path.is_symlink() and _is_mbox(path):
            yield path, folder


def _is_mbox(path: Path) -> bool:
    with _opened(path) as file:
        return file.read(len(_BEGIN)) == _BEGIN


def _opened(path: Path) -> BinaryIO:
    try:
        return open_file(path)
    except IngestionError as error:
        raise refused(f"{path.name!r} cannot be read: {error.failure.message}") from None


def _mails(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Where each mail begins and ends, and its header. A mail begins after a line with "From " that is the
    first or follows on a blank one. (Python's mailbox does not say where mails are, by which they are loaded
    later, and takes any line with "From " for such a beginning.)"""
    start, header, is_header, is_after_blank, is_line_start = -1, bytearray(), False, True, True
    position = 0
    while line := file.readline(_MAX_LINE):
        if is_line_start and is_after_blank and line.startswith(_BEGIN):
            if start >= 0:
                yield start, position, bytes(header)
            start, header, is_header = position + len(line), bytearray(), True
        elif is_header:
            is_header = bool(line.strip()) and len(header) < MAX_HEADER_BYTES
            header += line
        is_after_blank = is_line_start and line in (b"\n", b"\r\n")
        is_line_start = line.endswith(b"\n")
        position += len(line)
    if start >= 0:
        yield start, position, bytes(header)


def _load(
    path: Path,
    start: int,
    end: int,
    header: bytes,
    *,
    uri: str,
    folder: str,
    max_bytes: int,
    spool: Path | None,
) -> GivenDocument:
    with open_file(path) as file:
        file.seek(start)
        if file.read(len(header)) != header:
            raise not_had("SOURCE_REFUSED", "its file was written anew while it was read")
        file.seek(start)
        content = content_of(_parts(file, end - start), max_bytes=max_bytes, directory=spool)
    return mail_document(content, uri=uri, folder=folder)


def _parts(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (part := file.read(min(_PART, size))):
        size -= len(part)
        yield part
