"""Running of a benchmark: it reports its steps, and leaves nothing behind when it is stopped."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any

import click
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.sets import DatasetError
from groundline_client import GatewayError

from groundline_benchmarks.measuring.suite import SuiteFailedError

type Report = Callable[[str], None]
"""Hears what is begun."""


class MeasurementError(Exception):
    """The measurement is not valid; the message says why."""


def run[T](work: Callable[[Report], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `work`, whose reports go to standard error with the seconds since the start.

    SIGTERM ends it as Ctrl-C does: by default the signal would end this process and leave the suite that it
    has started. Raises CommandFailedError.
    """
    begun = time.monotonic()

    def report(line: str) -> None:
        click.echo(f"{time.monotonic() - begun:6.1f} s  {line}", err=True)

    async def stoppable() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work(report)

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    except (DatasetError, GatewayError, MeasurementError, SuiteFailedError) as error:
        raise CommandFailedError(str(error)) from error
