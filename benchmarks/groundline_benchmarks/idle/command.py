"""groundline bench idle"""

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.idle.benchmark import IdleFigures, measure_idle
from groundline_benchmarks.measuring.databases import database_option
from groundline_benchmarks.measuring.goals import goals_as_json, print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.own_suite import own_suite
from groundline_benchmarks.measuring.running import Report, run
from groundline_benchmarks.measuring.suite import PROCESSES


@click.command()
@number("--seconds", 60.0, "How long to watch; the system counts in steps of 10 ms.", minimum=0)
@database_option
@json_option
def idle(seconds: float, database_url: str | None, as_json: bool) -> None:
    """Measure the processor time of a suite that nobody uses.

    Starts a suite of its own, uses it once, and then watches every process: the services, PostgreSQL with its
    backends, Envoy, and `groundline up` itself.
    """

    async def measure(report: Report) -> IdleFigures:
        async with own_suite(database_url, report) as suite, suite.connection.client() as client:
            return await measure_idle(suite, client, seconds, report)

    figures = run(measure)
    if as_json:
        print_json(
            {
                "seconds": figures.seconds,
                "shares": dict(figures.shares),
                "total": figures.total,
                "goals": goals_as_json(figures.goals()),
            }
        )
        return
    print_columns(
        ("PROCESS", "PERCENT OF A CORE"), [(name, figures.shares[name] * 100) for name in PROCESSES]
    )
    print_goals(figures.goals())
