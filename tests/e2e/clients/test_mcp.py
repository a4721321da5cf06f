"""Agents with the official client of the Model Context Protocol, over HTTP and over standard input."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import httpx2
import pytest
from groundline_tests.suite import EXAMPLES, Stack
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

CASE: Final = json.loads((EXAMPLES / "questions.json").read_text())["questions"][0]

type Connect = Callable[[], AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["http", "stdio"])
def connect(request: pytest.FixtureRequest, stack: Stack) -> Connect:
    """A client through the gateway, or through `groundline mcp`."""

    @asynccontextmanager
    async def by_http() -> AsyncIterator[Client]:
        headers = {"authorization": f"Bearer {stack.ready['api_key']}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(f"{stack.ready['gateway']}/mcp", http_client=http)) as agent,
        ):
            yield agent

    @asynccontextmanager
    async def by_stdio() -> AsyncIterator[Client]:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "groundline_cli", "mcp"], env=stack.environment
        )
        async with Client(stdio_client(command)) as agent:
            yield agent

    return by_http if request.param == "http" else by_stdio


async def test_an_agent_finds_reads_and_asks(connect: Connect) -> None:
    async with connect() as agent:
        assert agent.instructions
        names = [tool.name for tool in (await agent.list_tools()).tools]
        assert names == [
            "search_documents",
            "query_tables",
            "ask",
            "verify",
            "get_document",
            "list_collections",
        ]

        listed = await agent.call_tool("list_collections", {})
        assert listed.structured_content is not None
        assert "examples" in [each["collection"] for each in listed.structured_content["collections"]]

        found = await agent.call_tool(
            "search_documents", {"query": CASE["question"], "collections": ["examples"], "top_k": 3}
        )
        assert found.structured_content is not None
        best = found.structured_content["passages"][0]

        read = await agent.call_tool(
            "get_document", {"collection": best["collection"], "document_id": best["document_id"]}
        )
        assert read.structured_content is not None
        assert read.structured_content["end_offset"] == read.structured_content["character_count"]
        passage = read.structured_content["text"][best["start_offset"] : best["end_offset"]]
        assert passage == best["text"]
        assert read.structured_content["text"].strip() == (EXAMPLES / best["uri"]).read_text().strip()

        answered = await agent.call_tool("ask", {"question": CASE["question"], "collections": ["examples"]})
        assert answered.structured_content is not None
        assert answered.structured_content["has_answer"] is True
        assert "[1]" in answered.structured_content["answer"]

        refused = await agent.call_tool("ask", {"question": "Who was the first king of Mars?"})
        assert refused.structured_content is not None
        assert refused.structured_content["has_answer"] is False


async def test_an_agent_reads_documents_as_resources(connect: Connect) -> None:
    async with connect() as agent:
        page = await agent.list_resources()
        resources = list(page.resources)
        while page.next_cursor:
            page = await agent.list_resources(cursor=page.next_cursor)
            resources += page.resources
        leave = next(each for each in resources if each.name == "handbook/leave.md")
        (contents,) = (await agent.read_resource(leave.uri)).contents
        text = (EXAMPLES / "handbook/leave.md").read_text()
        assert getattr(contents, "text", "").strip() == text.strip()


async def test_a_wrong_key_is_said_before_anything_is_served(stack: Stack) -> None:
    ended = await stack.command("mcp", "--api-key", "no-such-key-0123456789")
    assert ended.code == 1
    assert "error:" in ended.err
    assert "Traceback" not in ended.err
