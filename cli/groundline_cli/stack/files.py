"""Private files and the lock of a data directory."""

import contextlib
import fcntl
import os
import secrets
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from groundline_cli.stack.errors import DirectoryInUseError, StackError


def make_private_directory(path: Path) -> Path:
    """Create `path` (and its parents) with mode 0700 unless it is there; return it absolute.

    Raises StackError when it cannot be created.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StackError(f"cannot create the directory {path}: {error.strerror}") from error
    return path.resolve()


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` in one step with mode 0600: a reader sees the old file or the whole new one."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_or_create_secret(path: Path) -> str:
    """Return the secret kept in `path`; generate it on first use (256 bits, in characters that a URL may
    hold)."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32) + "\n")
    return path.read_text(encoding="utf-8").strip()


class DirectoryLock:
    """A lock that keeps other processes away from a directory.

    The lock is the kernel's (flock), so it cannot outlive its holder; the file's text, the holder's pid, only
    serves the other process's message.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock or raise DirectoryInUseError naming the holder."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise DirectoryInUseError(
                f"{self._directory} is in use by process {holder or 'unknown'}: "
                "stop it first, or choose another data directory"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; harmless when it is not held.

        The file stays: removing it would let two later processes lock two different files of that name.
        """
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
