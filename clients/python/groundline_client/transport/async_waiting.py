"""Waits of the asynchronous client outside the network."""

import asyncio
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

__all__ = ["parts", "pause"]

_PART_BYTES: Final = 1 << 20


async def pause(seconds: float) -> None:
    """Wait for this time."""
    await asyncio.sleep(seconds)


async def parts(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the rest of a file, read beside the event loop."""
    while part := await asyncio.to_thread(file.read, _PART_BYTES):
        yield part
