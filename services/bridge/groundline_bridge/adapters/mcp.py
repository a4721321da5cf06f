"""The Model Context Protocol over streamable HTTP, without sessions: any replica serves any request."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from groundline_runtime.errors import Code, FieldViolation, GroundlineError, InvalidArgumentError
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, BeforeValidator, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groundline_bridge.adapters.failures import seconds_to_wait, unexpected
from groundline_bridge.checked import read_json, validated
from groundline_bridge.domain.documents import address_of, parsed_address
from groundline_bridge.tools import AgentTool, Tools

SCOPES_HEADER: Final = "x-groundline-scopes"
"""Header with the scopes of the caller's key, separated by commas; the gateway sets it, as it sets the
principals."""

INSTRUCTIONS: Final = (
    "Groundline searches the user's own documents and answers questions from them with citations. "
    "Search before you answer what the documents may say, cite the uri of what you use, and say so when "
    "they do not hold an answer."
)
_RESOURCE_CHARACTERS: Final = 200_000

type Context = ServerRequestContext[Any, Any]


def _id(given: Any) -> Any:
    if not isinstance(given, str | int | None):
        raise ValueError("must be a string or an integer")
    return given


class _Request(BaseModel):
    """A request or a notification of JSON-RPC."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    jsonrpc: Literal["2.0"]
    id: Annotated[Any, BeforeValidator(_id)] = None
    method: str
    params: dict[str, Any] | None = None


_PARAMS: Final[Mapping[str, type[BaseModel]]] = {
    "tools/list": types.PaginatedRequestParams,
    "tools/call": types.CallToolRequestParams,
    "resources/list": types.PaginatedRequestParams,
    "resources/templates/list": types.PaginatedRequestParams,
    "resources/read": types.ReadResourceRequestParams,
}
"""Parameters of the methods that do something; in a handshake clients may say what is not known here."""


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
    async def running(self) -> AsyncIterator[ASGIApp]:
        """Answer requests of the protocol for the length of the block."""
        # In a task of its own: the task that enters the manager's task group has to leave it.
        ready, over = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                ready.set()
                await over.wait()

        running = asyncio.create_task(run(), name="mcp")
        await ready.wait()
        try:
            yield self._handle
        finally:
            over.set()
            await running

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what the library would drop, or answer with the text of an exception; hand on the rest."""
        body = await Request(scope, receive).body()
        message: Any = None
        try:
            message = read_json(body)
            _check(message)
        except InvalidArgumentError as error:
            await _refusal(message, error)(scope, receive, send)
            return
        is_read = False

        async def again() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._manager.handle_request(scope, again, send)

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
            parts = _parsed_cursor(params.cursor if params else None)
            documents, *following = await self._tools.documents(*parts)
        resources = [
            types.Resource(
                uri=address_of(each.collection_id, each.document_id),
                name=each.uri,
                title=each.title,
                mime_type="text/plain",
            )
            for each in documents
        ]
        cursor = _cursor(following) if following[0] else None
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
        parts = parsed_address(str(params.uri))
        if parts is None or "search" not in _scopes(context):
            raise MCPError(types.INVALID_PARAMS, "there is no such resource for this key")
        with _told_to_the_client():
            _, found = await self._tools.document_text(*parts, max_characters=_RESOURCE_CHARACTERS)
        contents = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=found.text)
        return types.ReadResourceResult(contents=[contents], cache_scope="private")


def _check(message: Any) -> None:
    """Raise InvalidArgumentError unless it is a request with parameters that its method has."""
    request = validated(_Request, message)
    kind, params = _PARAMS.get(request.method), request.params or {}
    if kind is None:
        return
    known = {field.alias for field in kind.model_fields.values()}
    if unknown := sorted(params.keys() - known):
        raise InvalidArgumentError(
            FieldViolation(f"params.{name[:100]}", "is not a field") for name in unknown[:20]
        )
    validated(kind, params, "params")


def _refusal(message: Any, error: GroundlineError) -> JSONResponse:
    request_id = message.get("id") if isinstance(message, dict) else None
    told = {
        "code": types.INVALID_PARAMS if request_id is not None else types.INVALID_REQUEST,
        "message": _shown(error),
        "data": {"reason": error.reason},
    }
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": told}, 400)


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
    """Call the tool; return errors as results too, so that the model reads them and can do better."""
    try:
        result = await tool.call(arguments)
    except Exception as error:
        text = _shown(
            error if isinstance(error, GroundlineError) else unexpected("tool_failed", tool=tool.name)
        )
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=result.text)], structured_content=result.content
    )


@contextmanager
def _told_to_the_client() -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        error = failure if isinstance(failure, GroundlineError) else unexpected("mcp_request_failed")
        is_the_clients = error.code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND)
        code = types.INVALID_PARAMS if is_the_clients else types.INTERNAL_ERROR
        raise MCPError(code, _shown(error), {"reason": error.reason}) from failure


def _shown(error: GroundlineError) -> str:
    shown = f"{error.reason}: {error.message}"
    if error.error_id:
        shown += f" (error id {error.error_id})"
    if (seconds := seconds_to_wait(error)) is not None:
        # A result of a tool has no header.
        shown += f" (try again after {seconds} s)"
    return shown


def _cursor(parts: Sequence[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _parsed_cursor(cursor: str | None) -> tuple[str, str]:
    """Parse a cursor into collection and page token. Raises InvalidArgumentError."""
    if cursor is None:
        return "", ""
    try:
        collection_id, page_token = json.loads(base64.urlsafe_b64decode(cursor))
        return str(collection_id), str(page_token)
    except (ValueError, TypeError):
        raise InvalidArgumentError([FieldViolation("cursor", "is not a cursor of this server")]) from None
