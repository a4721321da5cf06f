"""Connections of urllib3 to addresses that were checked."""

import socket
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import create_connection

from groundline_collector.adapters.addresses import checked_address
from groundline_collector.adapters.threads import Connections

__all__ = ["pinned_pool"]


class _PinnedPool(urllib3.PoolManager):
    """Pool that closes the last response as well: clients leave a refused request's response open."""

    _last: urllib3.BaseHTTPResponse | None = None

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **options: Any
    ) -> urllib3.BaseHTTPResponse:
        self._last = super().urlopen(method, url, redirect, **options)
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

    class PinnedTlsConnection(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return connect(self)

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
