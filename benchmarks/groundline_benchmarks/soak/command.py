"""groundline bench soak"""

from dataclasses import asdict
from typing import Final

import click
import httpx
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.chaos.load import prepared_load
from groundline_benchmarks.measuring.databases import database_option
from groundline_benchmarks.measuring.goals import goals_as_json, print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.own_suite import own_suite
from groundline_benchmarks.measuring.running import MeasurementError, Report, run
from groundline_benchmarks.soak.benchmark import SoakFigures, measure_soak

_MISSED_EXIT_CODE: Final = 1


@click.command()
@number("--minutes", 10.0, "How long it is used, after half a minute to warm up.", minimum=0)
@database_option
@json_option
def soak(minutes: float, database_url: str | None, as_json: bool) -> None:
    """Measure the growth of memory, descriptors, connections and threads of each process under a steady load.

    Starts a suite of its own. Exits with 1 if something grows that should not, or a request fails.
    """

    async def measure(report: Report) -> SoakFigures:
        async with own_suite(database_url, report) as suite:
            connection = suite.connection
            try:
                async with prepared_load([connection.gateway], connection.api_key) as load:
                    return await measure_soak(suite, load, minutes, report)
            except httpx.HTTPError as error:
                raise MeasurementError(f"the suite does not answer: {type(error).__name__}") from error

    figures = run(measure)
    if as_json:
        print_json(
            {
                "minutes": figures.minutes,
                "requests": figures.requests,
                "failed": dict(figures.failures),
                "processes": {
                    name: {"before": asdict(figures.before[name]), "after": asdict(after)}
                    for name, after in figures.after.items()
                },
                "goals": goals_as_json(figures.goals()),
            }
        )
    else:
        print_columns(
            (
                "PROCESS",
                "PROCESSES",
                "AFTER",
                "MEMORY MIB",
                "AFTER",
                "DESCRIPTORS",
                "AFTER",
                "CONNECTIONS",
                "AFTER",
                "THREADS",
                "AFTER",
            ),
            [
                (
                    name,
                    *(
                        figure
                        for pair in zip(
                            asdict(figures.before[name]).values(), asdict(after).values(), strict=True
                        )
                        for figure in pair
                    ),
                )
                for name, after in figures.after.items()
            ],
        )
        for failure, count in figures.failures.items():
            click.echo(f"{count} x {failure}")
        print_goals(figures.goals())
    if not all(goal.is_met for goal in figures.goals()):
        raise SystemExit(_MISSED_EXIT_CODE)
