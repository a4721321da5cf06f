"""Files of a directory that the ingestor sees."""

import os
import stat
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from groundline.v1 import source_pb2

from groundline_ingestor.adapters.sources.common import content_of, not_available, not_had, refused
from groundline_ingestor.domain.documents import GivenDocument
from groundline_ingestor.domain.sources import Change, Found, Reached, Unreadable, takes_path, uri_prefix

__all__ = ["allowed_path", "directory_changes", "files_below", "open_file"]

_PART: int = 1 << 20


def allowed_path(path: str, roots: Sequence[Path]) -> Path:
    """The directory or file itself, wherever links lead. Raises FailedPreconditionError
    (SOURCE_NOT_AVAILABLE) unless it is at or below one of the roots."""
    resolved = Path(os.path.realpath(path))
    if not Path(path).is_absolute() or not any(
        resolved.is_relative_to(os.path.realpath(root)) for root in roots
    ):
        raise not_available(f"{path!r} is not below a directory that the ingestor's SOURCE_DIRECTORIES allow")
    return resolved


def directory_changes(
    source: source_pb2.DocumentSource, top: Path, *, max_bytes: int, spool: Path | None
) -> Generator[Change]:
    """All files; a file's version is its time of change and size. Blocks.

    Raises FailedPreconditionError (SOURCE_REFUSED) where the directory, or one in it, cannot be read: what is
    missing then has not gone.
    """
    prefix = uri_prefix(source)
    for path in files_below(top):
        relative = path.relative_to(top).as_posix()
        if not takes_path(source, relative):
            continue
        try:
            found = path.lstat()
        except FileNotFoundError:  # since it was listed
            continue
        except OSError as error:
            yield Unreadable(prefix + relative, "SOURCE_REFUSED", error.strerror or "cannot be read")
            continue
        if stat.S_ISREG(found.st_mode):
            load = partial(_load, path, prefix + relative, max_bytes=max_bytes, spool=spool)
            yield Found(prefix + relative, f"{found.st_mtime_ns}-{found.st_size}", load)
    yield Reached("", is_complete=True)


def files_below(top: Path) -> Iterator[Path]:
    """All but hidden ones, in the order of their names. Raises FailedPreconditionError (SOURCE_REFUSED)."""

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
        # Not what a link leads to that was put in the file's place since, nor a pipe, which nobody may write
        # to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise not_had("SOURCE_REFUSED", error.strerror or "cannot be read") from None
    return open(descriptor, "rb")


def _load(path: Path, uri: str, *, max_bytes: int, spool: Path | None) -> GivenDocument:
    with open_file(path) as file:
        content = content_of(iter(partial(file.read, _PART), b""), max_bytes=max_bytes, directory=spool)
    return GivenDocument(content=content, uri=uri)
