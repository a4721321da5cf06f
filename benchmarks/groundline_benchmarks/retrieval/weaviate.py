"""Weaviate beside PostgreSQL: a second suite on the same database, whose retriever searches it."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
import psutil
from groundline_runtime.settings import Settings, SettingsError, load_settings
from groundline_weaviate import Space, WeaviateSettings, open_weaviate

from groundline_benchmarks.measuring.processes import memory_mib
from groundline_benchmarks.measuring.running import MeasurementError, Report
from groundline_benchmarks.measuring.suite import Suite, started_suite

POLL_SECONDS: Final = 0.5
REPORT_SECONDS: Final = 30.0

_ON_IPV4: Final = "ipv4:"
_SPACES: Final = """
    SELECT DISTINCT embedding_model, dimensions, is_quantized IS TRUE FROM search_index_partitions
"""
_STATE: Final = """
    SELECT coalesce(sum(filled_count), 0)::bigint AS filled,
           (SELECT count(*) FROM chunk_partitions AS p WHERE NOT EXISTS (
                SELECT FROM search_index_partitions AS s
                WHERE s.partition_id = p.partition_id AND s.fill_position IS NULL)) AS unfilled,
           (SELECT count(*) FROM search_index_changes) AS changes
    FROM search_index_partitions
"""


class _Settings(Settings):
    """Settings that the retriever and the ingestor read as well."""

    weaviate: WeaviateSettings | None = None


@dataclass(frozen=True, slots=True)
class Fed:
    """Outcome of bringing the database's chunks to the index."""

    chunks: int
    """Number of chunks; 0 if an earlier run has done it."""
    seconds: float
    """Time in seconds, the start of the suite included."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Resources of the nodes on this machine together."""

    count: int
    memory_mib: float
    disk_mib: float


@dataclass(frozen=True, slots=True)
class WeaviateSuite:
    suite: Suite
    settings: WeaviateSettings
    fed: Fed


def weaviate_settings() -> WeaviateSettings:
    """Return the engine's addresses from the environment. Raises MeasurementError."""
    try:
        found = load_settings(_Settings).weaviate
    except SettingsError as error:
        raise MeasurementError(str(error)) from error
    if found is None:
        raise MeasurementError(
            "GROUNDLINE_WEAVIATE__HTTP_URL and GROUNDLINE_WEAVIATE__GRPC_TARGET must say where Weaviate is"
        )
    return found


@asynccontextmanager
async def suite_on_weaviate(
    suite: Suite, directory: Path, settings: WeaviateSettings, report: Report, *, is_kept: bool
) -> AsyncIterator[WeaviateSuite]:
    """Provide a suite on the database of `suite`, when its ingestor has brought all chunks to the index.

    The classes are dropped afterwards unless `is_kept`.
    """
    if not is_kept:
        settings = settings.model_copy(update={"class_prefix": f"Bench{uuid.uuid4().hex[:8]}"})
    environment = {
        **_environment(settings),
        "GROUNDLINE_DATABASE_URL": suite.database_url,
        "GROUNDLINE_RETRIEVER_SEARCH_INDEX": "weaviate",
    }
    report("starting a suite that searches Weaviate")
    begun, (filled, _, _) = time.monotonic(), await _state(suite.database_url)
    async with started_suite(directory, environment) as other:
        try:
            chunks = await _filled(suite.database_url, report) - filled
            yield WeaviateSuite(other, settings, Fed(chunks, time.monotonic() - begun))
        finally:
            if not is_kept:
                await _drop(suite.database_url, settings)


async def _drop(database_url: str, settings: WeaviateSettings) -> None:
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        spaces = await connection.fetch(_SPACES)
    finally:
        await connection.close()
    async with open_weaviate(settings) as weaviate:
        for space in spaces:
            await weaviate.drop(Space(*space))


def nodes_here(settings: WeaviateSettings) -> Nodes:
    """Return the engine's nodes that run on this machine, by the ports that clients use."""
    ports = {_port(one) for one in settings.grpc_target.removeprefix(_ON_IPV4).split(",")}
    memory = disk = 0.0
    count = 0
    for process in psutil.process_iter():
        try:
            listening = {one.laddr.port for one in process.net_connections("tcp") if one.status == "LISTEN"}
            if not ports & listening:
                continue
            data = Path(process.environ().get("PERSISTENCE_DATA_PATH", ""))
            memory += memory_mib(process)
        except psutil.Error:  # another user's, or ended meanwhile
            continue
        count += 1
        disk += sum(_sizes(data)) / 2**20
    return Nodes(count, memory, disk)


def _port(target: str) -> int:
    return int(target.rpartition(":")[2])


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            found = path.lstat()
        except FileNotFoundError:  # the engine merges its files
            continue
        yield found.st_blocks * 512


async def _filled(database_url: str, report: Report) -> int:
    """Wait until the index has every chunk of PostgreSQL; return their number."""
    reported = time.monotonic()
    while True:
        filled, unfilled, changes = await _state(database_url)
        if not unfilled and not changes:
            return filled
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            report(f"feeding Weaviate: {filled} chunks so far")
        await asyncio.sleep(POLL_SECONDS)


async def _state(database_url: str) -> tuple[int, int, int]:
    """Return the chunks in the index, partitions that lack some, and changes that wait."""
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        [(filled, unfilled, changes)] = await connection.fetch(_STATE)
    finally:
        await connection.close()
    return filled, unfilled, changes


def _environment(settings: WeaviateSettings) -> dict[str, str]:
    """Return the environment as the services read it."""
    values = settings.model_dump(mode="json", exclude_none=True)
    if settings.api_key is not None:
        values["api_key"] = settings.api_key.get_secret_value()
    return {f"GROUNDLINE_WEAVIATE__{name.upper()}": str(value) for name, value in values.items()}
