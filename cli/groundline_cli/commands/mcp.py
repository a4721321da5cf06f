"""groundline mcp"""

from importlib.metadata import version
from typing import Any, Final

import click
import httpx2
from mcp import Client, MCPError, stdio_server, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from groundline_cli.commands.gateway import with_gateway
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.interrupts import run_interruptible

_ANSWER_SECONDS: Final = 150
"""Deadline of an answer, in seconds; above the gateway's own."""

type _Context = ServerRequestContext[Any, Any]
type _Page = types.PaginatedRequestParams | None


@click.command()
@with_gateway
def mcp(connection: Connection) -> None:
    """Give agents on this machine the documents, over MCP on standard input and output.

    An agent's program starts it. It offers what the gateway offers at /mcp for the key: tools to search, to
    ask and to read documents.

    \b
      {"mcpServers": {"groundline": {"command": "groundline", "args": ["mcp"],
       "env": {"GROUNDLINE_GATEWAY_URL": "…", "GROUNDLINE_API_KEY": "…"}}}}
    """
    try:
        run_interruptible(_serve(connection))
    except* (MCPError, httpx2.HTTPError) as errors:
        raise CommandFailedError(f"{connection.gateway}/mcp: {errors.exceptions[0]}") from errors


async def _serve(connection: Connection) -> None:
    headers = {"x-api-key": connection.api_key}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_ANSWER_SECONDS) as http,
        Client(streamable_http_client(f"{connection.gateway}/mcp", http_client=http)) as gateway,
        stdio_server() as (read_stream, write_stream),
    ):
        server = _forwarding_to(gateway)
        await server.run(read_stream, write_stream, server.create_initialization_options())


def _forwarding_to(gateway: Client) -> Server[Any]:
    """Return a server that forwards everything to the gateway's and keeps no state."""
    session = gateway.session

    async def list_tools(_: _Context, params: _Page) -> types.ListToolsResult:
        return await session.list_tools(params=params)

    async def call_tool(_: _Context, params: types.CallToolRequestParams) -> Any:
        return await session.call_tool(params.name, params.arguments)

    async def list_resources(_: _Context, params: _Page) -> types.ListResourcesResult:
        return await session.list_resources(params=params)

    async def list_templates(_: _Context, params: _Page) -> types.ListResourceTemplatesResult:
        return await session.list_resource_templates(params=params)

    async def read_resource(_: _Context, params: types.ReadResourceRequestParams) -> Any:
        return await session.read_resource(params.uri)

    return Server(
        "groundline",
        version=version("groundline-cli"),
        title="Groundline",
        instructions=gateway.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
