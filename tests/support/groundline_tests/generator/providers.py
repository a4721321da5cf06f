"""Local servers that speak the providers' wire formats, for tests; what they answer is scripted."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from groundline_tests.listening import listening

CUT: Final = object()
"""A step of a reply: the connection breaks."""

HOLD: Final = object()
"""A step of a reply: nothing comes until the client goes away."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of the server: a status, and steps of text, CUT, HOLD, or seconds of silence."""

    steps: Sequence[object] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the server."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class ProviderServer:
    """A server that gives its replies in order, repeating the last, or the result of `respond` for a request.

    `async with ProviderServer() as server:`; `abandoned` is set once a client has left in the middle.
    """

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.respond: Callable[[Request], Reply] | None = None
        self.requests: list[Request] = []
        self.abandoned = asyncio.Event()
        self.holding = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "ProviderServer":
        self._listening = listening(self._serve)
        self.url = f"http://127.0.0.1:{await self._listening.__aenter__()}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listening.__aexit__(None, None, None)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._exchange(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        if method == "PRI":  # a gRPC client of another test, whose server had this port before
            return False
        headers = {
            name.lower(): value.strip() for name, _, value in (h.partition(":") for h in head[1:]) if name
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, path, headers, json.loads(raw) if raw else None)
        self.requests.append(request)
        if self.respond is not None:
            reply = self.respond(request)
        else:
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        lines = [f"HTTP/1.1 {reply.status} Scripted", f"content-type: {reply.content_type}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode("latin-1"))
        for step in reply.steps:
            if step is CUT:
                await writer.drain()
                writer.transport.abort()
                return False
            if step is HOLD:
                await writer.drain()
                self.holding.set()
                if not await reader.read(1):
                    self.abandoned.set()
                    return False
                continue
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            data = str(step).encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


class OpenAIWire:
    """Chat completions as OpenAI, Ollama, vLLM and llama.cpp stream them."""

    def text(self, text: str) -> str:
        return _event(
            {"id": "c", "model": "served-model", "choices": [{"index": 0, "delta": {"content": text}}]}
        )

    def end(self, reason: str = "stop") -> str:
        return _event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})

    def usage(self, prompt: int, cached: int, output: int) -> str:
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        return _event({"id": "c", "choices": [], "usage": usage}) + "data: [DONE]\n\n"

    def answer(self, *texts: str) -> Reply:
        return Reply([*map(self.text, texts), self.end(), self.usage(12, 4, 5)])

    def cut_short(self) -> str:
        return self.end("length")

    def withheld(self) -> Reply:
        return Reply([self.end("content_filter"), "data: [DONE]\n\n"])

    def failure(self, status: int, headers: Mapping[str, str] | None = None, message: str = "no") -> Reply:
        body = json.dumps({"error": {"message": message, "type": "scripted"}})
        return Reply([body], status, headers or {}, "application/json")

    def base_url(self, server: ProviderServer) -> str:
        return f"{server.url}/v1"


class GeminiWire:
    """Wire format of `streamGenerateContent?alt=sse`."""

    def text(self, text: str) -> str:
        return _event({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]})

    def end(self, reason: str = "STOP") -> str:
        return _event({"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": reason}]})

    def usage(self, prompt: int, cached: int, output: int) -> str:
        return _event(
            {
                "usageMetadata": {
                    "promptTokenCount": prompt,
                    "cachedContentTokenCount": cached,
                    "candidatesTokenCount": output,
                },
                "modelVersion": "served-model",
            }
        )

    def answer(self, *texts: str) -> Reply:
        return Reply([*map(self.text, texts), self.end(), self.usage(12, 4, 5)])

    def cut_short(self) -> str:
        return self.end("MAX_TOKENS")

    def withheld(self) -> Reply:
        return Reply([_event({"promptFeedback": {"blockReason": "SAFETY"}})])

    def failure(self, status: int, headers: Mapping[str, str] | None = None, message: str = "no") -> Reply:
        body = json.dumps({"error": {"code": status, "message": message, "status": "SCRIPTED"}})
        return Reply([body], status, headers or {}, "application/json")

    def base_url(self, server: ProviderServer) -> str:
        return server.url


type Wire = OpenAIWire | GeminiWire


def _event(content: object) -> str:
    return f"data: {json.dumps(content)}\n\n"
