"""One chat, timed as its client sees it."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from groundline_client import AsyncClient, ChatEvent, JsonObject
from groundline_client.models import ChatCompleted, ChatDelta


@dataclass(slots=True)
class TimedChat:
    """Times of a chat in seconds, from before the request was sent."""

    first_delta: float = 0.0
    total: float = 0.0
    gaps: list[float] = field(default_factory=list)
    """Times between two deltas, in seconds."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage and part, as the suite reports them."""
    degraded: bool = False


def begun_chat(client: AsyncClient, request: JsonObject) -> AsyncGenerator[ChatEvent]:
    """Yield the events of a request as POST /api/chat takes it."""
    return client.chat(
        request["query"], collection_ids=request.get("collectionIds", ()), options=request.get("options")
    )


async def timed_chat(client: AsyncClient, request: JsonObject) -> TimedChat:
    """Run one chat to its end. Raises GatewayError."""
    chat = TimedChat()
    begun = time.perf_counter()
    last = 0.0
    async with aclosing(begun_chat(client, request)) as events:
        async for event in events:
            now = time.perf_counter()
            if isinstance(event, ChatDelta):
                if last:
                    chat.gaps.append(now - last)
                else:
                    chat.first_delta = now - begun
                last = now
            elif isinstance(event, ChatCompleted):
                chat.total = now - begun
                chat.degraded = bool(event.degraded)
                for timing in event.timings:
                    seconds = timing.duration_ms / 1000
                    chat.timings[timing.stage] = chat.timings.get(timing.stage, 0.0) + seconds
    return chat
