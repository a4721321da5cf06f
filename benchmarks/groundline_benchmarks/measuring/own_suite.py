"""A suite of its own for one measurement, which is gone afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groundline_benchmarks.measuring.databases import suite_database
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.suite import Suite, started_suite, working_directory


@asynccontextmanager
async def own_suite(database_url: str | None, report: Report) -> AsyncIterator[Suite]:
    """Start a suite in a temporary directory, on a database of its own. Raises SuiteFailedError."""
    with working_directory(None) as directory:
        report("starting a suite")
        async with (
            suite_database(database_url) as environment,
            started_suite(directory, environment) as suite,
        ):
            yield suite
