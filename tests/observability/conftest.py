"""The programs of the session, and a suite that a real Prometheus watches."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from groundline_tests.observability.programs import programs
from groundline_tests.observability.watched import Watched, watched_suite


@pytest.fixture(scope="session")
async def built() -> Path:
    """Folder with bin/prometheus, bin/promtool and bin/sloth; they are built at first."""
    return await asyncio.to_thread(programs)


@pytest.fixture(scope="session")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    """A suite whose model is scripted, and Prometheus with the rules of deploy/observability.

    The modules that use it come last, so that Prometheus does not watch it while others run.
    """
    async with watched_suite(tmp_path_factory.mktemp("watched")) as watched:
        yield watched
