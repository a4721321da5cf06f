"""Temporary files without a name for data that does not fit into memory; they end with the process."""

import errno
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self

_LENGTH: Final = struct.Struct("<Q")


def is_disk_full(error: BaseException) -> bool:
    """Return whether a file could not grow: the disk, or what a user may use of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def open_spool_file(directory: Path | None) -> BinaryIO:
    """Open an empty file in a directory, or in the system's place for temporary files. Close it when done."""
    return tempfile.TemporaryFile(dir=directory)


class Spool[T]:
    """A list with one value at a time in memory; a single value stays there. Close it when done."""

    def __init__(
        self, dump: Callable[[T], bytes], load: Callable[[bytes], T], *, directory: Path | None = None
    ) -> None:
        self._dump = dump
        self._load = load
        self._directory = directory
        self._only: T | None = None
        self._file: BinaryIO | None = None
        self._count = 0
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._count

    def append(self, value: T) -> None:
        """Add a value. Raises OSError if the disk is full."""
        if self._count == 0:
            self._only = value
        else:
            if self._file is None:
                self._file = open_spool_file(self._directory)
                assert self._only is not None, "the first value is kept"
                self._write(self._only)
                self._only = None
            self._write(value)
        self._count += 1

    def __iter__(self) -> Iterator[T]:
        """Yield the values from the first on; several may read at a time."""
        if self._file is None:
            if self._only is not None:
                yield self._only
            return
        descriptor, position = self._file.fileno(), 0
        while position < self._end:
            [length] = _LENGTH.unpack(_read(descriptor, _LENGTH.size, position))
            yield self._load(_read(descriptor, length, position + _LENGTH.size))
            position += _LENGTH.size + length

    def close(self) -> None:
        """Give the disk back; a second call does nothing."""
        if self._file is not None:
            self._file.close()

    def _write(self, value: T) -> None:
        assert self._file is not None, "append() opened it"
        data = self._dump(value)
        self._file.write(_LENGTH.pack(len(data)))
        self._file.write(data)
        self._file.flush()
        self._end += _LENGTH.size + len(data)


def _read(descriptor: int, length: int, position: int) -> bytes:
    """Read at a position. A single read returns 2 GiB at most, far above what is written at once."""
    return os.pread(descriptor, length, position)
