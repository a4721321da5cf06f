"""groundline bench chaos"""

from collections.abc import Sequence
from typing import Final

import click
import httpx
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.chaos.benchmark import FaultFigures, measure_fault
from groundline_benchmarks.chaos.faults import FAULTS, Rig
from groundline_benchmarks.chaos.gateway import NEIGHBOUR_KEY, second_gateway
from groundline_benchmarks.chaos.load import Outcome, prepared_load
from groundline_benchmarks.chaos.neighbour import other_client
from groundline_benchmarks.chat.provider import Provider, serving_provider
from groundline_benchmarks.measuring.databases import database_option, suite_database
from groundline_benchmarks.measuring.goals import Goal, goals_as_json, print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import MeasurementError, Report, run
from groundline_benchmarks.measuring.suite import started_suite, working_directory

_MISSED_EXIT_CODE: Final = 1
_REPLICAS: Final = 2
_TOKENS: Final = 20
"""Tokens of each answer; they take a fifth of a second."""


@click.command()
@click.option(
    "--fault",
    "names",
    type=click.Choice(list(FAULTS)),
    multiple=True,
    help="Only this one; may be given several times.",
)
@number("--seconds", 60.0, "How long each fault lasts; a short one hides what hangs as long as it does.")
@database_option
@json_option
def chaos(names: Sequence[str], seconds: float, database_url: str | None, as_json: bool) -> None:
    """Measure faults, one after the other, in a suite of its own under load: two gateways, two of each
    service.

    Searches, chats and hand-ins come all the time, each with a word that only one document has, so that a
    wrong answer is recognised. Exits with 1 if a bound is missed.

    The server of --database-url is stopped for a while, and one of its processes killed.
    """

    async def measure(report: Report) -> list[FaultFigures]:
        with working_directory(None) as directory:
            report(f"starting a suite of {_REPLICAS} replicas")
            async with (
                serving_provider(Provider(tokens=_TOKENS)) as provider,
                suite_database(database_url) as environment,
                started_suite(
                    directory, {**provider.environment, **environment}, replicas=_REPLICAS
                ) as suite,
            ):
                connection = suite.connection
                try:
                    async with (
                        second_gateway(suite, directory) as gateway,
                        prepared_load([connection.gateway, gateway], connection.api_key) as load,
                        other_client(gateway, NEIGHBOUR_KEY) as neighbour,
                    ):
                        rig = Rig(suite, provider, neighbour)
                        return [
                            await measure_fault(name, FAULTS[name], rig, load, seconds, report)
                            for name in names or FAULTS
                        ]
                except httpx.HTTPError as error:
                    raise MeasurementError(f"the suite does not answer: {type(error).__name__}") from error

    found = run(measure)
    if as_json:
        print_json({"faults": [_as_json(figures) for figures in found]})
    else:
        _print(found)
    if not all(goal.is_met for figures in found for goal in figures.goals()):
        raise SystemExit(_MISSED_EXIT_CODE)


def _print(found: Sequence[FaultFigures]) -> None:
    print_columns(
        (
            "FAULT",
            "DURING",
            *(outcome.upper() for outcome in Outcome),
            "FAILED %",
            "SLOWEST S",
            "FROM 3 S ON",
        ),
        [
            (
                figures.name,
                len(figures.during),
                *(figures.counts(figures.during).get(outcome, 0) for outcome in Outcome),
                figures.failed_percent,
                figures.slowest_seconds,
                figures.slowest_later_seconds,
            )
            for figures in found
        ],
    )
    print_goals(
        [
            Goal(f"{figures.name}: {goal.name}", goal.figure, goal.limit, goal.is_minimum)
            for figures in found
            for goal in figures.goals()
        ]
    )


def _as_json(figures: FaultFigures) -> dict[str, object]:
    return {
        "fault": figures.name,
        "counts": {outcome.value: count for outcome, count in figures.counts().items()},
        "countsDuring": {outcome.value: count for outcome, count in figures.counts(figures.during).items()},
        "reasons": dict(figures.reasons),
        "failedPercent": figures.failed_percent,
        "slowestSeconds": figures.slowest_seconds,
        "slowestLaterSeconds": figures.slowest_later_seconds,
        "wellAfterSeconds": figures.well_after_seconds,
        "settled": figures.is_settled,
        "bestRate": figures.best_rate,
        "goodput": figures.goodput,
        "aloneSeconds": figures.alone_seconds,
        "searchSeconds": figures.search_seconds,
        "lost": list(figures.lost),
        "doubled": list(figures.doubled),
        "goals": goals_as_json(figures.goals()),
    }
