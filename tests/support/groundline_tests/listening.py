"""Servers of raw connections, in the test's own process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def free_ports(count: int) -> Sequence[int]:
    """Return different ports of loopback on which nothing listens."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


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
        for listener in server.sockets:
            asyncio.get_running_loop().remove_reader(listener.fileno())
        await asyncio.sleep(0)
        server.close()


@asynccontextmanager
async def over_tcp(database_url: str) -> AsyncIterator[str]:
    """Provide the URL of a database that listens on a unix socket, through a port of loopback."""
    parts = urlsplit(database_url)
    [folder] = parse_qs(parts.query)["host"]
    [path] = await asyncio.to_thread(lambda: [file for file in Path(folder).iterdir() if file.is_socket()])

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    async with listening(connect) as port:
        yield f"postgresql://{parts.netloc}127.0.0.1:{port}{parts.path}"
