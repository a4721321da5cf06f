"""A chat endpoint as OpenAI shapes it, that streams tokens at a steady rate: a model of known speed."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["MODEL", "Provider", "serving_provider"]

MODEL = "bench"

# The answer of a call that does not stream: nothing to rewrite, nothing to judge.
_WHOLE_ANSWER = "{}"
_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Provider:
    """How it answers, and what it has measured of itself; times in seconds."""

    tokens: int = 200
    tokens_per_second: float = 100.0
    address: str = ""
    first_token: list[float] = field(default_factory=list)
    """From the end of each request to its first token."""
    gaps: list[float] = field(default_factory=list)
    """Between two tokens of one stream."""
    whole_calls: int = 0
    """Calls that did not stream."""

    def forget(self) -> None:
        """Drop what was measured."""
        self.first_token.clear()
        self.gaps.clear()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while (body := await _read_request(reader)) is not None:
                if body.get("stream"):
                    await self._stream(writer)
                else:
                    self.whole_calls += 1
                    await _whole(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client hung up, as it does when a chat is cancelled
        finally:
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        begun = time.perf_counter()
        writer.write(_HEAD.format(content_type="text/event-stream").encode())
        last = 0.0
        for number in range(1, self.tokens + 1):
            # Against the plan, not the last token: one that comes late does not delay those after it.
            await asyncio.sleep(begun + number / self.tokens_per_second - time.perf_counter())
            _write_chunk(writer, _event({"content": _token(number, self.tokens)}))
            await writer.drain()
            now = time.perf_counter()
            if number == 1:
                self.first_token.append(now - begun)
            else:
                self.gaps.append(now - last)
            last = now
        _write_chunk(writer, _event({}, finish_reason="stop"))
        usage = {"prompt_tokens": 1000, "completion_tokens": self.tokens, "total_tokens": 1000 + self.tokens}
        _write_chunk(writer, _data({**_chunk(), "choices": [], "usage": usage}))
        _write_chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def serving_provider(provider: Provider) -> AsyncIterator[Provider]:
    """Serve it on a free loopback port; its base URL is in `address`."""
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(provider.converse(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    provider.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def _token(number: int, of: int) -> str:
    return " [1]." if number == of else f" word{number}"


def _chunk() -> dict[str, Any]:
    return {"id": "bench", "object": "chat.completion.chunk", "created": 0, "model": MODEL}


def _event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    return _data({**_chunk(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def _data(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _whole(writer: asyncio.StreamWriter) -> None:
    message = {"role": "assistant", "content": _WHOLE_ANSWER}
    answer = {
        "id": "bench",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    writer.write(_HEAD.format(content_type="application/json").encode())
    _write_chunk(writer, json.dumps(answer).encode())
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The JSON body of the next request; None where the connection ends instead."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = 0
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    body = json.loads(await reader.readexactly(length) or b"{}")
    return body if isinstance(body, dict) else {}
