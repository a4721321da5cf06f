"""Waits of the blocking client outside the network."""

import time
from collections.abc import Iterator
from typing import BinaryIO, Final

__all__ = ["parts", "pause"]

_PART_BYTES: Final = 1 << 20


def pause(seconds: float) -> None:
    """Wait for this time."""
    time.sleep(seconds)


def parts(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file."""
    while part := file.read(_PART_BYTES):
        yield part
