"""Events of a chat as a response of server-sent events."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

from groundline_runtime.errors import GroundlineError
from starlette.responses import StreamingResponse
from starlette.types import Send

from groundline_bridge.adapters.failures import unexpected

_HEARTBEAT: Final = b": still working\n\n"


def sse(data: Mapping[str, Any] | str, *, event: str | None = None) -> bytes:
    """Encode one server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {text}\n\n".encode()


async def event_stream[E](
    events: AsyncGenerator[E],
    written: Callable[[E], Iterable[bytes]],
    failed: Callable[[GroundlineError], Iterable[bytes]],
    *,
    heartbeat_seconds: float,
) -> StreamingResponse:
    """Return a response that sends what `written` gives for each event, and what `failed` gives for an error.

    An error before the first event is raised, so that it becomes a status. The events are closed with the
    response, however it ends.
    """
    try:
        first = await anext(events)
    except BaseException:
        await events.aclose()
        raise

    async def body() -> AsyncGenerator[bytes]:
        async with aclosing(events):
            for piece in written(first):
                yield piece
            try:
                async for event in _with_pauses(events, heartbeat_seconds):
                    for piece in (_HEARTBEAT,) if event is None else written(event):
                        yield piece
            except GroundlineError as error:
                for piece in failed(error):
                    yield piece
            except Exception:
                for piece in failed(unexpected("stream_failed")):
                    yield piece

    return _ClosingResponse(body(), media_type="text/event-stream", headers={"cache-control": "no-store"})


class _ClosingResponse(StreamingResponse):
    """A response that closes its iterator as soon as it is cancelled, and leaves no generator to the garbage
    collector."""

    async def stream_response(self, send: Send) -> None:
        body = self.body_iterator
        assert isinstance(body, AsyncGenerator)
        async with aclosing(body):
            await super().stream_response(send)


async def _with_pauses[E](events: AsyncIterator[E], seconds: float) -> AsyncGenerator[E | None]:
    """Yield the events, and None after every pause of this length."""
    waiting = asyncio.ensure_future(_next(events))
    try:
        while True:
            done, _ = await asyncio.wait((waiting,), timeout=seconds)
            if not done:
                yield None
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            yield event
            waiting = asyncio.ensure_future(_next(events))
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _next[E](events: AsyncIterator[E]) -> E:
    return await anext(events)
