"""Mails of mbox files in a directory on the collector's file system."""

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from groundline_extraction.documents import IngestionError

from groundline_collector.adapters.sources.common import INTERFACE_VERSION, Run, SourceKind, refused
from groundline_collector.adapters.sources.directory import allowed_path, files_below, open_file, pieces
from groundline_collector.adapters.sources.mail import (
    MAX_HEADER_BYTES,
    SeenMails,
    mail_document,
    mail_path,
    state_of,
)
from groundline_collector.changes import Change, Found, LoadedDocument, not_had, reached, unreadable

_BEGIN: Final = b"From "
_MAX_LINE: Final = 64 * 1024


def changes(run: Run) -> Generator[Change]:
    """Yield all mails, a mail's version being its size and the file that it is in; none if the files are as
    the cursor has them. Files that are not in mbox format are skipped. Blocks.

    Raises FailedPreconditionError (SOURCE_REFUSED) if a file or directory cannot be read, or the path is
    another file's: missing mails have not been deleted then.
    """
    top = allowed_path(run.source.mbox.path, run.settings.source_directories)
    files = list(_mbox_files(run, top))
    states = [(folder, path.stat()) for path, folder in files]
    state = state_of([(folder, found.st_mtime_ns, found.st_size) for folder, found in states])
    if state == run.start.cursor:
        return
    seen, max_bytes = SeenMails(), run.start.max_document_bytes
    for path, folder in files:
        with _opened(path) as file:
            for start, end, header in _mails(file):
                name = mail_path(header)
                if not seen.is_new(name):
                    continue
                uri, size = run.uri_prefix + name, end - start
                if size > max_bytes:
                    yield unreadable(uri, "DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
                    continue
                load = partial(_load, path, start, end, header, uri=uri, folder=folder)
                yield Found(uri, f"{size} {folder}", load, held_bytes=len(header))
    yield reached(state, is_complete=True)


def _mbox_files(run: Run, top: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files with their paths below the directory."""
    if not top.is_dir():
        if not _is_mbox(top):
            raise refused(f"{top.name!r} is not in mbox format")
        yield top, top.name
        return
    for path in files_below(top):
        folder = path.relative_to(top).as_posix()
        if run.takes(folder) and path.is_file() and not path.is_symlink() and _is_mbox(path):
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
    """Yield where each mail begins and ends, and its header. A mail begins after a line with "From " that is
    the first or follows on a blank one. (Python's mailbox does not say where mails are, by which they are
    loaded later, and takes any line with "From " for such a beginning.)"""
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


def _load(path: Path, start: int, end: int, header: bytes, *, uri: str, folder: str) -> LoadedDocument:
    file = open_file(path)
    file.seek(start)
    if file.read(len(header)) != header:
        file.close()
        raise not_had("SOURCE_REFUSED", "its file was written anew while it was read")
    file.seek(start)
    return mail_document(pieces(file, end - start), header, uri=uri, folder=folder)


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION,
    changes=changes,
    require=lambda asked, settings: allowed_path(asked.path, settings.source_directories),
)
