"""How many answers can stream side by side before their tokens come unevenly."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from groundline_cli.bench.chats import timed_chat
from groundline_cli.bench.provider import Provider
from groundline_cli.bench.statistics import percentile
from groundline_cli.client import GatewayClient, JsonObject

__all__ = ["StreamStep", "measure_streams", "sustained"]

_MOST_STRETCH = 2.0
"""The gap between tokens may be this many times the provider's own."""


@dataclass(frozen=True)
class StreamStep:
    """One number of streams; gaps in milliseconds at the 95th percentile."""

    streams: int
    gap_p95: float
    provider_gap_p95: float
    provider_planned_gap: float

    @property
    def held(self) -> bool:
        """Whether tokens came as evenly as is asked."""
        return self.gap_p95 <= _MOST_STRETCH * self.provider_gap_p95


async def measure_streams(
    client: GatewayClient, requests: Sequence[JsonObject], provider: Provider, *, most: int
) -> list[StreamStep]:
    """1, 2, 4 and so on streams at the same time, until they no longer hold or `most` is reached."""
    steps: list[StreamStep] = []
    streams = 1
    source = cycle(requests)
    while streams <= most:
        provider.forget()
        chats = await asyncio.gather(*(timed_chat(client, request) for request in islice(source, streams)))
        gaps = [gap for chat in chats for gap in chat.gaps]
        if not gaps or not provider.gaps:
            break
        step = StreamStep(
            streams=streams,
            gap_p95=percentile(gaps, 0.95) * 1000,
            provider_gap_p95=percentile(provider.gaps, 0.95) * 1000,
            provider_planned_gap=1000 / provider.tokens_per_second,
        )
        steps.append(step)
        if not step.held:
            break
        streams *= 2
    return steps


def sustained(steps: Sequence[StreamStep]) -> int:
    """The largest number of streams that held."""
    return max((step.streams for step in steps if step.held), default=0)
