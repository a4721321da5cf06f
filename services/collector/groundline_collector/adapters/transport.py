"""Connections of httpx to addresses that were checked."""

from collections.abc import Callable

import httpx

from groundline_collector.adapters.addresses import Resolve, checked


class PinnedTransport(httpx.AsyncBaseTransport):
    """Transport that resolves a host once, checks its addresses, and connects to a checked one: a name that
    changes in between leads nowhere. Certificates are checked against the name."""

    def __init__(self, resolve: Resolve, is_allowed: Callable[[str], bool]) -> None:
        self._resolve = resolve
        self._is_allowed = is_allowed
        # Connections are pooled by address, and certificates checked by name: none is kept for another name.
        self._inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            address = checked(host, await self._resolve(host, port), self._is_allowed)
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
