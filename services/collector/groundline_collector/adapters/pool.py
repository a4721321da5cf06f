"""Connections of urllib3 to addresses that were checked, whose answers are bounded."""

import socket
from typing import Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.util.connection import create_connection

from groundline_collector.adapters.addresses import checked_address
from groundline_collector.adapters.threads import Connections

MAX_ANSWER_BYTES: Final = 16 * 1024**2
"""Maximum bytes, unpacked, of an answer that is read at once: what is larger is read piece by piece."""
_PART: Final = 64 * 1024


class AnswerTooLargeError(HTTPError):
    """A server's answer has more than MAX_ANSWER_BYTES."""


class _BoundedResponse(urllib3.HTTPResponse):
    """Response that nobody reads at once without a bound, whichever method of it they call."""

    def read(
        self, amt: int | None = None, decode_content: bool | None = None, cache_content: bool = False
    ) -> bytes:
        if isinstance(self._body, bytes):  # was read at once before
            return self._body
        if amt is not None:
            return super().read(amt, decode_content, cache_content)
        content = bytearray()
        while part := super().read(_PART, decode_content):
            content += part
            if len(content) > MAX_ANSWER_BYTES:
                self.close()
                raise AnswerTooLargeError(f"an answer has more than {MAX_ANSWER_BYTES} bytes")
        if cache_content:
            self._body = bytes(content)
        return bytes(content)


class _PinnedPool(urllib3.PoolManager):
    """Pool that closes the last response as well: clients leave a refused request's response open."""

    _last: urllib3.BaseHTTPResponse | None = None

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, *, preload_content: bool = True, **options: Any
    ) -> urllib3.BaseHTTPResponse:
        # urllib3 would read, and unpack, the whole answer before it is a bounded one.
        self._last = super().urlopen(method, url, redirect, preload_content=False, **options)
        if preload_content:
            self._last.read(cache_content=True)
        return self._last

    def clear(self) -> None:
        if self._last is not None:
            self._last.close()
        super().clear()


def pinned_pool(
    connections: Connections, *, private_addresses: bool, timeout_seconds: float
) -> urllib3.PoolManager:
    """Return PinnedTransport's counterpart for urllib3, which blocks. Proxies of the environment are not
    used. Clear it when done."""

    def connect(connection: HTTPConnection) -> socket.socket:
        try:
            address = checked_address(connection.host, connection.port, private_addresses=private_addresses)
            connected = create_connection(
                (address, connection.port),
                connection.timeout,
                source_address=connection.source_address,
                socket_options=connection.socket_options,
            )
            connections.hold(connection, connected)
        except TimeoutError as error:
            raise ConnectTimeoutError(connection, "the server did not answer in time") from error
        except OSError as error:
            raise NewConnectionError(connection, "no connection") from error
        return connected

    class PinnedConnection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return connect(self)

        def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as urllib3's own
            return _bounded(super().getresponse())

    class PinnedTlsConnection(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return connect(self)

        def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as urllib3's own
            return _bounded(super().getresponse())

    class PinnedHttpPool(HTTPConnectionPool):
        ConnectionCls = PinnedConnection

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = PinnedTlsConnection

    manager = _PinnedPool(
        timeout=urllib3.Timeout(timeout_seconds), retries=urllib3.Retry(2, backoff_factor=0.5), maxsize=4
    )
    pools: dict[str, Any] = {"http": PinnedHttpPool, "https": TlsPool}
    manager.pool_classes_by_scheme = pools
    return manager


def _bounded(response: urllib3.HTTPResponse) -> urllib3.HTTPResponse:
    """Return the response as one that is bounded; urllib3 lets nobody name the class that it makes."""
    response.__class__ = _BoundedResponse
    return response
