"""What the blocking client waits for without the network."""

import time
from collections.abc import Iterator
from typing import BinaryIO

__all__ = ["parts", "pause"]

_PART_BYTES = 1 << 20


def pause(seconds: float) -> None:
    """Let the time pass."""
    time.sleep(seconds)


def parts(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file."""
    while part := file.read(_PART_BYTES):
        yield part
