"""Real processes, and proof that they are gone."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres


def _is_gone(pid: int) -> bool:
    """True for an ended process, collected by its parent or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    return _is_gone


@pytest.fixture
def end_of() -> Callable[[list[int]], list[int]]:
    """Waits (20 s) for processes that are not our children; returns those that have not ended."""

    def wait(pids: list[int]) -> list[int]:
        processes = []
        for pid in pids:
            try:
                processes.append(psutil.Process(pid))
            except psutil.NoSuchProcess:
                continue
        _, alive = psutil.wait_procs([process for process in processes if not _is_gone(process.pid)], 20)
        return [process.pid for process in alive if not _is_gone(process.pid)]

    return wait


@pytest.fixture
def environment() -> dict[str, str]:
    """An environment without settings of Groundline."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLINE_")}


@pytest.fixture(scope="session")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of an embedded PostgreSQL that has been set up and stopped."""
    directory = tmp_path_factory.mktemp("initialised") / "postgres"

    async def set_up() -> None:
        async with EmbeddedPostgres(directory):
            pass

    asyncio.run(set_up())
    return directory


@pytest.fixture
def copy_of_initialised(initialised: Path) -> Callable[[Path], Path]:
    """Copies `initialised`, with its owners, which takes a fraction of the time of a first start."""

    def copy(target: Path) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", str(initialised), str(target)], check=True)
        return target

    return copy
