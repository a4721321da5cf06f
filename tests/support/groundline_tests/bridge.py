"""Requests in OpenAI's words, and what comes back."""

from typing import Any

import httpx

ASK = {"model": "handbook", "messages": [{"role": "user", "content": "How much leave is there?"}]}
EMBED = {"model": "minilm", "input": ["leave", "tower"]}


async def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["message"]
    return error


async def events_of(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[str]:
    """Return the data of each event of a stream."""
    async with client.stream("POST", path, json=body | {"stream": True}) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        return [line.removeprefix("data: ") async for line in response.aiter_lines() if "data: " in line]
