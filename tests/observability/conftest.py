"""The programs of the session."""

import asyncio
from pathlib import Path

import pytest
from groundline_tests.observability.programs import programs


@pytest.fixture(scope="session")
async def built() -> Path:
    """Folder with bin/prometheus, bin/promtool and bin/sloth; they are built at first."""
    return await asyncio.to_thread(programs)
