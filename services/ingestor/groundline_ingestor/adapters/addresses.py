"""Which addresses may be reached for a collection, and connections that reach no others.

A host's name is resolved once, its addresses are checked, and the connection goes to one that was checked: a
name that changes its mind in between leads nowhere. Certificates are checked against the name.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import httpx
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import create_connection

__all__ = [
    "AddressNotAllowedError",
    "PinnedTransport",
    "Resolve",
    "checked_address",
    "is_public",
    "pinned_pool",
    "resolve",
]

_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
# What Python's is_global does not know of: relays of 6to4, documentation, and the address by which Azure's
# machines reach their host.
_NOT_THE_INTERNETS: Final = tuple(
    map(ipaddress.ip_network, ("192.88.99.0/24", "3fff::/20", "168.63.129.16/32"))
)

type Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class AddressNotAllowedError(Exception):
    """A host has an address that is not the internet's, and none other may be reached."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host[:200]} is not a public address of the internet; collection and operator would both "
            "have to allow it"
        )


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host. Raises OSError."""
    return await asyncio.to_thread(_addresses, host, port)


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet's; none of those is that carry an IPv4 address within."""
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    is_assigned = ip.version == 4 or ip in _GLOBAL_UNICAST
    is_other = any(ip in network for network in _NOT_THE_INTERNETS if network.version == ip.version)
    return is_assigned and ip.is_global and not ip.is_multicast and not is_other


class PinnedTransport(httpx.AsyncBaseTransport):
    """Resolves a host once, checks its addresses, and connects to one that was checked: a name that changes
    its mind in between leads nowhere. Certificates are checked against the name."""

    def __init__(self, resolve: Resolve, is_allowed: Callable[[str], bool]) -> None:
        self._resolve = resolve
        self._is_allowed = is_allowed
        # Connections are pooled by address, and certificates checked by name: none is kept for another name.
        self._inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            address = _checked(host, await self._resolve(host, port), self._is_allowed)
        except OSError as error:
            raise httpx.ConnectError("the name has no address") from error
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,  # with the Host that was asked for
            stream=request.stream,
            extensions=request.extensions | {"sni_hostname": host},
        )
        return await self._inner.handle_async_request(pinned)

    async def aclose(self) -> None:
        await self._inner.aclose()


def checked_address(host: str, port: int, *, private_addresses: bool) -> str:
    """An address of a host that may be reached; blocks. Raises AddressNotAllowedError, OSError."""
    return _checked(host, _addresses(host, port), lambda address: private_addresses or is_public(address))


def _addresses(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


def _checked(host: str, addresses: Sequence[str], is_allowed: Callable[[str], bool]) -> str:
    """The first address of a host, all of which have to be allowed. Raises AddressNotAllowedError, OSError
    where there is none."""
    if not addresses:
        raise OSError("the name has no address")
    if not all(map(is_allowed, addresses)):
        raise AddressNotAllowedError(host)
    return addresses[0]


class _PinnedPool(urllib3.PoolManager):
    """Closes the last response as well: clients leave that of a request that was refused open."""

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


def pinned_pool(*, private_addresses: bool, timeout_seconds: float) -> urllib3.PoolManager:
    """What PinnedTransport is to httpx, for clients that build on urllib3, which block. Proxies of the
    environment are not used. Clear it when done."""

    def connect(connection: HTTPConnection) -> socket.socket:
        try:
            address = checked_address(connection.host, connection.port, private_addresses=private_addresses)
            return create_connection(
                (address, connection.port),
                connection.timeout,
                source_address=connection.source_address,
                socket_options=connection.socket_options,
            )
        except TimeoutError as error:
            raise ConnectTimeoutError(connection, "the server did not answer in time") from error
        except OSError as error:
            raise NewConnectionError(connection, "no connection") from error

    class Connection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return connect(self)

    class TlsConnection(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return connect(self)

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    manager = _PinnedPool(
        timeout=urllib3.Timeout(timeout_seconds), retries=urllib3.Retry(2, backoff_factor=0.5), maxsize=4
    )
    pools: dict[str, Any] = {"http": Pool, "https": TlsPool}
    manager.pool_classes_by_scheme = pools
    return manager
