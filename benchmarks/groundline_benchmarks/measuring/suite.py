"""A suite of its own to measure, so that nothing else is in its database and its processes are known."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from groundline_cli.connection import Connection

__all__ = ["Suite", "SuiteFailedError", "started_suite"]

_START_SECONDS = 300.0
_STOP_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.05
_LOG = "up.log"
_LOG_CHARACTERS = 2_000

# A measurement sends as fast as it is answered, from one client.
_UNLIMITED = {
    "GROUNDLINE_GATEWAY_RATE_LIMIT_PER_MINUTE": "10000000",
    "GROUNDLINE_GATEWAY_RATE_LIMIT_BURST": "1000000",
}


class SuiteFailedError(Exception):
    """The suite did not start; the message ends with its last words."""


@dataclass(frozen=True)
class Suite:
    """A suite that answers, with the process ids of its parts by name."""

    connection: Connection
    pids: Mapping[str, int]


@asynccontextmanager
async def started_suite(directory: Path, environment: Mapping[str, str]) -> AsyncIterator[Suite]:
    """`groundline up` on free ports with its data below `directory`; stopped on leaving.

    Raises SuiteFailedError.
    """
    ready_file = directory / "ready.json"
    with _open_log(directory) as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "groundline_cli", "up", "--gateway-port", "0"),
            *("--data-dir", str(directory / "data"), "--ready-file", str(ready_file)),
            env={**os.environ, **_UNLIMITED, **environment},
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
        yield Suite(Connection(ready["gateway"], ready["api_key"]), ready["pids"])
    except TimeoutError as error:
        if ready_file.exists():
            raise
        raise SuiteFailedError("the suite did not start in time") from error
    finally:
        await _stop(process)


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
