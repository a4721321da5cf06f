"""Number of answers that can stream side by side before their tokens come unevenly."""

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Final
from urllib.parse import urlsplit

from groundline_cli.connection import Connection
from groundline_client import JsonObject, ProtocolError, UnreachableError

from groundline_benchmarks.chat.provider import Provider
from groundline_benchmarks.measuring.processes import processor_time
from groundline_benchmarks.measuring.statistics import percentile

_MOST_STRETCH: Final = 2.0
"""Maximum gap between tokens, as a multiple of the provider's own."""

_ROUNDS: Final = 2
_DELTA: Final = b'"delta":'
_ENDS: Final = (b'"completed":', b'"error":')
_SUCCESS: Final = b'"completed":'
_LONGEST_MARK: Final = max(map(len, (_DELTA, *_ENDS)))


@dataclass(frozen=True, slots=True)
class StreamStep:
    """Figures for one number of streams; gaps in milliseconds at the 95th percentile."""

    streams: int
    gap_p95: float
    provider_gap_p95: float
    provider_planned_gap: float
    cores: Mapping[str, float] = field(default_factory=dict)
    """Processor time of each process, in cores; `bench` is client and provider together."""

    @property
    def held(self) -> bool:
        """Whether tokens came evenly enough."""
        return self.gap_p95 <= _MOST_STRETCH * self.provider_gap_p95


async def measure_streams(
    connection: Connection,
    requests: Sequence[JsonObject],
    provider: Provider,
    pids: Mapping[str, int],
    *,
    most: int,
) -> list[StreamStep]:
    """Measure 1, 2, 4 and so on streams at the same time, until they no longer hold or `most` is reached.

    Each stream is two answers, one after the other; the streams begin spread over the length of an answer, as
    users come, so that questions are searched for while others' answers stream. Raises GatewayError.
    """
    steps: list[StreamStep] = []
    streams = 1
    source = cycle(requests)
    length = provider.tokens / provider.tokens_per_second
    while streams <= most:
        provider.forget()
        begun = time.perf_counter()
        with processor_time({"bench": os.getpid(), **pids}) as taken:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        _stream(connection, list(islice(source, _ROUNDS)), number * length / streams)
                    )
                    for number in range(streams)
                ]
        elapsed = time.perf_counter() - begun
        gaps = [gap for task in tasks for gap in task.result()]
        if not gaps or not provider.gaps:
            break
        step = StreamStep(
            streams=streams,
            gap_p95=percentile(gaps, 0.95) * 1000,
            provider_gap_p95=percentile(provider.gaps, 0.95) * 1000,
            provider_planned_gap=1000 / provider.tokens_per_second,
            cores={name: seconds / elapsed for name, seconds in taken.items()},
        )
        steps.append(step)
        if not step.held:
            break
        streams *= 2
    return steps


def sustained(steps: Sequence[StreamStep]) -> int:
    """Return the largest number of streams that held."""
    return max((step.streams for step in steps if step.held), default=0)


async def _stream(connection: Connection, requests: Sequence[JsonObject], wait: float) -> list[float]:
    """Return the gaps of consecutive answers, in seconds; the time between two answers does not count."""
    await asyncio.sleep(wait)
    gaps: list[float] = []
    for request in requests:
        gaps.extend(await _gaps(connection, request))
    return gaps


async def _gaps(connection: Connection, request: JsonObject) -> list[float]:
    address = urlsplit(connection.gateway)
    body = json.dumps(request).encode()
    head = (
        f"POST /api/chat HTTP/1.1\r\nhost: {address.netloc}\r\nauthorization: Bearer {connection.api_key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    reader = _Reader()
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_connection(
            lambda: reader, address.hostname or "", address.port or 80
        )
    except OSError as error:
        raise UnreachableError(f"no connection to {connection.gateway}") from error
    try:
        transport.write(head.encode() + body)
        await reader.ended
    finally:
        transport.abort()
    if not reader.succeeded:
        raise ProtocolError("a streamed answer did not end as it should")
    return [after - before for before, after in zip(reader.times, reader.times[1:], strict=False)]


class _Reader(asyncio.Protocol):
    """Protocol that records when each delta came. It looks only for the events' names: reading JSON would
    cost more than the gateway's own work, and on the same cores."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.succeeded = False
        self.times: list[float] = []
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        text = self._tail + data
        self.times.extend([now] * text.count(_DELTA))
        if any(mark in text for mark in _ENDS):
            self.succeeded = _SUCCESS in text
            self._end()
        found = max((text.rfind(mark) for mark in (_DELTA, *_ENDS)), default=-1)
        # A name may be cut in two, but must not count twice.
        self._tail = text[max(found + 1, len(text) - _LONGEST_MARK + 1) :]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
