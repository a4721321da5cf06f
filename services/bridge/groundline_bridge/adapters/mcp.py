"""The Model Context Protocol over streamable HTTP, without sessions: any replica serves any request."""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import Any

import structlog
from groundline_runtime.errors import Code, FieldViolation, GroundlineError, InvalidArgumentError
from groundline_runtime.interceptors import INTERNAL_MESSAGE
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from groundline_bridge.domain.documents import address_of, parsed_address
from groundline_bridge.tools import AgentTool, Tools

__all__ = ["SCOPES_HEADER", "McpServicer"]

SCOPES_HEADER = "x-groundline-scopes"
"""What the caller's key may be used for, with commas between; set by the gateway, as the principals are."""

INSTRUCTIONS = (
    "Groundline searches the user's own documents and answers questions from them with citations. "
    "Search before you answer what the documents may say, cite the uri of what you use, and say so when "
    "they do not hold an answer."
)
_RESOURCE_CHARACTERS = 200_000

type Context = ServerRequestContext[Any, Any]

_log = structlog.get_logger(__name__)


class McpServicer:
    """Tools and documents for agents; a caller sees the tools that its key's scopes allow."""

    def __init__(self, tools: Tools, *, max_request_bytes: int) -> None:
        self._tools = tools
        server: Server[Any] = Server(
            "groundline",
            version=version("groundline-bridge"),
            title="Groundline",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=max_request_bytes
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BaseRoute]:
        """The route, for as long as it may be asked."""
        # In a task of its own: the task that enters the manager's task group has to leave it.
        ready, over = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                ready.set()
                await over.wait()

        running = asyncio.create_task(run(), name="mcp")
        await ready.wait()
        try:
            yield Route("/mcp", _Endpoint(self._manager))
        finally:
            over.set()
            await running

    async def _list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_described(tool) for tool in self._tools.allowed(_scopes(context))], cache_scope="private"
        )

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        for tool in self._tools.allowed(_scopes(context)):
            if tool.name == params.name:
                return await _called(tool, params.arguments or {})
        raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r} for this key")

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with _told_to_the_client():
            place = _place(params.cursor if params else None)
            documents, *next_place = await self._tools.documents(*place)
        resources = [
            types.Resource(
                uri=address_of(each.collection_id, each.document_id),
                name=each.uri,
                title=each.title,
                mime_type="text/plain",
            )
            for each in documents
        ]
        cursor = _cursor(next_place) if next_place[0] else None
        return types.ListResourcesResult(resources=resources, next_cursor=cursor, cache_scope="private")

    async def _list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=address_of("{collection}", "{document_id}"),
            name="document",
            title="Document",
            description="The text of a document; collection and document_id are in every search result.",
            mime_type="text/plain",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        place = parsed_address(str(params.uri))
        if place is None or "search" not in _scopes(context):
            raise MCPError(types.INVALID_PARAMS, "there is no such resource for this key")
        with _told_to_the_client():
            _, found = await self._tools.document_text(*place, max_characters=_RESOURCE_CHARACTERS)
        contents = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=found.text)
        return types.ReadResourceResult(contents=[contents], cache_scope="private")


class _Endpoint:
    """POST goes to the protocol; there is no stream to GET, and no session to DELETE."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            refused = PlainTextResponse("Method Not Allowed", 405, headers={"allow": "POST"})
            await refused(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)


def _scopes(context: Context) -> frozenset[str]:
    request = context.request
    stated = request.headers.get(SCOPES_HEADER, "") if request is not None else ""
    return frozenset(filter(None, stated.split(",")))


def _described(tool: AgentTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        output_schema=tool.output,
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )


async def _called(tool: AgentTool, arguments: dict[str, Any]) -> types.CallToolResult:
    """The result; what goes wrong is a result too, so that the model reads it and can do better."""
    try:
        result = await tool.call(arguments)
    except GroundlineError as error:
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=_shown(error))], is_error=True
        )
    except Exception:
        error_id = str(uuid.uuid4())
        _log.exception("tool_failed", tool=tool.name, error_id=error_id)
        text = f"{INTERNAL_MESSAGE} ({error_id})"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=result.text)], structured_content=result.content
    )


@contextmanager
def _told_to_the_client() -> Iterator[None]:
    try:
        yield
    except GroundlineError as error:
        is_the_clients = error.code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND)
        code = types.INVALID_PARAMS if is_the_clients else types.INTERNAL_ERROR
        raise MCPError(code, _shown(error), {"reason": error.reason}) from error


def _shown(error: GroundlineError) -> str:
    return f"{error.reason}: {error.message}"


def _cursor(place: Sequence[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place(cursor: str | None) -> tuple[str, str]:
    """Collection and page token of a cursor. Raises InvalidArgumentError."""
    if cursor is None:
        return "", ""
    try:
        collection_id, page_token = json.loads(base64.urlsafe_b64decode(cursor))
        return str(collection_id), str(page_token)
    except (ValueError, TypeError):
        raise InvalidArgumentError([FieldViolation("cursor", "is none that was given out")]) from None
