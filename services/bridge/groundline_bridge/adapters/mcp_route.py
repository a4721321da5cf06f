"""The address of the Model Context Protocol; its library takes 20 MB and is loaded for the first request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from groundline_bridge.tools import Tools

_MODULE: Final = "groundline_bridge.adapters.mcp"


@asynccontextmanager
async def mcp_route(tools: Tools, *, max_request_bytes: int) -> AsyncIterator[BaseRoute]:
    """Serve the protocol at /mcp for the length of the block."""
    async with AsyncExitStack() as stack:
        yield Route("/mcp", _Endpoint(tools, max_request_bytes, stack))


class _Endpoint:
    """POST goes to the protocol; there is no stream to GET, and no session to DELETE."""

    def __init__(self, tools: Tools, max_request_bytes: int, stack: AsyncExitStack) -> None:
        self._tools = tools
        self._max_request_bytes = max_request_bytes
        self._stack = stack
        self._protocol: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            refused = PlainTextResponse("Method Not Allowed", 405, headers={"allow": "POST"})
            await refused(scope, receive, send)
            return
        if self._protocol is None:
            self._protocol = asyncio.ensure_future(self._load())
        # A client that leaves must not stop what others wait for.
        protocol = await asyncio.shield(self._protocol)
        await protocol(scope, receive, send)

    async def _load(self) -> ASGIApp:
        await asyncio.to_thread(import_module, _MODULE)
        from groundline_bridge.adapters.mcp import McpServicer

        servicer = McpServicer(self._tools, max_request_bytes=self._max_request_bytes)
        return await self._stack.enter_async_context(servicer.running())
