"""Time to the first delta through the gateway, its parts, and what the suite adds to the work itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groundline_client import AsyncClient, JsonObject

from groundline_benchmarks.chat.chats import TimedChat, timed_chat
from groundline_benchmarks.chat.provider import Provider
from groundline_benchmarks.measuring.processes import processor_time
from groundline_benchmarks.measuring.statistics import percentile

OVERHEAD: Final = (
    "time to the first delta through the gateway, less the longer of keyword search and embedding + semantic "
    "search, less the model's first token; chat by chat"
)
"""Explanation of the figure for its readers."""

_PARTS: Final = (
    "STAGE_EMBEDDING",
    "STAGE_KEYWORD_SEARCH",
    "STAGE_SEMANTIC_SEARCH",
    "STAGE_RETRIEVING",
    "STAGE_RERANKING",
    "STAGE_FETCHING",
    "STAGE_FIRST_TOKEN",
)


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds at the median and the 95th percentile."""

    chats: int
    first_delta: tuple[float, float]
    provider_first_token: tuple[float, float]
    """Time to the provider's first token; for the extractive provider as the coordinator sees it, with the
    call's own cost."""
    overhead: tuple[float, float]
    """Time that the suite adds; see OVERHEAD."""
    parts: Mapping[str, tuple[float, float]]
    processor_ms: Mapping[str, float]
    """Processor time of each process for one chat, in milliseconds, on average."""


async def measure_latency(
    client: AsyncClient,
    requests: Sequence[JsonObject],
    provider: Provider | None,
    pids: Mapping[str, int],
    *,
    warm_up: int,
    on_chat: Callable[[], None] = lambda: None,
) -> Latency:
    """Run chats one after the other; the first `warm_up` do not count."""
    chats: list[TimedChat] = []
    model: list[float] = []
    for request in requests[:warm_up]:
        await timed_chat(client, request)
        on_chat()
    with processor_time(pids) as taken:
        for request in requests[warm_up:]:
            if provider is not None:
                provider.forget()
            chat = await timed_chat(client, request)
            on_chat()
            chats.append(chat)
            # With a provider of our own: its own measure; a refusal does not ask it.
            if provider is None:
                model.append(chat.timings.get("STAGE_FIRST_TOKEN", 0.0))
            else:
                model.append(provider.first_token[0] if provider.first_token else 0.0)
    overheads = [
        chat.first_delta - work_seconds(chat.timings) - own for chat, own in zip(chats, model, strict=True)
    ]
    return Latency(
        chats=len(chats),
        first_delta=_milliseconds([chat.first_delta for chat in chats]),
        provider_first_token=_milliseconds(model),
        overhead=_milliseconds(overheads),
        parts={part: _milliseconds([chat.timings.get(part, 0.0) for chat in chats]) for part in _PARTS},
        processor_ms={name: seconds / len(chats) * 1000 for name, seconds in taken.items()},
    )


def work_seconds(timings: Mapping[str, float]) -> float:
    """Add up embedding and SQL in sequence: the keyword search runs beside both of the others."""
    embedded = timings.get("STAGE_EMBEDDING", 0.0) + timings.get("STAGE_SEMANTIC_SEARCH", 0.0)
    return max(timings.get("STAGE_KEYWORD_SEARCH", 0.0), embedded)


def _milliseconds(seconds: Sequence[float]) -> tuple[float, float]:
    return percentile(seconds, 0.5) * 1000, percentile(seconds, 0.95) * 1000
