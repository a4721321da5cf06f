"""Files of a directory on the collector's file system."""

import os
import stat
import sys
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from groundline_collector.adapters.sources.common import (
    INTERFACE_VERSION,
    Run,
    SourceKind,
    not_available,
    refused,
)
from groundline_collector.changes import Change, Found, LoadedDocument, not_had, reached, unreadable

_PART: Final = 1 << 20


def allowed_path(path: str, roots: Sequence[Path]) -> Path:
    """Return the directory or file itself, wherever links lead. Raises FailedPreconditionError
    (SOURCE_NOT_AVAILABLE) unless it is at or below one of the roots."""
    resolved = Path(os.path.realpath(path))
    if not Path(path).is_absolute() or not any(
        resolved.is_relative_to(os.path.realpath(root)) for root in roots
    ):
        raise not_available(
            f"{path!r} is not below a directory that the collector's SOURCE_DIRECTORIES allow"
        )
    return resolved


def changes(run: Run) -> Generator[Change]:
    """Yield all files; a file's version is its time of change and size. Blocks.

    Raises FailedPreconditionError (SOURCE_REFUSED) where the directory, or one in it, cannot be read: what is
    missing then has not gone.
    """
    top = allowed_path(run.source.directory.path, run.settings.source_directories)
    for path in files_below(top):
        relative = path.relative_to(top).as_posix()
        if not run.takes(relative):
            continue
        uri = run.uri_prefix + relative
        try:
            found = path.lstat()
        except FileNotFoundError:  # deleted since it was listed
            continue
        except OSError as error:
            yield unreadable(uri, "SOURCE_REFUSED", error.strerror or "cannot be read")
            continue
        if stat.S_ISREG(found.st_mode):
            yield Found(uri, f"{found.st_mtime_ns}-{found.st_size}", partial(_load, path, uri))
    yield reached("", is_complete=True)


def files_below(top: Path) -> Iterator[Path]:
    """Yield all files but hidden ones, in the order of their names. Raises FailedPreconditionError
    (SOURCE_REFUSED)."""

    def fail(error: OSError) -> None:
        raise refused(f"a directory cannot be read: {error.strerror}")

    for folder, folders, names in os.walk(top, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder, name)


def open_file(path: Path) -> BinaryIO:
    """Open a file to read. Raises IngestionError (SOURCE_REFUSED)."""
    try:
        # Neither follow a link that was put in the file's place since, nor open a pipe, which nobody may
        # write to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise not_had("SOURCE_REFUSED", error.strerror or "cannot be read") from None
    return open(descriptor, "rb")


def pieces(file: BinaryIO, size: int = sys.maxsize) -> Iterator[bytes]:
    """Yield a file from where it stands, `size` bytes at most, and close it."""
    with file:
        while size > 0 and (piece := file.read(min(_PART, size))):
            size -= len(piece)
            yield piece


def _load(path: Path, uri: str) -> LoadedDocument:
    return LoadedDocument(uri, pieces(open_file(path)))


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION,
    changes=changes,
    require=lambda asked, settings: allowed_path(asked.path, settings.source_directories),
)
