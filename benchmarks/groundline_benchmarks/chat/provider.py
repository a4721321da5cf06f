"""A chat endpoint in OpenAI's form that streams tokens at a steady rate: a model of known speed.

It shares the machine's cores with the suite under measurement, so a token costs it two writes: no tasks, no
encoding.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

MODEL: Final = "bench"

# Answer of a call that does not stream: nothing to rewrite, nothing to judge.
_WHOLE_ANSWER: Final = "{}"
_END_OF_HEAD: Final = b"\r\n\r\n"
_END_OF_BODY: Final = b"0\r\n\r\n"


@dataclass(slots=True)
class Provider:
    """Behaviour of the provider, and its own measurements; times in seconds."""

    tokens: int = 200
    tokens_per_second: float = 100.0
    retry_after_seconds: int | None = None
    """Retry-After of the 429 with which every call is refused while this is set, in seconds."""
    refused_calls: int = 0
    address: str = ""
    first_token: list[float] = field(default_factory=list)
    """Times from the end of each request to its first token."""
    gaps: list[float] = field(default_factory=list)
    """Times between two tokens of one stream."""
    whole_calls: int = 0
    """Number of calls that did not stream."""
    abandoned: "asyncio.Queue[float]" = field(default_factory=asyncio.Queue)
    """Times (time.perf_counter) at which it noticed that a stream's client had hung up."""

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a suite whose generator calls it."""
        return {
            "GROUNDLINE_GENERATOR_PROVIDER": "openai",
            "GROUNDLINE_GENERATOR_MODEL": MODEL,
            "GROUNDLINE_GENERATOR_PROVIDER_BASE_URL": self.address,
            "GROUNDLINE_GENERATOR_PROVIDER_API_KEY": "bench",
        }

    def forget(self) -> None:
        """Drop the measurements."""
        self.first_token.clear()
        self.gaps.clear()
        while not self.abandoned.empty():
            self.abandoned.get_nowait()


@asynccontextmanager
async def serving_provider(provider: Provider) -> AsyncIterator[Provider]:
    """Serve it on a free loopback port; its base URL is in `address`."""
    connections: set[_Connection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(provider, connections), "127.0.0.1", 0)
    provider.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        server.close()
        for connection in tuple(connections):
            connection.close()
        await server.wait_closed()


class _Connection(asyncio.Protocol):
    """A client that asks for one answer after the other."""

    def __init__(self, provider: Provider, connections: "set[_Connection]") -> None:
        self._provider = provider
        self._connections = connections
        self._received = bytearray()
        self._stream: _Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (body := self._next_request()) is not None:
            if (seconds := self._provider.retry_after_seconds) is not None:
                self._provider.refused_calls += 1
                self._transport.write(_refusal(seconds))
            elif body.get("stream"):
                self._stream = _Stream(self._provider, self._transport)
            else:
                self._provider.whole_calls += 1
                self._transport.write(_whole())

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._stream is not None and self._stream.abandon():
            self._provider.abandoned.put_nowait(time.perf_counter())

    def pause_writing(self) -> None:
        if self._stream is not None:
            self._stream.pause()

    def resume_writing(self) -> None:
        if self._stream is not None:
            self._stream.resume()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.abandon()
        self._transport.close()

    def _next_request(self) -> dict[str, Any] | None:
        """Return the JSON body of the next request, or None until it is complete."""
        end = self._received.find(_END_OF_HEAD)
        if end < 0:
            return None
        begin = end + len(_END_OF_HEAD)
        length = _content_length(bytes(self._received[:end]))
        if len(self._received) < begin + length:
            return None
        body = json.loads(self._received[begin : begin + length] or b"{}")
        del self._received[: begin + length]
        return body if isinstance(body, dict) else {}


class _Stream:
    """A streamed answer. Tokens keep to the plan: one that comes late does not delay those after it."""

    def __init__(self, provider: Provider, transport: asyncio.Transport) -> None:
        self._provider = provider
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._gap = 1 / provider.tokens_per_second
        self._begun_by_plan = self._loop.time()
        self._begun = time.perf_counter()
        self._last = 0.0
        self._number = 0
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        transport.write(_HEAD_OF_STREAM)
        self._plan()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._plan()

    def abandon(self) -> bool:
        """Stop sending; return whether there was more to send."""
        unfinished = self._number < self._provider.tokens
        self._number = self._provider.tokens
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return unfinished

    def _plan(self) -> None:
        if self._timer is None and not self._paused and self._number < self._provider.tokens:
            self._timer = self._loop.call_at(
                self._begun_by_plan + (self._number + 1) * self._gap, self._send_token
            )

    def _send_token(self) -> None:
        self._timer = None
        self._number += 1
        last = self._number == self._provider.tokens
        self._transport.write(_LAST_TOKEN if last else _TOKEN)
        now = time.perf_counter()
        if self._number == 1:
            self._provider.first_token.append(now - self._begun)
        else:
            self._provider.gaps.append(now - self._last)
        self._last = now
        if last:
            self._transport.write(_end(self._number))
        else:
            self._plan()


def _head(content_type: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode()


def _chunk() -> dict[str, Any]:
    return {"id": "bench", "object": "chat.completion.chunk", "created": 0, "model": MODEL}


def _event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    return _data({**_chunk(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def _data(value: dict[str, Any]) -> bytes:
    return _framed(f"data: {json.dumps(value)}\n\n".encode())


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _end(tokens: int) -> bytes:
    usage = {"prompt_tokens": 1000, "completion_tokens": tokens, "total_tokens": 1000 + tokens}
    return b"".join(
        (
            _event({}, finish_reason="stop"),
            _data({**_chunk(), "choices": [], "usage": usage}),
            _framed(b"data: [DONE]\n\n"),
            _END_OF_BODY,
        )
    )


def _whole() -> bytes:
    message = {"role": "assistant", "content": _WHOLE_ANSWER}
    answer = {
        "id": "bench",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return _head("application/json") + _framed(json.dumps(answer).encode()) + _END_OF_BODY


def _refusal(retry_after_seconds: int) -> bytes:
    body = json.dumps({"error": {"message": "busy", "type": "rate_limit_error", "code": "rate_limited"}})
    head = (
        f"content-type: application/json\r\nretry-after: {retry_after_seconds}\r\ncontent-length: {len(body)}"
    )
    return f"HTTP/1.1 429 Too Many Requests\r\n{head}\r\n\r\n{body}".encode()


def _content_length(head: bytes) -> int:
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
    return 0


_HEAD_OF_STREAM: Final = _head("text/event-stream")
_TOKEN: Final = _event({"content": " word"})
_LAST_TOKEN: Final = _event({"content": " [1]."})
