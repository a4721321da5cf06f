"""Processor time and memory of an idle suite."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groundline_cli.ingestion import ensure_collection, ingest_documents
from groundline_client import AsyncClient

from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.processes import processor_time
from groundline_benchmarks.measuring.running import MeasurementError, Report
from groundline_benchmarks.measuring.suite import Suite

_SETTLE_SECONDS: Final = 60.0
"""Time from its last request to the measurement, in seconds: connections without one are pinged, and closed
after 30."""

_COLLECTION: Final = "bench"
_TEXT: Final = "The radio tower of Kiel is 308 metres high."


@dataclass(frozen=True, slots=True)
class IdleFigures:
    """Shares of a core, 0 to 1, by process."""

    seconds: float
    shares: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.shares.values())

    def goals(self) -> list[Goal]:
        return [Goal("the whole suite, percent of a core", self.total * 100, 0.8)]


async def measure_idle(suite: Suite, client: AsyncClient, seconds: float, report: Report) -> IdleFigures:
    """Measure a suite that has been used: pools, channels and models are open.

    Raises GatewayError, MeasurementError.
    """
    report("one document, one question")
    await ensure_collection(client, _COLLECTION)
    document = {"uri": "tower.txt", "text": _TEXT, "mimeType": "text/plain"}
    ingested = await ingest_documents(client, [document], _COLLECTION, total=1)
    if ingested.failures:
        raise MeasurementError("the document could not be ingested")
    await client.answer("How high is the tower?", collection_ids=[_COLLECTION])
    await asyncio.sleep(_SETTLE_SECONDS)
    report(f"{seconds:g} s without a request")
    with processor_time(suite.pids) as taken:
        await asyncio.sleep(seconds)
    return IdleFigures(seconds, {name: used / seconds for name, used in taken.items()})
