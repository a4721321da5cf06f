"""groundline rollout-check"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import GatewayError

from groundline_cli.commands.evaluation_tables import print_losses
from groundline_cli.commands.evaluation_work import measured_collection, question_bar
from groundline_cli.commands.gateway import json_option, with_gateway
from groundline_cli.connection import Connection, ConnectionSettingsError, find_connection
from groundline_cli.evaluation.figures import ANSWERS
from groundline_cli.evaluation.loading import set_settings
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.profiles import CONFIG_FILE
from groundline_cli.rollout.measuring import SEARCHES, Before, Kind, Release, measure
from groundline_cli.rollout.verdict import Assessment, Bounds, Decision, judge
from groundline_cli.terminal import print_columns, print_json, printable

_EXIT_CODES: Final = {Decision.PASS: 0, Decision.FAIL: 1, Decision.UNKNOWN: 2}
_COLOURS: Final = {Decision.PASS: "green", Decision.FAIL: "red", Decision.UNKNOWN: "yellow"}
_INTERRUPTED_EXIT_CODE: Final = 130


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Extent and bounds of a check."""

    directory: Path
    collection: str | None
    baseline: Path | None
    save: Path | None
    language: str
    rounds: int
    answers: int
    timeout: float
    bounds: Bounds


@click.command("rollout-check", short_help="Check a release beside the one before it.")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--collection",
    metavar="NAME",
    help="Collection to load the set into, where it stays. Default: eval-<folder>. Without corpus.jsonl: the "
    "collection that the set is about.",
)
@click.option(
    "--beside",
    metavar="URL",
    help="Gateway of the release before, with the same key and the same collection. Both get the same "
    "questions, in turn.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Figures of the release before, from --save, if it can no longer be asked.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the figures of a release that passes, as the --baseline of the next one.",
)
@click.option("--language", default="english", show_default=True, help="Lexical language of a loaded set.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Number of times that the set is searched: the first one is compared, all are timed.",
)
@click.option(
    "--answers",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Ask the first N questions for an answer, too; a language model is paid for each.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Judge by what has been measured by then. A request that takes half as long has failed.",
)
@click.option(
    "--max-errors",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Failed requests that are accepted, and answers degraded more often than before.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    metavar="X",
    help="Drop of a measure that is accepted, and any of which p is .05 or more.",
)
@click.option(
    "--max-slowdown",
    type=click.FloatRange(min=1),
    default=2,
    show_default=True,
    metavar="FACTOR",
    help="How many times as long 95 % of the requests may take, and any factor of which p is .05 or more.",
)
@json_option
@with_gateway
def rollout_check(
    connection: Connection,
    /,
    beside: str | None,
    max_errors: int,
    max_drop: float,
    max_slowdown: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Check a release beside the one before it, and say whether it may take its place.

    DIRECTORY is an evaluation set, as for `eval`. The gateway is asked its questions: searches as the
    collection's settings make them, and answers. The release fails if requests fail or are degraded, if it
    finds or answers less, and not by chance (a paired test, p below .05), or if it is slower, likewise. Those
    that fail and are made good by a retry count as well. The questions that became worse are named.

    With neither --beside nor --baseline only failures count: so the first release gets its --save.

    Exit codes: 0 it passes, 1 it fails, 2 that could not be told (wrong usage, a gateway that cannot be
    reached, fewer than 6 questions with figures, a release before that fails, too), 130 stopped.
    """
    if beside and options["baseline"]:
        raise click.UsageError("--beside and --baseline are two ways to say what came before: give one")
    wanted = _Wanted(bounds=Bounds(max_errors, max_drop, max_slowdown), **options)
    try:
        other = _beside(connection, beside) if beside else None
        result = run_interruptible(_checked(connection, other, wanted))
    except ConnectionSettingsError as error:
        raise click.UsageError(str(error)) from error
    except (DatasetError, GatewayError) as error:
        result = Assessment(Decision.UNKNOWN, [str(error)])
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED_EXIT_CODE) from None
    if as_json:
        print_json(result.as_json())
    else:
        _print(result)
    raise SystemExit(_EXIT_CODES[result.verdict])


def _beside(connection: Connection, url: str) -> Connection:
    return find_connection(url, connection.api_key, directory=Path.cwd(), config_file=CONFIG_FILE)


async def _checked(connection: Connection, beside: Connection | None, wanted: _Wanted) -> Assessment:
    """Ask and judge. Raises DatasetError, and GatewayError where nothing could be asked yet."""
    before = Before.read(wanted.baseline) if wanted.baseline else None
    settings = set_settings(wanted.language)
    async with AsyncExitStack() as stack:
        # The release before is known to work; that the new one does not is to be found, not stumbled over.
        known = await stack.enter_async_context((beside or connection).client())
        dataset, collection = await stack.enter_async_context(
            measured_collection(known, wanted.directory, wanted.collection, settings, keep=True)
        )
        releases = [
            Release.at(one, dataset, collection, timeout_seconds=wanted.timeout / 2)
            for one in (connection, beside)
            if one is not None
        ]
        for release in releases:
            await stack.enter_async_context(release.client)
        searches: list[tuple[Kind, Any]] = [(SEARCHES, query) for query in dataset.judged] * wanted.rounds
        questions = [*searches, *((ANSWERS, query) for query in dataset.queries[: wanted.answers])]
        if not questions:
            raise DatasetError(f"{wanted.directory}: no question has a relevant document, and none is asked")
        with question_bar("asking", len(questions)) as advance:
            try:
                async with asyncio.timeout(wanted.timeout):
                    await measure(
                        releases, questions, max_failures=wanted.bounds.max_errors, on_question=advance
                    )
            except TimeoutError:
                click.echo(f"not all was asked within {wanted.timeout:g} s", err=True)
    result = judge(releases[0], releases[1].as_before() if beside else before, wanted.bounds)
    if wanted.save and result.verdict is Decision.PASS:
        releases[0].save(wanted.save)
    return result


def _print(result: Assessment) -> None:
    rows = [
        (f"{one.group}: {one.title}", one.before, one.after, one.probability, one.questions)
        for one in result.differences
    ]
    rows += [
        (f"{one.kind}: 95 % within, s", one.before, one.now, one.probability, one.requests)
        for one in result.slowdowns
    ]
    print_columns(("", "BEFORE", "NOW", "P", "NUMBER"), rows)
    for reason in result.reasons:
        click.echo(printable(reason))
    print_losses(result.losses)
    verdict = click.style(result.verdict, fg=_COLOURS[result.verdict])
    click.echo(
        f"{verdict}: {result.requests} requests answered, {result.errors} failed, {result.degraded} degraded"
    )
