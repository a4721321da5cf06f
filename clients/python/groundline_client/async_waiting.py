"""What the asynchronous client waits for without the network."""

import asyncio
from collections.abc import AsyncIterator
from typing import BinaryIO

__all__ = ["parts", "pause"]

_PART_BYTES = 1 << 20


async def pause(seconds: float) -> None:
    """Let the time pass."""
    await asyncio.sleep(seconds)


async def parts(file: BinaryIO) -> AsyncIterator[bytes]:
    """What is left of a file, read beside the event loop."""
    while part := await asyncio.to_thread(file.read, _PART_BYTES):
        yield part
