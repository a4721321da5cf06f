"""groundline calibrate"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from groundline_client import AsyncClient, JsonObject

from groundline_cli.commands.evaluation_work import question_bar
from groundline_cli.commands.gateway import all_of, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.answers import is_right
from groundline_cli.evaluation.asking import Journal, ask_all
from groundline_cli.evaluation.calibrating import LEAST_ANSWERS, cross_validated, fitted, mapped
from groundline_cli.evaluation.figures import ANSWER_MEASURES, lowest_confidence
from groundline_cli.evaluation.making.rated import rated_questions
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet, Query
from groundline_cli.terminal import print_columns

_RIGHT: Final = (0.9, 0.95, 0.99)
_LEAST_OF_EACH: Final = 5


@click.command(short_help="Fit the confidence of answers to what is right.")
@click.argument("collection")
@click.option(
    "--set",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="An evaluation set about the documents of COLLECTION.",
)
@click.option(
    "--from-feedback", is_flag=True, help="Ask again the questions whose answers you rated, in your threads."
)
@click.option("--concurrency", type=click.IntRange(1, 32), default=4, show_default=True)
@click.option("--apply", is_flag=True, help="Make the map a setting of COLLECTION.")
@with_gateway
def calibrate(
    connection: Connection,
    collection: str,
    folder: Path | None,
    from_feedback: bool,
    concurrency: int,
    apply: bool,
) -> None:
    """Ask questions of COLLECTION whose right answers are known, and fit a map from the confidence of an
    answer to the probability that it is right.

    The figures behind AFTER are those of answers that the map was not fitted on (five parts, each by the four
    others). Below them stands from which confidence on answers may be given by themselves.

    With --apply the map counts at once for questions to COLLECTION alone. It may be fitted again at any time,
    since what is fitted is the confidence before the map.
    """
    if (folder is None) == (not from_feedback):
        raise click.UsageError("give --set FOLDER, or --from-feedback")

    async def work(client: AsyncClient) -> list[tuple[float, float]]:
        uris = [document.uri for document in await all_of(client.list_documents(collection))]
        queries = await _rated(client, uris) if folder is None else _of_set(folder, uris)
        with question_bar("asking", len(queries)) as advance:
            outcomes = await ask_all(
                client,
                queries,
                collection,
                concurrency=concurrency,
                journal=Journal(None, ""),
                on_answer=advance,
            )
        return [
            (outcome.raw_confidence, float(is_right(query, outcome)))
            for query in queries
            if not (outcome := outcomes[query.query_id]).refused and not outcome.error
        ]

    answers = run(connection, work)
    _require_enough(answers)
    points = fitted(answers)
    _print(answers, points)
    if not apply:
        click.echo(f"not applied: with --apply this becomes the calibration of {collection}", err=True)
        return
    calibration: JsonObject = {
        "points": [{"confidence": stated, "probability": right} for stated, right in points]
    }
    settings: JsonObject = {"calibration": calibration}
    mask = ["settings.calibration"]
    run(connection, lambda client: client.update_collection(collection, settings=settings, update_mask=mask))
    click.echo(f"{collection}: the confidence of its answers is calibrated by {len(answers)} answers")


def _of_set(folder: Path, uris: Sequence[str]) -> Sequence[Query]:
    try:
        return EvaluationSet.load(folder, stored=uris).queries
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error


async def _rated(client: AsyncClient, uris: Sequence[str]) -> Sequence[Query]:
    return [
        Query(one.draft_id, one.question, dict.fromkeys(one.uris, 1), answerable=one.is_answerable)
        for one in await rated_questions(client, set(uris))
        if one.is_complete and not one.is_follow_up
    ]


def _require_enough(answers: Sequence[tuple[float, float]]) -> None:
    right = sum(one for _, one in answers)
    if len(answers) < LEAST_ANSWERS or min(right, len(answers) - right) < _LEAST_OF_EACH:
        raise CommandFailedError(
            f"{len(answers)} answers were given, {right:.0f} of them right: too few to fit a map; at least "
            f"{LEAST_ANSWERS} are needed, {_LEAST_OF_EACH} of them right and {_LEAST_OF_EACH} wrong"
        )


def _print(answers: Sequence[tuple[float, float]], points: Sequence[tuple[float, float]]) -> None:
    """Print the figures before and after, and the lines from which on answers may be given by themselves."""
    after = cross_validated(answers)
    [error] = [one.statistic for one in ANSWER_MEASURES if one.name == "calibration_error"]
    rows = [("answers, and the share that is right", f"{len(answers)}", f"{_mean(answers):.3f}")]
    for title, statistic in (("expected calibration error", error), ("Brier score", _brier)):
        rows.append((title, f"{statistic(answers):.3f}", f"{statistic(after):.3f}"))
    print_columns(("", "BEFORE", "AFTER"), rows)
    for right in _RIGHT:
        # A map that rises changes no order.
        found = lowest_confidence(answers, right)
        if found is None:
            click.echo(f"no line has {right:.2f} of the answers above it right")
        else:
            click.echo(
                f"at a line of {mapped(points, found[0]):.2f}, {found[1]:.2f} of the answers are given by "
                f"themselves with {right:.2f} of them right"
            )


def _mean(answers: Sequence[tuple[float, float]]) -> float:
    return sum(right for _, right in answers) / len(answers)


def _brier(answers: Sequence[Sequence[float]]) -> float:
    return sum((stated - right) ** 2 for stated, right in answers) / len(answers)
