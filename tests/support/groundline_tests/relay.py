"""A TCP port for a server that listens on a unix socket only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from groundline_tests.listening import listening


@asynccontextmanager
async def over_tcp(database_url: str) -> AsyncIterator[str]:
    """Provide the same database's URL, through a port of loopback."""
    parts = urlsplit(database_url)
    [folder] = parse_qs(parts.query)["host"]
    [socket] = await asyncio.to_thread(lambda: [path for path in Path(folder).iterdir() if path.is_socket()])

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
        inner_reader, inner_writer = await asyncio.open_unix_connection(socket)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    async with listening(connect) as port:
        yield f"postgresql://{parts.netloc}127.0.0.1:{port}{parts.path}"
