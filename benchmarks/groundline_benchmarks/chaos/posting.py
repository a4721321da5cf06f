"""A client that posts JSON over HTTP/1.1 for little processor time: an overload is to measure the suite."""

import asyncio
import json
import re
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_END_OF_HEAD: Final = b"\r\n\r\n"
_MAX_HEAD_BYTES: Final = 1 << 16


class _Connection(asyncio.Protocol):
    """Connection that carries one request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, str]] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def post(self, request: bytes) -> "asyncio.Future[tuple[int, str]]":
        """Send a request, and return what becomes its answer."""
        assert self._transport
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        if head_end < len(_END_OF_HEAD):
            if len(self._received) > _MAX_HEAD_BYTES:
                self.close()
            return
        head = self._received[:head_end]
        status, length = _STATUS.match(head), _LENGTH.search(head)
        if not status or not length:
            self.close()
            return
        end = head_end + int(length[1])
        if len(self._received) < end or self._answer is None:
            return
        answer, self._answer = self._answer, None
        body = self._received[head_end:end].decode(errors="replace")
        self._received.clear()
        if b"connection: close" in head.lower():
            self.close()
        if not answer.done():
            answer.set_result((int(status[1]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._answer and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the gateway closed the connection"))

    def close(self) -> None:
        """Close the connection; an answer that has not come does not come any more."""
        self.is_open = False
        if self._transport:
            self._transport.abort()


class JsonPoster:
    """Posts JSON to one gateway after the other, and to the next if nothing listens, as load balancers do.

    It keeps its connections open, opens one more whenever all are in use, and sends nothing twice.
    """

    def __init__(self, gateways: Sequence[str], path: str, api_key: str, timeout_seconds: float) -> None:
        self._addresses = [(parts.hostname or "", parts.port or 80) for parts in map(urlsplit, gateways)]
        self._idle: list[deque[_Connection]] = [deque() for _ in gateways]
        self._all: set[_Connection] = set()
        self._head = f"POST {path} HTTP/1.1\r\nhost: groundline\r\nx-api-key: {api_key}\r\n".encode()
        self._timeout_seconds = timeout_seconds
        self._turn = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._all:
            connection.close()

    async def post(self, body: object) -> tuple[int, str]:
        """Return the status and body of the answer. Raises OSError and TimeoutError."""
        encoded = json.dumps(body).encode()
        request = b"%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            self._head,
            len(encoded),
            encoded,
        )
        self._turn += 1
        async with asyncio.timeout(self._timeout_seconds):
            number, connection = await self._connection(self._turn)
            try:
                return await connection.post(request)
            except asyncio.CancelledError:
                connection.close()
                raise
            finally:
                if connection.is_open:
                    self._idle[number].append(connection)
                else:
                    self._all.discard(connection)

    async def _connection(self, turn: int) -> tuple[int, _Connection]:
        """Return an open connection, and the number of its gateway. Raises OSError."""
        count = len(self._addresses)
        for attempt in range(count):
            number = (turn + attempt) % count
            idle = self._idle[number]
            while idle:
                connection = idle.pop()
                if connection.is_open:
                    return number, connection
                self._all.discard(connection)
            try:
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, *self._addresses[number]
                )
            except ConnectionRefusedError:
                if attempt == count - 1:
                    raise
                continue
            self._all.add(connection)
            return number, connection
        raise AssertionError("the last attempt returns or raises")
