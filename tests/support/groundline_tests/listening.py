"""A server of raw connections, in the test's own process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

__all__ = ["listening"]


@asynccontextmanager
async def listening(
    connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """Provide a port of loopback that hands each connection to `connected`; it is closed in the end.

    A connection that is accepted in the same turn of the loop as its server is closed would be left open,
    which Python tells when it is collected, in some later test (CPython 3.13.0). So nothing is accepted any
    more first.
    """
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for socket in server.sockets:
            asyncio.get_running_loop().remove_reader(socket.fileno())
        await asyncio.sleep(0)
        server.close()
