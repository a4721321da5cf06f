"""groundline bench past"""

import tempfile
from pathlib import Path

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_json

from groundline_benchmarks.measuring.databases import database_option, database_server
from groundline_benchmarks.measuring.goals import goals_as_json, print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import Report, run
from groundline_benchmarks.past.benchmark import PastFigures, measure_past


@click.command()
@number("--chunks", 10_000, "Chunks of the present.", minimum=2000)
@number("--revisions", 10, "Revisions of each chunk.", minimum=2)
@number("--queries", 60, "Queries, each as of a time of its own.", minimum=1)
@database_option
@json_option
def past(chunks: int, revisions: int, queries: int, database_url: str | None, as_json: bool) -> None:
    """Search what was current then, beside the present and beside a collection without a past.

    Writes two collections of the same chunks; one of them has as many again for
    each earlier revision, in which every chunk differs. The retriever searches in this process, for each
    query the three in turn. Processor time counts, of PostgreSQL and this process.
    """

    async def measure(report: Report) -> PastFigures:
        with tempfile.TemporaryDirectory() as directory:
            async with database_server(database_url, Path(directory)) as databases, databases() as url:
                return await measure_past(url, chunks, revisions, queries, report)

    figures = run(measure)
    goals = figures.goals()
    if as_json:
        print_json({"processorMs": figures.milliseconds, "goals": goals_as_json(goals)})
        return
    for name, milliseconds in figures.milliseconds.items():
        click.echo(f"{name}: {milliseconds:.1f} ms of processor time a search")
    print_goals(goals)
