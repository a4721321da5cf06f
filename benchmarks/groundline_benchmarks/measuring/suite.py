"""A suite of its own to measure, with an empty database and known processes."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import asyncpg
import psutil
from groundline_cli.connection import Connection

SERVICES: Final = ("coordinator", "retriever", "reranker", "generator", "ingestor", "collector", "bridge")
SUPERVISOR: Final = "groundline up"
"""Name among `Suite.pids` of the process that has started the others."""

PROCESSES: Final = ("postgres", *SERVICES, "envoy", SUPERVISOR)
"""Names of `Suite.pids`, in the order in which figures are shown."""

_START_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 60.0
_LOOK_AGAIN_SECONDS: Final = 0.05
_LOG: Final = "up.log"
_LOG_CHARACTERS: Final = 2_000

_NOT_INHERITED: Final = ("GROUNDLINE_DATABASE_URL", "GROUNDLINE_WEAVIATE__")

# A measurement sends as fast as it is answered, from one client.
_UNLIMITED: Final = {
    "GROUNDLINE_GATEWAY_RATE_LIMIT_PER_MINUTE": "1000000000",
    "GROUNDLINE_GATEWAY_RATE_LIMIT_BURST": "1000000000",
}


class SuiteFailedError(Exception):
    """The suite did not start; the message ends with its last output."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite that answers."""

    connection: Connection
    addresses: Mapping[str, str]
    """host:port of each service; replicas are separated by commas."""
    pids: Mapping[str, int]
    """Process ids of its parts by name, at its start: the services, `postgres`, `envoy`, and SUPERVISOR."""
    database_url: str
    ready_file: Path

    def pid(self, name: str) -> int:
        """Return the current process id of a part, which may have been started again."""
        return int(json.loads(self.ready_file.read_text())["pids"].get(name, self.pids[name]))


@contextmanager
def working_directory(data_dir: Path | None) -> Iterator[Path]:
    """Provide `data_dir`, which is kept, or a directory that is removed afterwards."""
    if data_dir is not None:
        yield data_dir
    else:
        with tempfile.TemporaryDirectory(prefix="groundline-bench-") as folder:
            yield Path(folder)


@asynccontextmanager
async def started_suite(
    directory: Path, environment: Mapping[str, str], *, replicas: int = 1
) -> AsyncIterator[Suite]:
    """Run `groundline up` on free ports with its data below `directory`; stop it on leaving.

    The database is the embedded one and no other index is fed, whatever GROUNDLINE_DATABASE_URL and
    GROUNDLINE_WEAVIATE__… say, unless `environment` names others. Raises SuiteFailedError.
    """
    ready_file = directory / "ready.json"
    ready_file.unlink(missing_ok=True)  # of a suite that was killed
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    with _open_log(directory) as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "groundline_cli", "up", "--gateway-port", "0"),
            *("--data-dir", str(directory / "data"), "--ready-file", str(ready_file)),
            *("--replicas", str(replicas)),
            env={**inherited, **_UNLIMITED, **environment},
            stdout=log,
            stderr=log,
        )
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not ready_file.exists():
                if process.returncode is not None:
                    raise SuiteFailedError(f"the suite did not start:\n{_last_words(directory)}")
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        ready = json.loads(ready_file.read_text())
        pids = {**ready["pids"], SUPERVISOR: process.pid}
        if "postgres" not in pids:
            pids["postgres"] = await _postmaster(ready["database_url"])
        yield Suite(
            connection=Connection(ready["gateway"], ready["api_key"]),
            addresses=ready["services"],
            pids=pids,
            database_url=ready["database_url"],
            ready_file=ready_file,
        )
    except TimeoutError as error:
        if ready_file.exists():
            raise
        raise SuiteFailedError("the suite did not start in time") from error
    finally:
        await _stop(process)


async def _postmaster(database_url: str) -> int:
    """Return the process id of a database's server. Raises SuiteFailedError if it is on another machine: its
    processor time belongs to the figures."""
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        name = await connection.fetchval("SELECT current_database()")
        with suppress(psutil.NoSuchProcess):
            backend = psutil.Process(connection.get_server_pid())
            if name in " ".join(backend.cmdline()):
                return int(backend.ppid())
    finally:
        await connection.close()
    raise SuiteFailedError("the database's server does not run on this machine, where it could be measured")


def _open_log(directory: Path) -> IO[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    return (directory / _LOG).open("wb")


def _last_words(directory: Path) -> str:
    return (directory / _LOG).read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:]


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
