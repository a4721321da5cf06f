"""One chat, timed as its client sees it."""

import time
from contextlib import aclosing
from dataclasses import dataclass, field

from groundline_cli.client import GatewayClient, JsonObject

__all__ = ["TimedChat", "timed_chat"]


@dataclass
class TimedChat:
    """Times in seconds, from before the request was sent."""

    first_delta: float = 0.0
    total: float = 0.0
    gaps: list[float] = field(default_factory=list)
    """Between two deltas."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage and part, as the suite reports them."""
    degraded: bool = False


async def timed_chat(client: GatewayClient, request: JsonObject) -> TimedChat:
    """Run one chat to its end. Raises GatewayError."""
    chat = TimedChat()
    begun = time.perf_counter()
    last = 0.0
    async with aclosing(client.chat(request)) as events:
        async for event in events:
            now = time.perf_counter()
            if "delta" in event:
                if last:
                    chat.gaps.append(now - last)
                else:
                    chat.first_delta = now - begun
                last = now
            elif completed := event.get("completed"):
                chat.total = now - begun
                chat.degraded = bool(completed.get("degraded"))
                for timing in completed.get("timings", []):
                    stage = timing.get("stage", "")
                    seconds = timing.get("durationMs", 0.0) / 1000
                    chat.timings[stage] = chat.timings.get(stage, 0.0) + seconds
    return chat
