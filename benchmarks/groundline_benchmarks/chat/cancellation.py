"""Time until the model's provider notices that the client has hung up."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from groundline_client import ApiError, AsyncClient, JsonObject
from groundline_client.models import ChatDelta, ChatStarted, FinishReason

from groundline_benchmarks.chat.chats import begun_chat
from groundline_benchmarks.chat.provider import Provider
from groundline_benchmarks.measuring.statistics import percentile

_WITHIN_SECONDS: Final = 10.0
_LOOK_AGAIN_SECONDS: Final = 0.01
_NOT_FOUND: Final = 404
_FIRST_TOKENS: Final = 5


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Milliseconds from a client's hanging up in the middle of an answer until its provider notices."""

    chats: int
    seen: tuple[float, float]
    """Milliseconds at the median and the 95th percentile."""
    stored: int
    """Number of these answers that are kept in their threads as cancelled."""


async def measure_cancellation(
    client: AsyncClient, requests: Sequence[JsonObject], provider: Provider
) -> Cancellation:
    """Run one chat for each request, one after the other, and leave it after a few tokens.

    Chats that never ask the provider (refusals) do not count. Raises GatewayError, and TimeoutError if the
    provider notices nothing, or nothing is stored, within ten seconds.
    """
    seen: list[float] = []
    stored = 0
    for request in requests:
        provider.forget()
        thread_id, left = await _leave(client, request)
        if not left:
            continue
        async with asyncio.timeout(_WITHIN_SECONDS):
            seen.append(await provider.abandoned.get() - left)
            stored += await _kept_as(client, thread_id) == FinishReason.CANCELLED
    if not seen:
        return Cancellation(0, (0.0, 0.0), 0)
    return Cancellation(len(seen), (percentile(seen, 0.5) * 1000, percentile(seen, 0.95) * 1000), stored)


async def _kept_as(client: AsyncClient, thread_id: str) -> FinishReason:
    """Wait until a thread's answer is stored, and return its finish reason."""
    while True:
        try:
            messages = [message async for message in client.list_messages(thread_id)]
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
        else:
            if messages[-1].finish_reason != FinishReason.UNSPECIFIED:
                return messages[-1].finish_reason
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _leave(client: AsyncClient, request: JsonObject) -> tuple[str, float]:
    """Return the thread, and when the connection was closed (time.perf_counter); 0 if the answer ended
    first."""
    thread_id, deltas = "", 0
    async with aclosing(begun_chat(client, request)) as events:
        async for event in events:
            if isinstance(event, ChatStarted):
                thread_id = event.thread_id
            deltas += isinstance(event, ChatDelta)
            if deltas == _FIRST_TOKENS:
                left = time.perf_counter()
                await events.aclose()
                return thread_id, left
    return thread_id, 0.0
