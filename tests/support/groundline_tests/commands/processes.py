"""Processes of tests, forked from one that has loaded their code, which takes longer than what they do."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from typing import Final
from unittest.mock import patch

from groundline_tests.shown import ROOT

FORKING: Final = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(
    ["groundline_tests.ingestor.killed", "groundline_tests.ingestor.worker_process"]
)


def forked(run: Callable[..., None], *arguments: object) -> ForkServerProcess:
    """Start a process that does this."""
    process = FORKING.Process(target=run, args=arguments)
    # For the process that it is forked from, which begins with the first one.
    with patch.dict(os.environ, PYTHONPATH=str(ROOT / "tests/support")):
        process.start()
    return process
