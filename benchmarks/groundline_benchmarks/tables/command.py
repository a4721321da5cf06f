"""groundline bench tables"""

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.measuring.databases import database_option
from groundline_benchmarks.measuring.goals import goals_as_json, print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.own_suite import own_suite
from groundline_benchmarks.measuring.running import Report, run
from groundline_benchmarks.tables.benchmark import TableFigures, ask_tables


@click.command()
@number("--questions", 200, "Questions to ask.", minimum=1)
@number("--seed", 1, "Seed of the tables and questions.")
@click.option("--missed", is_flag=True, help="Print the questions that were not answered as they should be.")
@database_option
@json_option
def tables(questions: int, seed: int, missed: bool, database_url: str | None, as_json: bool) -> None:
    """Ask tables of every format questions whose answers are known, in English and German.

    Brings 30 files into a suite of its own. Right is what has the right rows or the right number; questions
    that the table does not answer, or that rules do not follow, should be refused.
    """

    async def measure(report: Report) -> TableFigures:
        async with own_suite(database_url, report) as suite, suite.connection.client() as client:
            return await ask_tables(client, seed, questions, report)

    figures = run(measure)
    if as_json:
        outcomes = {kind: dict(found) for kind, found in figures.outcomes.items()}
        print_json({"outcomes": outcomes, "goals": goals_as_json(figures.goals())})
        return
    rows = [
        (kind, found["right"], found["refused"], found["wrong"])
        for kind, found in sorted(figures.outcomes.items())
    ]
    print_columns(("QUESTIONS", "RIGHT", "REFUSED", "WRONG"), rows)
    for question, outcome, said in figures.missed if missed else ():
        click.echo(f"{outcome}: {question.text} ({question.file}) {said}")
    print_goals(figures.goals())
