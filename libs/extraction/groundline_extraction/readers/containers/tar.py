"""TAR archives, and files compressed by gzip, bzip2 or xz: the names of their members, each of which is a
document of its own. Such a file that holds no TAR archive has one member."""

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO, Final, cast

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import (
    Give,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    one_line,
    whole,
)
from groundline_extraction.readers.containers.archive import is_litter
from groundline_extraction.readers.containers.members import MAX_MEMBERS, MAX_WHOLE_BYTES, Members
from groundline_extraction.readers.zips import MAX_ENTRIES

_OPENERS: Final[dict[bytes, Callable[[BinaryIO], BinaryIO]]] = {
    b"\x1f\x8b": lambda file: cast("BinaryIO", gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast("BinaryIO", bz2.BZ2File(file)),
    b"\xfd7zXZ": lambda file: cast("BinaryIO", lzma.LZMAFile(file)),  # noqa: SIM115 - its caller closes it
}
_BROKEN: Final = (tarfile.TarError, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError)
_ENDINGS: Final = {".tgz": ".tar", ".tbz2": ".tar", ".tbz": ".tar", ".txz": ".tar"}


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Return all of `read_pieces` at once, without the members."""
    return whole(read_pieces, data, hints, limits)


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give the members, then a list of them. Raises ReadError with CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE."""
    members = Members.of_document(limits, give) if hints.with_members else None
    builder = MarkdownBuilder(limits)
    builder.add("\n".join(f"- {one_line(name)}" for name in _names(file, hints.name, limits, members)))
    give(builder.read())


def find_members(file: BinaryIO, members: Members) -> None:
    """Take the members of an archive. Raises ReadError."""
    for _ in _names(file, members.container, members.limits, members):
        pass


def _names(file: BinaryIO, name: str, limits: ReaderLimits, members: Members | None) -> Iterator[str]:
    """Yield the names of the members, each when it has been taken: what is compressed is unpacked once."""
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    opener = next((opener for mark, opener in _OPENERS.items() if start.startswith(mark)), None)
    try:
        with closing(opener(file) if opener else file) as unpacked:
            stream = _Bounded(unpacked, limits.max_unpacked_bytes)
            if opener and not _is_tar(stream.peek(tarfile.BLOCKSIZE)):
                yield _take_single(stream, name, members)
                return
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield from _take_all(archive, members)
            _drain(stream)
    except _BROKEN as error:
        raise ReadError("CORRUPT_DOCUMENT", f"cannot be unpacked ({type(error).__name__})") from None


def _take_all(archive: tarfile.TarFile, members: Members | None) -> Iterator[str]:
    count = 0
    for entries, member in enumerate(archive, 1):
        if entries > MAX_ENTRIES:
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_ENTRIES} entries")
        # Links lead elsewhere, and devices and the like hold nothing.
        if not member.isfile() or is_litter(member.name):
            continue
        count += 1
        if count > MAX_MEMBERS:
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_MEMBERS} members")
        if members is not None:
            content = archive.extractfile(member)
            assert content is not None, "is a file"
            members.take(member.name, "", _opener(content.read(MAX_WHOLE_BYTES + 1)))
        yield member.name


def _take_single(stream: "_Bounded", name: str, members: Members | None) -> str:
    name = _without_ending(name)
    if members is not None:
        members.take(name, "", _opener(stream.read(MAX_WHOLE_BYTES + 1)))
    else:
        _drain(stream)
    return name


def _drain(stream: "_Bounded") -> None:
    """Read the rest: whether it is sound is seen at its end."""
    while stream.read(1 << 18):
        pass


def _opener(data: bytes) -> Callable[[], BinaryIO]:
    if len(data) <= MAX_WHOLE_BYTES:
        return partial(io.BytesIO, data)

    def refuse() -> BinaryIO:
        raise ReadError("DOCUMENT_TOO_LARGE", f"a compressed file of more than {MAX_WHOLE_BYTES} bytes")

    return refuse


def _without_ending(name: str) -> str:
    path = PurePosixPath(name.rpartition("/")[2])
    return path.stem + _ENDINGS.get(path.suffix.lower(), "") if path.suffix else f"{path.name or 'file'}.out"


def _is_tar(block: bytes) -> bool:
    """Return whether a block is the first of an archive; old ones have no mark, but all a checksum."""
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


class _Bounded(io.RawIOBase):
    """A stream that ends with an error when it has given more than `limit` bytes."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file = file
        self._left = limit
        self._limit = limit
        self._peeked = b""

    def peek(self, size: int) -> bytes:
        """Return the next bytes, which are read again."""
        self._peeked += self._taken(size - len(self._peeked))
        return self._peeked

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        assert size >= 0, "is never read whole"
        data, self._peeked = self._peeked[:size], self._peeked[size:]
        return data + self._taken(size - len(data)) if len(data) < size else data

    def _taken(self, size: int) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ReadError("DOCUMENT_TOO_LARGE", f"unpacks to more than {self._limit} bytes")
        return data
